"""Runs the executors of agent frameworks on a2a-scribe, each framework in an environment of its own.

    python tests/frameworks/run.py [--environments FOLDER] [NAME ...]

Makes one virtual environment per framework, installs this project and the framework there with plain pip, and runs the
framework's checks. Needs nothing but the standard library. The exit code is 1 if one of them failed.
"""

import argparse
import os
import re
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parent.parent
TOOLS = ('pytest>=9', 'anyio>=4.10')
PASSED = re.compile(r'^(?!.*\b(?:failed|errors?|skipped)\b).*\b(\d+) passed\b', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Framework:
    """What to install, and which file checks it."""

    name: str
    requirements: tuple[str, ...]
    checks: str
    extras: str = ''
    """Of this project, in brackets."""

    @property
    def stamp(self) -> str:
        """Says what an environment was made from: another text means that it has to be made anew."""
        project = (PROJECT / 'pyproject.toml').read_text(encoding='utf-8')
        return '\n'.join([sys.version, *TOOLS, *self.requirements, self.extras, project])


FRAMEWORKS = (
    Framework('google-adk', ('google-adk[a2a]==2.13.*',), 'check_google_adk.py', extras='[grpc]'),
    Framework('agent-framework', ('agent-framework-a2a==1.0.0b261022',), 'check_agent_framework.py'),
    Framework('langgraph', ('langgraph>=1.2,<2',), 'check_langgraph.py'),
)


def install(framework: Framework, environments: Path) -> Path:
    """Return the Python of the framework's environment, made or renewed where that is due."""
    home = environments / f'framework-{framework.name}'
    python = home / ('Scripts/python.exe' if os.name == 'nt' else 'bin/python')
    stamp = home / 'made-from.txt'
    if python.exists() and stamp.exists() and stamp.read_text(encoding='utf-8') == framework.stamp:
        return python
    print(f'{framework.name}: installing {", ".join(framework.requirements)}', flush=True)
    venv.EnvBuilder(with_pip=True, clear=True).create(home)
    pip = [str(python), '-m', 'pip', 'install', '--quiet', '--disable-pip-version-check']
    project = f'{PROJECT}{framework.extras}'
    subprocess.run([*pip, '--editable', project, *framework.requirements, *TOOLS], check=True)
    stamp.write_text(framework.stamp, encoding='utf-8')
    return python


def check(framework: Framework, python: Path) -> bool:
    """Run the checks and show what they print."""
    options = ['-c', str(HERE / 'pytest.ini'), '--rootdir', str(PROJECT)]
    command = [str(python), '-m', 'pytest', *options, str(HERE / framework.checks)]
    done = subprocess.run(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout, flush=True)
    passed = PASSED.search(done.stdout)
    if done.returncode or passed is None:
        print(f'{framework.name}: FAILED with exit code {done.returncode}', flush=True)
        return False
    print(f'{framework.name}: {passed[1]} passed, 0 failed', flush=True)
    return True


def run(framework: Framework, environments: Path) -> bool:
    try:
        return check(framework, install(framework, environments))
    except subprocess.CalledProcessError as error:
        print(f'{framework.name}: FAILED to install, pip ended with exit code {error.returncode}', flush=True)
        return False


def main() -> int:
    parser = argparse.ArgumentParser(description='Run the executors of agent frameworks on a2a-scribe.')
    parser.add_argument('names', nargs='*', metavar='NAME', help='the frameworks to run, all of them by default')
    parser.add_argument('--environments', type=Path, default=PROJECT / '.venvs', help='where the environments go')
    options = parser.parse_args()
    unknown = set(options.names) - {framework.name for framework in FRAMEWORKS}
    if unknown:
        parser.error(f'no such framework: {", ".join(sorted(unknown))}')
    chosen = [framework for framework in FRAMEWORKS if not options.names or framework.name in options.names]
    outcomes = [run(framework, options.environments.resolve()) for framework in chosen]
    return 0 if all(outcomes) else 1


if __name__ == '__main__':
    sys.exit(main())

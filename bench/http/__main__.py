"""`python -m bench.http`: the benchmark over HTTP, or `--smoke` for a short run that judges no speed."""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from rich.console import Console

from bench.databases import default_parent
from bench.http import chart, report
from bench.http.plan import FULL, SMOKE, Plan
from bench.http.runner import Runner
from bench.http.systems import OURS, SYSTEMS, System
from bench.options import parser, selection, unknown

RESULTS: Final = Path(__file__).parents[1] / 'results'
WIDTH: Final = 140


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser(
        'python -m bench.http', f'{OURS.title} and its peers behind HTTP, in one run.', SYSTEMS
    ).parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else WIDTH, log_path=False)
    plan = SMOKE if options.smoke else FULL
    plan = plan if options.rounds is None else replace(plan, rounds=options.rounds)
    systems = tuple(SYSTEMS[name] for name in options.system or SYSTEMS)
    missing = [system.title for system in systems if not system.is_installed]
    if missing:
        console.print(f'{", ".join(missing)} is not installed here; see --system')
        return 2
    known = [workload.name for workload in plan.workloads]
    if wrong := unknown(options.only, known):
        console.print(f'no part is called {", ".join(wrong)}; there are {", ".join(known)}')
        return 2
    return _run(options, plan, systems, console)


def _run(options: argparse.Namespace, plan: Plan, systems: tuple[System, ...], console: Console) -> int:
    parent = options.work or default_parent()
    folder = options.output or (RESULTS / 'smoke' if plan.is_smoke else RESULTS)
    known = [workload.name for workload in plan.workloads]
    with tempfile.TemporaryDirectory(prefix='bench-http-', dir=parent) as work:
        runner = Runner(plan, Path(work), systems, selection(options.only, known), console.log)
        results = runner.run()
    results.environment = report.environment(parent, systems)
    report.show(results, console, is_judged=not plan.is_smoke)
    report.write(results, folder, is_judged=not plan.is_smoke)
    chart.draw(results, folder)
    console.print(f'written to {folder}')
    return 0 if results.is_sound else 1


if __name__ == '__main__':
    sys.exit(main())

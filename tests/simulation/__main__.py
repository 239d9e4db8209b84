"""`python -m tests.simulation`: runs seeds, shows those that fail.

python -m tests.simulation --seed 123 [--trace]
python -m tests.simulation --seeds 10000
python -m tests.simulation --seeds 5000..6000
"""

import argparse
import gc
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from tests.simulation.scenario import Result, run

CHUNK = 100
SHOWN = 5
"""Failing seeds that are shown with their traces."""


def run_some(seeds: range) -> tuple[int, list[Result]]:
    """Runs seeds in a worker; returns how many steps they took, and those that failed."""
    failed, steps = [], 0
    for seed in seeds:
        result = run(seed)
        steps += result.steps
        if result.violations:
            failed.append(result)
        if seed % 50 == 0:
            gc.collect()
    return steps, failed


def show(result: Result, *, trace: bool) -> None:
    """Prints what came of a seed."""
    if trace:
        print(result.trace)
    for violation in result.violations:
        print(f'seed {result.seed}: {violation}')
    if not result.violations:
        print(f'seed {result.seed}: all invariants hold, {result.steps} steps')


def run_many(seeds: range, workers: int) -> int:
    """Runs seeds in several processes; returns how many failed."""
    began, done, failed, steps = time.monotonic(), 0, 0, 0
    chunks = [seeds[at : at + CHUNK] for at in range(0, len(seeds), CHUNK)]
    with ProcessPoolExecutor(workers) as pool:
        for chunk, (some_steps, results) in zip(chunks, pool.map(run_some, chunks), strict=True):
            done, steps = done + len(chunk), steps + some_steps
            for result in results:
                failed += 1
                if failed <= SHOWN:
                    show(result, trace=True)
                else:
                    show(result, trace=False)
            if sys.stderr.isatty():
                print(f'\r{done} of {len(seeds)} seeds, {failed} failed', end='', file=sys.stderr)
    seconds = time.monotonic() - began
    print(f'{done} seeds, {steps} steps, {seconds:.0f} s, {1000 * seconds / done:.1f} ms a seed: {failed} failed')
    return failed


def _range_of(text: str) -> range:
    first, dots, last = text.partition('..')
    return range(int(first), int(last) + 1) if dots else range(int(first))


def main() -> int:
    """Runs what the command line asks for."""
    parser = argparse.ArgumentParser(prog='python -m tests.simulation', description='Deterministic simulation.')
    parser.add_argument('--seed', type=int, help='one seed')
    parser.add_argument('--trace', action='store_true', help='print what happened, also if all went well')
    parser.add_argument('--seeds', type=_range_of, default=range(1000), help='how many seeds, or FIRST..LAST')
    parser.add_argument('--workers', type=int, default=os.cpu_count() or 1, help='processes that run seeds')
    given = parser.parse_args()
    if given.seed is None:
        return 1 if run_many(given.seeds, given.workers) else 0
    result = run(given.seed)
    show(result, trace=given.trace or bool(result.violations))
    return 1 if result.violations else 0


if __name__ == '__main__':
    sys.exit(main())

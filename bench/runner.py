"""Runs a plan: one child process per measurement, rounds of both systems side by side.

The only part that starts processes. What a child could not measure is a failure with its last lines, never a figure.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from bench.children import MeasurementError, last_line, reason, run_module
from bench.databases import Source
from bench.durability import judge, settings_problems, shown_in
from bench.names import TITLES
from bench.options import Selection
from bench.plan import LIMIT_DATABASE, MEMORY_DATABASE, Plan, Workload
from bench.results import Key, Results, Verdict
from bench.spec import Sample, Spec
from bench.systems import OURS, System

ASSUMED_BODY_BYTES: Final = 120
SIGKILLED: Final = -9
CHILD: Final = 'bench.child'


@dataclass(frozen=True, slots=True)
class Prepared:
    url: str
    task_id: str


class Runner:
    """One run. `is_selected` answers for a workload's name, 'limit', 'memory' and 'durability'."""

    def __init__(
        self,
        plan: Plan,
        sources: dict[str, Source],
        systems: tuple[System, ...],
        is_selected: Selection,
        say: Callable[[str], None],
    ) -> None:
        self._plan = plan
        self._sources = sources
        self._systems = systems
        self._is_selected = is_selected
        self._say = say
        self.results = Results(workloads=[item for item in plan.workloads if is_selected(item.name)])

    def run(self) -> Results:
        if OURS in self._systems and self._is_selected('durability'):
            self._check_durability()
        self._measure_workloads()
        if OURS in self._systems and self._is_selected('memory'):
            self._measure_memory()
        return self.results

    # -- workloads

    def _measure_workloads(self) -> None:
        prepared = dict(self._prepare_databases())
        for number in range(self._plan.rounds):
            for workload in self.results.workloads:
                for database in workload.databases:
                    self._measure_side_by_side(workload, database, number, prepared)
            if self._is_selected('limit') and LIMIT_DATABASE in self._sources:
                self._measure_limit()
        for key, item in prepared.items():
            self._sources[key.database].drop(item.url)

    def _prepare_databases(self) -> Iterator[tuple[Key, Prepared]]:
        for workload in self.results.workloads:
            for database in workload.databases if workload.is_prepared else ():
                for system in self._contenders(workload, database):
                    yield from self._prepare(Key(workload.name, database, system.name), workload)

    def _prepare(self, key: Key, workload: Workload) -> Iterator[tuple[Key, Prepared]]:
        url = self._sources[key.database].create()
        spec = Spec(f'prepare-{workload.kind}', key.system, url, size=workload.size)
        sample = self._attempt(f'{key.system} prepares {workload.name} on {key.database}', spec)
        if sample is None:
            self._sources[key.database].drop(url)
        else:
            yield key, Prepared(url, sample.task_id)

    def _measure_side_by_side(
        self, workload: Workload, database: str, number: int, prepared: dict[Key, Prepared]
    ) -> None:
        for system in self._contenders(workload, database):
            if number < workload.rounds.get(system.name, self._plan.rounds):
                self._measure(workload, Key(workload.name, database, system.name), prepared)

    def _contenders(self, workload: Workload, database: str) -> list[System]:
        if database not in self._sources:
            return []
        return [item for item in self._systems if item.name in workload.repeats and database in item.databases]

    def _measure(self, workload: Workload, key: Key, prepared: dict[Key, Prepared]) -> None:
        if not workload.is_prepared:
            with self._database(key.database) as url:
                sample = self._attempt(_name(key), _spec(workload, key, url))
        elif key in prepared:
            item = prepared[key]
            sample = self._attempt(_name(key), _spec(workload, key, item.url, item.task_id))
        else:
            return
        if sample is not None:
            self.results.samples.setdefault(key, []).append(sample)
            self._say(f'{_name(key)}: {sample.wall / sample.units * 1000:.3f} ms per {workload.unit}')

    def _measure_limit(self) -> None:
        """As many rows as ours stored, as long as they were."""
        ours = self.results.samples.get(Key('tasks-64', LIMIT_DATABASE, OURS.name), [])
        figures = ours[-1].figures if ours else {}
        rows = int(figures.get('rows', self._plan.limit_rows))
        size = round(figures.get('body_bytes', ASSUMED_BODY_BYTES))
        with self._database(LIMIT_DATABASE) as url:
            sample = self._attempt('limit', Spec('limit', OURS.name, url, size=size, repeats=rows))
        if sample is not None:
            self.results.limit.append(sample)
            self._say(f'limit: {sample.wall / sample.units * 1e6:.2f} µs per row of {size} bytes')

    # -- memory

    def _measure_memory(self) -> None:
        if MEMORY_DATABASE not in self._sources:
            return
        self.results.memory_cases = list(self._plan.memory)
        for case in self._plan.memory:
            for _ in range(case.rounds):
                with self._database(MEMORY_DATABASE) as url:
                    sample = self._attempt(f'memory: {case.title}', Spec(case.name, OURS.name, url, size=case.size))
                if sample is not None:
                    self.results.memory.setdefault(case.name, []).append(sample)
                    self._say(f'memory: {case.title}: {_figures(sample)}')

    # -- durability

    def _check_durability(self) -> None:
        chunks = self._plan.killed_chunks
        for database in self._sources:
            title = TITLES[database]
            self._check_killed(f'{title}: killed at its last event', database, chunks, after=chunks + 2)
            self._check_killed(f'{title}: killed in the middle', database, chunks, after=chunks // 2)

    def _check_killed(self, name: str, database: str, chunks: int, after: int) -> None:
        with self._database(database) as url:
            spec = Spec('die', OURS.name, url, size=chunks, repeats=after)
            done = run_module(CHILD, spec.to_json(), self._plan.timeout)
            if done.returncode != SIGKILLED:
                verdict = Verdict(name, [f'it was not killed: {reason(done.stderr) or done.returncode}'])
            else:
                verdict = self._judged(name, database, url, done.stdout, after)
        self.results.verdicts.append(verdict)
        self._say(f'durability: {name}: {"; ".join(verdict.problems) or "all there"}')

    def _judged(self, name: str, database: str, url: str, output: str, after: int) -> Verdict:
        shown = shown_in(output)
        problems = asyncio.run(judge(url, shown))
        if shown.events != after:
            problems.append(f'{shown.events} events were shown where {after} are due')
        again = self._attempt(name, Spec('read-back', OURS.name, url, task_id=shown.task_id))
        settings = again.settings if again is not None else {}
        if again is not None and again.figures['chunks'] < len(shown.chunks):
            problems.append(f'GetTask gives {again.figures["chunks"]:g} of {len(shown.chunks)} chunks that were shown')
        return Verdict(
            name,
            problems + settings_problems(database, settings),
            {'shown': shown.events, 'settings': settings},
        )

    # -- children

    @contextmanager
    def _database(self, name: str) -> Iterator[str]:
        source = self._sources[name]
        url = source.create()
        try:
            yield url
        finally:
            source.drop(url)

    def _attempt(self, name: str, spec: Spec) -> Sample | None:
        """The child's sample, or None and a failure in the results."""
        failures = self.results.failures if spec.system is OURS else self.results.peer_failures
        try:
            sample = self._sample(spec)
        except MeasurementError as error:
            failures.append(f'{name}: {error}')
            self._say(f'[red]{name}: failed[/red]')
            return None
        failures.extend(f'{name}: {problem}' for problem in sample.problems)
        return sample

    def _sample(self, spec: Spec) -> Sample:
        return Sample.from_json(last_line(run_module(CHILD, spec.to_json(), self._plan.timeout)))


def _spec(workload: Workload, key: Key, url: str, task_id: str = '') -> Spec:
    return Spec(
        kind=workload.kind,
        system_name=key.system,
        url=url,
        size=workload.size,
        repeats=workload.repeats[key.system],
        concurrency=workload.concurrency,
        task_id=task_id,
    )


def _name(key: Key) -> str:
    return f'{key.workload} on {key.database}, {key.system}'


def _figures(sample: Sample) -> str:
    return ', '.join(f'{name} {value:.1f}' for name, value in sample.figures.items())

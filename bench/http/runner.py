"""Runs a plan: a server and a load for each measurement, all systems side by side in each round.

What could not be measured is a failure with the load's last words, never a figure.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from bench.children import MeasurementError, last_line, run_module
from bench.databases import SqliteFiles
from bench.http.plan import Plan, Workload
from bench.http.processes import load, serving, settings
from bench.http.results import Key, Results
from bench.http.spec import LoadSpec, Sample, ServerSpec
from bench.http.systems import OURS, System
from bench.options import Selection
from bench.spec import Sample as Seeded
from bench.spec import Spec as Seed

NO_RECORDING = 'there is no answer of a2a-scribe to give'


@dataclass(frozen=True, slots=True)
class Prepared:
    """A database that was filled before, and its task."""

    url: str
    task_id: str


class Runner:
    """One run; `folder` takes its databases and files."""

    def __init__(
        self,
        plan: Plan,
        folder: Path,
        systems: tuple[System, ...],
        is_selected: Selection,
        say: Callable[[str], None],
    ) -> None:
        self._plan = plan
        self._folder = folder
        self._databases = SqliteFiles(folder)
        self._systems = systems
        self._say = say
        self._prepared: dict[Key, Prepared] = {}
        self.results = Results(workloads=[item for item in plan.workloads if is_selected(item.name)])

    def run(self) -> Results:
        for workload in self.results.workloads:
            self._prepare(workload)
            self._record(workload)
        for number in range(self._plan.rounds):
            for workload in self.results.workloads:
                for system in _rotated(self._contenders(workload), number):
                    self._measure(workload, system)
        return self.results

    # -- before the rounds

    def _prepare(self, workload: Workload) -> None:
        """Fill the databases that are only read, with what the other benchmark reads."""
        for system in self._contenders(workload) if workload.is_prepared else ():
            if not system.seeds_as:
                continue
            url = self._databases.create()
            seed = Seed(f'prepare-{workload.kind}', system.seeds_as, url, size=workload.size)
            with self._failures_of(workload, system):
                done = run_module('bench.child', seed.to_json(), self._plan.timeout)
                self._prepared[Key(workload.name, system.name)] = Prepared(
                    url, Seeded.from_json(last_line(done)).task_id
                )

    def _record(self, workload: Workload) -> None:
        """Have ours answer once as it will under this load: what the limit repeats."""
        if not any(system.is_recorded for system in self._contenders(workload)):
            return
        with self._failures_of(workload, OURS), self._served(workload, OURS) as spec:
            load(replace(spec, recording=str(self._recording(workload))), self._plan.timeout)

    # -- in the rounds

    def _contenders(self, workload: Workload) -> list[System]:
        return [system for system in self._systems if system in workload.systems]

    def _measure(self, workload: Workload, system: System) -> None:
        with self._failures_of(workload, system):
            sample = self._sample(workload, system)
            self.results.samples.setdefault(Key(workload.name, system.name), []).append(sample)
            self._say(f'{workload.name}, {system.name}: {sample.units / sample.wall:,.0f} {workload.unit}s per second')

    def _sample(self, workload: Workload, system: System) -> Sample:
        with self._served(workload, system) as spec:
            sample = Sample.from_json(load(spec, self._plan.timeout))
            return replace(sample, settings=settings(spec.port) if system.is_durable else {})

    @contextmanager
    def _served(self, workload: Workload, system: System) -> Iterator[LoadSpec]:
        """A server for one measurement, as what the load has to know."""
        recording = self._recording(workload)
        if system.is_recorded and not recording.exists():
            raise MeasurementError(NO_RECORDING)
        with (
            self._database(workload, system) as prepared,
            serving(ServerSpec(system.name, prepared.url, str(recording)), self._folder / 'server.log') as server,
        ):
            yield LoadSpec(
                kind=workload.kind,
                dialect=system.dialect,
                port=server.port,
                pid=server.pid,
                size=workload.size,
                connections=workload.connections,
                seconds=self._plan.seconds,
                task_id=prepared.task_id,
                is_checked=not system.is_recorded,
            )

    @contextmanager
    def _database(self, workload: Workload, system: System) -> Iterator[Prepared]:
        """The prepared database; or an empty one, for as long as it is needed."""
        if workload.is_prepared and not system.is_recorded:
            found = self._prepared.get(Key(workload.name, system.name))
            if found is None:
                raise MeasurementError('its database could not be prepared')
            yield found
            return
        url = self._databases.create() if system.is_durable else ''
        try:
            yield Prepared(url, '')
        finally:
            if url:
                self._databases.drop(url)

    @contextmanager
    def _failures_of(self, workload: Workload, system: System) -> Iterator[None]:
        """What goes wrong is in the results, and the run goes on."""
        try:
            yield
        except MeasurementError as error:
            failures = self.results.failures if system is OURS else self.results.peer_failures
            failures.append(f'{workload.name}, {system.name}: {error}')
            self._say(f'[red]{workload.name}, {system.name}: failed[/red]')

    def _recording(self, workload: Workload) -> Path:
        return self._folder / f'{workload.name}.json'


def _rotated(systems: list[System], number: int) -> list[System]:
    """Each round begins with another system, so that none is always measured after the same one."""
    start = number % len(systems) if systems else 0
    return systems[start:] + systems[:start]

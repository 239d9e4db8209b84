"""What a run found, and the figures that follow from it. Pure: no processes, no files."""

from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from bench.plan import MemoryCase, Workload
from bench.spec import Sample
from bench.systems import OURS, PEER, System


@dataclass(frozen=True, slots=True)
class Key:
    workload: str
    database: str
    system: str


@dataclass(slots=True)
class Verdict:
    """One durability check."""

    name: str
    problems: list[str]
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Results:
    environment: dict[str, str] = field(default_factory=dict)
    workloads: list[Workload] = field(default_factory=list)
    samples: dict[Key, list[Sample]] = field(default_factory=dict)
    limit: list[Sample] = field(default_factory=list)
    memory_cases: list[MemoryCase] = field(default_factory=list)
    memory: dict[str, list[Sample]] = field(default_factory=dict)
    verdicts: list[Verdict] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    peer_failures: list[str] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        """Nothing of ours failed, and all that was shown was stored. Speed is judged elsewhere."""
        return not self.failures and not any(verdict.problems for verdict in self.verdicts)

    def wall(self, workload: str, database: str, system: System) -> float | None:
        """Seconds per unit: the median over the rounds."""
        return _median([sample.wall / sample.units for sample in self._of(workload, database, system)])

    def cpu_per_event(self, workload: str, database: str, system: System) -> float | None:
        return _median([sample.cpu / sample.events for sample in self._of(workload, database, system)])

    def cpu_per_row(self, workload: str, database: str) -> float | None:
        """Our CPU seconds per stored record: what the bare inserts are compared with."""
        samples = [sample for sample in self._of(workload, database, OURS) if sample.figures.get('rows')]
        return _median([sample.cpu / sample.figures['rows'] for sample in samples])

    def speedup(self, workload: str, database: str, peer: System = PEER) -> float | None:
        """How many times faster ours is than the peer."""
        return quotient(self.wall(workload, database, peer), self.wall(workload, database, OURS))

    def limit_wall(self) -> float | None:
        return _median([sample.wall / sample.units for sample in self.limit])

    def limit_cpu(self) -> float | None:
        return _median([sample.cpu / sample.units for sample in self.limit])

    def memory_figure(self, case: str, figure: str) -> float | None:
        return _median([sample.figures[figure] for sample in self.memory.get(case, []) if figure in sample.figures])

    def settings(self) -> dict[str, str]:
        """The durability settings in force, for each system and database that was measured."""
        found = {
            f'{key.system} on {key.database}': _spoken(sample.settings)
            for key, samples in self.samples.items()
            for sample in samples
            if sample.settings
        }
        if self.limit:
            found['limit on sqlite'] = _spoken(self.limit[-1].settings)
        return dict(sorted(found.items()))

    def _of(self, workload: str, database: str, system: System) -> list[Sample]:
        return self.samples.get(Key(workload, database, system.name), [])

    def to_json(self) -> dict[str, Any]:
        """Every sample of every round, and the medians."""
        return {
            'environment': self.environment,
            'settings': self.settings(),
            'workloads': [self._workload_json(key, samples) for key, samples in self.samples.items()],
            'limit': [asdict(sample) for sample in self.limit],
            'memory': {name: [asdict(sample) for sample in samples] for name, samples in self.memory.items()},
            'durability': [asdict(verdict) for verdict in self.verdicts],
            'failures': self.failures,
            'peer_failures': self.peer_failures,
        }

    def _workload_json(self, key: Key, samples: list[Sample]) -> dict[str, Any]:
        return {
            **asdict(key),
            'seconds_per_unit': median(sample.wall / sample.units for sample in samples),
            'cpu_seconds_per_unit': median(sample.cpu / sample.units for sample in samples),
            'samples': [asdict(sample) for sample in samples],
        }


def quotient(dividend: float | None, divisor: float | None) -> float | None:
    return dividend / divisor if dividend is not None and divisor else None


def _median(values: list[float]) -> float | None:
    return median(values) if values else None


def _spoken(settings: dict[str, str]) -> str:
    return ', '.join(f'{name}={value}' for name, value in settings.items())

"""What a run found, and the figures that follow from it. Pure: no processes, no files."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from bench.http.plan import Workload
from bench.http.spec import Sample
from bench.http.systems import OURS, SYSTEMS, System
from bench.results import quotient


@dataclass(frozen=True, slots=True)
class Key:
    workload: str
    system: str


@dataclass(slots=True)
class Results:
    environment: dict[str, str] = field(default_factory=dict)
    workloads: list[Workload] = field(default_factory=list)
    samples: dict[Key, list[Sample]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    peer_failures: list[str] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        """Nothing of ours failed. Speed is judged elsewhere."""
        return not self.failures

    def rate(self, workload: str, system: System) -> float | None:
        """Units per second: the median over the rounds, as everywhere here."""
        return self._median(workload, system, lambda sample: sample.units / sample.wall)

    def p50(self, workload: str, system: System) -> float | None:
        return self._median(workload, system, lambda sample: sample.p50)

    def p99(self, workload: str, system: System) -> float | None:
        return self._median(workload, system, lambda sample: sample.p99)

    def server_cpu(self, workload: str, system: System) -> float | None:
        """Seconds per unit, of all threads of the server."""
        return self._median(workload, system, lambda sample: sample.server_cpu / sample.units)

    def load_share(self, workload: str, system: System) -> float | None:
        """How much of a core the load used."""
        return self._median(workload, system, lambda sample: sample.load_cpu / sample.wall)

    def messages(self, workload: str, system: System) -> float | None:
        """In how many messages an app sent its answer."""
        return self._median(workload, system, lambda sample: sample.messages)

    def speedup(self, workload: str, peer: System) -> float | None:
        """How many times the peer's rate is ours."""
        return quotient(self.rate(workload, OURS), self.rate(workload, peer))

    def share_of_limit(self, workload: str, limit: System) -> float | None:
        """Our units per second of the server's CPU, over those of the bare app."""
        return quotient(self.server_cpu(workload, limit), self.server_cpu(workload, OURS))

    def settings(self) -> dict[str, str]:
        """The durability settings in force."""
        found = {
            SYSTEMS[key.system].title: ', '.join(f'{name}={value}' for name, value in samples[-1].settings.items())
            for key, samples in self.samples.items()
        }
        return {title: settings for title, settings in sorted(found.items()) if settings}

    def to_json(self) -> dict[str, Any]:
        """Every sample of every round, and the medians."""
        return {
            'environment': self.environment,
            'settings': self.settings(),
            'workloads': [self._workload_json(key, samples) for key, samples in self.samples.items()],
            'failures': self.failures,
            'peer_failures': self.peer_failures,
        }

    def _workload_json(self, key: Key, samples: list[Sample]) -> dict[str, Any]:
        system = SYSTEMS[key.system]
        return {
            **asdict(key),
            'units_per_second': self.rate(key.workload, system),
            'p50_seconds': self.p50(key.workload, system),
            'p99_seconds': self.p99(key.workload, system),
            'server_cpu_seconds_per_unit': self.server_cpu(key.workload, system),
            'samples': [asdict(sample) for sample in samples],
        }

    def _median(self, workload: str, system: System, figure: Callable[[Sample], float]) -> float | None:
        samples = self.samples.get(Key(workload, system.name), [])
        return median(map(figure, samples)) if samples else None

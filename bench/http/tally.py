"""What the timed part of a load did, and what it took."""

import math
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import psutil  # type: ignore[import-untyped]

from bench.http.client import Answer
from bench.http.spec import Sample

KEPT: Final = 20


@dataclass(slots=True)
class Tally:
    """Sums, latencies, and the newest answers for a closer look afterwards."""

    server: psutil.Process
    latencies: list[float] = field(default_factory=list)
    newest: deque[Answer] = field(default_factory=lambda: deque(maxlen=KEPT))
    units: int = 0
    messages: int = 0
    wall: float = 0.0
    server_cpu: float = 0.0
    load_cpu: float = 0.0

    @contextmanager
    def timed(self) -> Iterator[None]:
        server, load, wall = self._server_cpu(), time.process_time(), time.perf_counter()
        yield
        self.wall += time.perf_counter() - wall
        self.load_cpu += time.process_time() - load
        self.server_cpu += self._server_cpu() - server

    def add(self, latency: float, answer: Answer, units: int) -> None:
        self.latencies.append(latency)
        self.newest.append(answer)
        self.units += units
        self.messages += answer.messages

    def sample(self) -> Sample:
        ordered = sorted(self.latencies)
        return Sample(
            wall=self.wall,
            server_cpu=self.server_cpu,
            load_cpu=self.load_cpu,
            units=self.units,
            calls=len(ordered),
            p50=percentile(ordered, 0.5),
            p99=percentile(ordered, 0.99),
            messages=self.messages / len(ordered),
        )

    def _server_cpu(self) -> float:
        """Of user and system, of all of its threads; the system counts in steps of 10 ms."""
        times = self.server.cpu_times()
        return float(times.user + times.system)


def percentile(ordered: Sequence[float], share: float) -> float:
    """By nearest rank: a value that was really measured."""
    return ordered[math.ceil(share * len(ordered)) - 1]

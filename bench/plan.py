"""What a run consists of: its workloads and their sizes, in full and in small.

The peer's counts are small because its streams cost in proportion to the square of their length; a count changes how
long a figure is averaged over, not what it is a figure of.
"""

from dataclasses import dataclass
from typing import Final

from bench.names import DATABASES, SQLITE
from bench.systems import OURS, PEER, PEER_WAL


@dataclass(frozen=True, slots=True)
class Workload:
    """`repeats`: how often per measurement, for each system that takes part; `rounds`: the most rounds of one."""

    name: str
    kind: str
    title: str
    unit: str
    size: int
    repeats: dict[str, int]
    rounds: dict[str, int]
    concurrency: int = 1
    databases: tuple[str, ...] = DATABASES
    is_prepared: bool = False


@dataclass(frozen=True, slots=True)
class MemoryCase:
    name: str
    title: str
    size: int
    rounds: int


@dataclass(frozen=True, slots=True)
class Plan:
    rounds: int
    workloads: tuple[Workload, ...]
    memory: tuple[MemoryCase, ...]
    killed_chunks: int
    limit_rows: int
    timeout: float
    is_smoke: bool


def tasks(concurrency: int, peer: int, ours: int) -> Workload:
    return Workload(
        name=f'tasks-{concurrency}',
        kind='tasks',
        title=f'10-chunk task, concurrency {concurrency}',
        unit='task',
        size=10,
        repeats={PEER.name: peer, PEER_WAL.name: peer, OURS.name: ours},
        rounds={},
        concurrency=concurrency,
    )


def stream(size: int, peer: int, ours: int, peer_rounds: int = 99) -> Workload:
    return Workload(
        name=f'stream-{size}',
        kind='stream',
        title=f'stream of {size:,} chunks',
        unit='event',
        size=size,
        repeats={PEER.name: peer, PEER_WAL.name: peer, OURS.name: ours} if peer else {OURS.name: ours},
        rounds={PEER.name: peer_rounds, PEER_WAL.name: peer_rounds},
    )


def read(kind: str, title: str, size: int, peer: int, ours: int) -> Workload:
    return Workload(
        name=kind,
        kind=kind,
        title=title,
        unit='call',
        size=size,
        repeats={PEER.name: peer, OURS.name: ours},
        rounds={},
        is_prepared=True,
    )


FULL: Final = Plan(
    rounds=3,
    workloads=(
        tasks(1, peer=20, ours=500),
        tasks(16, peer=48, ours=3_200),
        tasks(64, peer=128, ours=6_400),
        stream(100, peer=3, ours=100),
        stream(1_000, peer=1, ours=20),
        stream(3_000, peer=1, ours=8, peer_rounds=1),
        stream(10_000, peer=0, ours=3),
        read('get', 'GetTask of 1,000 chunks', 1_000, peer=50, ours=300),
        read('list', 'ListTasks, 50 of 10,000', 10_000, peer=10, ours=50),
    ),
    memory=(
        MemoryCase('finished', '5,000 finished tasks', 5_000, rounds=3),
        MemoryCase('open', '1,000 open tasks', 1_000, rounds=3),
        MemoryCase('statuses', '100,000 statuses with 1 KB of metadata', 100_000, rounds=1),
        MemoryCase('messages', '100,000 statuses with 1 KB of message', 100_000, rounds=1),
        MemoryCase('resets', '10,000 resets of an artifact', 10_000, rounds=1),
        MemoryCase('slow-commits', '100,000 chunks, commits 5 ms slower', 100_000, rounds=1),
    ),
    killed_chunks=5_000,
    limit_rows=100_000,
    timeout=900,
    is_smoke=False,
)

SMOKE: Final = Plan(
    rounds=1,
    workloads=(
        tasks(1, peer=3, ours=20),
        tasks(16, peer=16, ours=64),
        stream(100, peer=1, ours=2),
        stream(300, peer=0, ours=1),
        read('get', 'GetTask of 100 chunks', 100, peer=5, ours=5),
        read('list', 'ListTasks, 50 of 100', 100, peer=3, ours=3),
    ),
    memory=(
        MemoryCase('finished', '100 finished tasks', 100, rounds=1),
        MemoryCase('open', '48 open tasks', 48, rounds=1),
        MemoryCase('statuses', '500 statuses with 1 KB of metadata', 500, rounds=1),
        MemoryCase('messages', '500 statuses with 1 KB of message', 500, rounds=1),
        MemoryCase('resets', '500 resets of an artifact', 500, rounds=1),
        MemoryCase('slow-commits', '1,000 chunks, commits 5 ms slower', 1_000, rounds=1),
    ),
    killed_chunks=200,
    limit_rows=2_000,
    timeout=120,
    is_smoke=True,
)

LIMIT_DATABASE: Final = SQLITE
MEMORY_DATABASE: Final = SQLITE

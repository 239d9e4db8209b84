"""What a run consists of, in full and in small. A measurement lasts for some seconds, however fast its system is."""

from dataclasses import dataclass
from typing import Final

from bench.http.systems import FASTA2A, LIMIT, LIMIT_SINGLY, OURS, SDK_DATABASE, SDK_MEMORY, System

TASK_SYSTEMS: Final = (SDK_DATABASE, SDK_MEMORY, FASTA2A, OURS, LIMIT)
STREAM_SYSTEMS: Final = (*TASK_SYSTEMS, LIMIT_SINGLY)
SUBSCRIBED_SYSTEMS: Final = (SDK_DATABASE, SDK_MEMORY, OURS)
READ_SYSTEMS: Final = (SDK_DATABASE, OURS)


@dataclass(frozen=True, slots=True)
class Workload:
    name: str
    kind: str
    title: str
    unit: str
    size: int
    connections: int
    systems: tuple[System, ...]
    is_prepared: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """`seconds`: of each measurement, within which calls begin; those that have begun are counted to their end."""

    rounds: int
    seconds: float
    workloads: tuple[Workload, ...]
    timeout: float
    is_smoke: bool


def tasks(connections: int) -> Workload:
    title = f'one-chunk task, {_spoken(connections)}'
    return Workload(f'tasks-{connections}', 'tasks', title, 'task', 1, connections, TASK_SYSTEMS)


def streams(size: int, connections: int) -> Workload:
    title = f'stream of {size} chunks, {_spoken(connections)}'
    return Workload(f'streams-{connections}', 'streams', title, 'event', size, connections, STREAM_SYSTEMS)


def subscribers(size: int, connections: int) -> Workload:
    title = f'one task of {size} chunks, {connections} subscribers'
    return Workload('subscribers', 'subscribers', title, 'event', size, connections, SUBSCRIBED_SYSTEMS)


def read(kind: str, title: str, size: int, systems: tuple[System, ...]) -> Workload:
    return Workload(kind, kind, title, 'call', size, 1, systems, is_prepared=True)


def _spoken(connections: int) -> str:
    return f'{connections} connection{"s" if connections > 1 else ""}'


FULL: Final = Plan(
    rounds=5,
    seconds=4.0,
    workloads=(
        tasks(1),
        tasks(16),
        tasks(64),
        streams(100, 1),
        streams(100, 16),
        subscribers(500, 50),
        read('get', 'GetTask of 1,000 chunks', 1_000, (*READ_SYSTEMS, LIMIT)),
        read('list', 'ListTasks, 100 of 10,000', 10_000, (*READ_SYSTEMS, LIMIT)),
    ),
    timeout=900,
    is_smoke=False,
)

SMOKE: Final = Plan(
    rounds=1,
    seconds=0.2,
    workloads=(
        tasks(4),
        streams(20, 4),
        subscribers(20, 5),
        read('get', 'GetTask of 100 chunks', 100, READ_SYSTEMS),
        read('list', 'ListTasks, 100 of 150', 150, READ_SYSTEMS),
    ),
    timeout=60,
    is_smoke=True,
)

"""The least that a full run has to show (acceptance of the wire): judged there alone, never by a timed unit test."""

from collections.abc import Callable
from typing import Final

from bench.floors import Floor
from bench.http.results import Results
from bench.http.systems import FASTA2A, LIMIT_SINGLY, SDK_DATABASE, SDK_MEMORY, System


def speedup(workload: str, peer: System) -> Callable[[Results], float | None]:
    return lambda results: results.speedup(workload, peer)


def share_of_limit(workload: str) -> Callable[[Results], float | None]:
    return lambda results: results.share_of_limit(workload, LIMIT_SINGLY)


def over(peer: System, what: str, workload: str, bound: float) -> Floor[Results]:
    return Floor(f'{what}, to {peer.title}', speedup(workload, peer), bound, is_least=True)


FLOORS: Final[tuple[Floor[Results], ...]] = (
    over(SDK_DATABASE, 'tasks, 16 connections', 'tasks-16', 30),
    over(SDK_DATABASE, 'streams, 16 connections', 'streams-16', 60),
    over(SDK_MEMORY, 'tasks, 16 connections', 'tasks-16', 6),
    over(SDK_MEMORY, 'streams, 16 connections', 'streams-16', 6),
    over(FASTA2A, 'tasks, 1 connection', 'tasks-1', 1.0),
    over(FASTA2A, 'tasks, 16 connections', 'tasks-16', 0.8),
    over(FASTA2A, 'tasks, 64 connections', 'tasks-64', 1.0),
    over(FASTA2A, 'streams, 1 connection', 'streams-1', 1.3),
    over(FASTA2A, 'streams, 16 connections', 'streams-16', 1.3),
    Floor('events per CPU, 1 connection, to a bare app', share_of_limit('streams-1'), 0.3, is_least=True),
    Floor('events per CPU, 16 connections, to a bare app', share_of_limit('streams-16'), 0.3, is_least=True),
    over(SDK_DATABASE, 'GetTask', 'get', 8),
    over(SDK_DATABASE, 'ListTasks', 'list', 15),
)

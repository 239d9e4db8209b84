"""The least that a full run has to show. Judged by the full benchmark alone, never by a timed unit test."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from bench.names import POSTGRESQL, SQLITE
from bench.results import Results, quotient
from bench.systems import OURS
from bench.tables import NONE, Grid

WORDS: Final = {True: 'pass', False: 'FAIL', None: 'not measured'}

R = TypeVar('R')
Figure = Callable[[Results], float | None]


@dataclass(frozen=True, slots=True)
class Floor(Generic[R]):
    """A figure and its bound: `is_least` tells a lower bound from an upper one."""

    name: str
    figure: Callable[[R], float | None]
    bound: float
    is_least: bool
    unit: str = 'x'

    def holds(self, results: R) -> bool | None:
        """None where the run did not measure it."""
        value = self.figure(results)
        if value is None:
            return None
        return value >= self.bound if self.is_least else value <= self.bound

    @property
    def spoken_bound(self) -> str:
        return f'{"at least" if self.is_least else "at most"} {self.bound:g} {self.unit}'

    def spoken(self, results: R) -> str:
        value = self.figure(results)
        if value is None:
            return NONE
        return f'{value:.3g} {self.unit}' if value < 100 else f'{value:.0f} {self.unit}'


def judged(floors: Iterable[Floor[R]], results: R) -> Grid:
    rows = [(floor.name, floor.spoken_bound, floor.spoken(results), WORDS[floor.holds(results)]) for floor in floors]
    return Grid('Floors', ('figure', 'bound', 'measured', 'verdict'), rows)


def judged_json(floors: Iterable[Floor[R]], results: R) -> list[dict[str, object]]:
    return [
        {
            'name': floor.name,
            'bound': floor.spoken_bound,
            'measured': floor.figure(results),
            'holds': floor.holds(results),
        }
        for floor in floors
    ]


def speedup(workload: str, database: str) -> Figure:
    return lambda results: results.speedup(workload, database)


def memory(case: str, figure: str) -> Figure:
    return lambda results: results.memory_figure(case, figure)


def cpu_growth(results: Results) -> float | None:
    long = results.cpu_per_event('stream-10000', SQLITE, OURS)
    return quotient(long, results.cpu_per_event('stream-100', SQLITE, OURS))


def cpu_over_limit(results: Results) -> float | None:
    return quotient(results.cpu_per_row('tasks-64', SQLITE), results.limit_cpu())


FLOORS: Final[tuple[Floor[Results], ...]] = (
    Floor('small tasks, concurrency 1, SQLite', speedup('tasks-1', SQLITE), 15, is_least=True),
    Floor('small tasks, concurrency 16, SQLite', speedup('tasks-16', SQLITE), 60, is_least=True),
    Floor('stream of 1,000 chunks, SQLite', speedup('stream-1000', SQLITE), 100, is_least=True),
    Floor('stream of 1,000 chunks, PostgreSQL', speedup('stream-1000', POSTGRESQL), 60, is_least=True),
    Floor('CPU per event, 10,000 chunks to 100', cpu_growth, 1.5, is_least=False),
    Floor('CPU per row over bare sqlite3, concurrency 64', cpu_over_limit, 12, is_least=False),
    Floor('memory after 5,000 finished tasks', memory('finished', 'growth'), 25, is_least=False, unit='MB'),
    Floor('memory of 1,000 open tasks', memory('open', 'growth'), 40, is_least=False, unit='MB'),
    Floor('memory after 100,000 statuses', memory('statuses', 'growth'), 10, is_least=False, unit='MB'),
    Floor('memory after 10,000 resets', memory('resets', 'growth'), 10, is_least=False, unit='MB'),
    Floor(
        'most memory at slow commits, over the text', memory('slow-commits', 'highest'), 60, is_least=False, unit='MB'
    ),
    Floor(
        "another client's task at slow commits",
        memory('slow-commits', 'small_task_worst_ms'),
        200,
        is_least=False,
        unit='ms',
    ),
)

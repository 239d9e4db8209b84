"""What is asked of a server, once: each call here is one call of a client, from its request to the finished task.

Every answer is looked at, so a system that fails fast has no figure.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from bench.http.client import Answer, Connection
from bench.http.dialects import DIALECTS, Dialect, check_list, list_tasks, task_in
from bench.http.spec import LoadSpec


@dataclass(frozen=True, slots=True)
class Done:
    """The last answer, and how many units of work the call brought."""

    answer: Answer
    units: int = 1


Operation = Callable[[LoadSpec, Connection], Awaitable[Done]]


async def run_task(spec: LoadSpec, connection: Connection) -> Done:
    """Send a message and have the finished task; where the server does not wait for it, by asking until it is."""
    dialect = DIALECTS[spec.dialect]
    answer = await connection.send(dialect.send_task(f'work {spec.size}'))
    if dialect.is_running(answer):
        answer = await _poll(dialect, connection, task_in(answer)['id'])
    dialect.check_task(answer, spec.size)
    return Done(answer)


async def _poll(dialect: Dialect, connection: Connection, task_id: str) -> Answer:
    request = dialect.get_task(task_id)
    while True:
        answer = await connection.send(request)
        if not dialect.is_running(answer):
            return answer


async def run_stream(spec: LoadSpec, connection: Connection) -> Done:
    dialect = DIALECTS[spec.dialect]
    answer = await connection.send(dialect.stream_task(f'work {spec.size}'))
    return Done(answer, units=dialect.check_stream(answer, spec.size))


async def get_task(spec: LoadSpec, connection: Connection) -> Done:
    dialect = DIALECTS[spec.dialect]
    answer = await connection.send(dialect.get_task(spec.task_id))
    dialect.check_task(answer, spec.size)
    return Done(answer)


async def list_page(spec: LoadSpec, connection: Connection) -> Done:
    answer = await connection.send(list_tasks())
    check_list(answer, spec.size)
    return Done(answer)


OPERATIONS: Final[dict[str, Operation]] = {
    'tasks': run_task,
    'streams': run_stream,
    'get': get_task,
    'list': list_page,
}
LEAVING_TASKS: Final = ('tasks', 'streams')


async def check_stored(spec: LoadSpec, connection: Connection, answer: Answer) -> None:
    """Look up the task that an answer is about: all that it shows must be there."""
    dialect = DIALECTS[spec.dialect]
    stored = await connection.send(dialect.get_task(task_in(answer)['id']))
    dialect.check_task_in_full(stored, spec.size)

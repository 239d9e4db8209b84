"""The audit log: who asked for what, on which task, and what came of it, as one line of JSON per call.

Bindings make a `Visit` of each call, fill in what they come to know, and say how it ended. Who calls is named as the
owner resolver does; what callers send beside names and ids, their credentials for example, is never written.
"""

import json
import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from a2a.types.a2a_pb2 import SendMessageRequest, Task
from a2a.utils.errors import A2AError

from a2a_scribe.auth.principals import Binding
from a2a_scribe.clock import Clock
from a2a_scribe.core.records import Shown
from a2a_scribe.protocol.faults import fault_of

logger = logging.getLogger('a2a_scribe.audit')

MOST_CHARACTERS: Final = 300
"""Of one field; ids and owners have at most 255."""
OK: Final = 'OK'
CALLER_GONE: Final = 'CALLER_GONE'


@dataclass(slots=True)
class Visit:
    """What is known of one call."""

    binding: Binding
    address: str
    """Where the call came from, as the server says it."""
    owner: str = ''
    operation: str = ''
    """Its name on all bindings; empty for what never came to be one."""
    tenant: str = ''
    task_id: str = ''
    is_over: bool = False
    """Whether it has been told how it ended."""

    def asks(self, operation: str, params: Any, tenant: str) -> None:
        """Notes what is asked for."""
        self.operation, self.tenant, self.task_id = operation, tenant, _task_of(params)


class Audit:
    """Writes the log, if it is on."""

    def __init__(self, clock: Clock, *, is_on: bool) -> None:
        """Lets the lines through, unless the logger has been given a level of its own."""
        self.is_on = is_on
        self._clock = clock
        if is_on and logger.level == logging.NOTSET:
            logger.setLevel(logging.INFO)

    def done(self, visit: Visit, result: object = None) -> None:
        """The call was answered with `result`."""
        if self.is_on and not visit.is_over:
            if isinstance(result, Task):
                visit.task_id = result.id
            self._write(visit, OK)

    def accepted(self, visit: Visit, batch: list[Shown]) -> None:
        """The call is answered by a stream, which begins with `batch`."""
        if self.is_on and not visit.is_over:
            if batch and batch[0].kind == 'task':
                visit.task_id = Task.FromString(batch[0].body).id
            self._write(visit, OK)

    def refused(self, visit: Visit, error: A2AError) -> None:
        """The call was answered with an error: the reason is named, and its class, but not its text."""
        if self.is_on and not visit.is_over:
            self._write(visit, fault_of(error).reason, type(error).__name__)

    def left(self, visit: Visit) -> None:
        """The caller went away before there was an answer; what it asked for may be done all the same."""
        if self.is_on and not visit.is_over:
            self._write(visit, CALLER_GONE)

    def _write(self, visit: Visit, outcome: str, error: str = '') -> None:
        visit.is_over = True
        line = {
            'time': datetime.fromtimestamp(self._clock.now() / 1_000_000, UTC).isoformat(timespec='milliseconds'),
            'binding': visit.binding,
            'operation': visit.operation,
            'owner': visit.owner,
            'tenant': visit.tenant,
            'address': visit.address,
            'task': visit.task_id,
            'outcome': outcome,
            'error': error,
        }
        logger.info('%s', json.dumps({name: _bounded(value) for name, value in line.items() if value}))


def _task_of(params: Any) -> str:
    """Returns the id of the task that a request is about, empty for a new one or several."""
    if isinstance(params, SendMessageRequest):
        return params.message.task_id
    return str(getattr(params, 'task_id', '') or getattr(params, 'id', ''))


def _bounded(value: str) -> str:
    return value if len(value) <= MOST_CHARACTERS else value[:MOST_CHARACTERS] + '...'

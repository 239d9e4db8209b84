"""What the handler hands to the engine: orders that have passed all checks."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Self

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.context import ServerCallContext

from a2a_scribe.core.records import CallerRecord, CancelAsked, decode_cancel, encode_cancel
from a2a_scribe.engine.capacity import Place
from a2a_scribe.engine.contexts import rebuild_context, record_caller
from a2a_scribe.engine.deadlines import DeadlinePolicy
from a2a_scribe.journal.tasks import Caller, StoredTask
from a2a_scribe.protocol.types import Message, SendMessageRequest, Struct, Task, TaskPushNotificationConfig
from a2a_scribe.settings import CrashPolicy

BuildContext = Callable[[SendMessageRequest, ServerCallContext, Task | None], Awaitable[RequestContext]]
"""Makes a `RequestContext` for a request whose message names its task and context."""


@dataclass(frozen=True, slots=True)
class Agent:
    """The executor, how its request contexts are made, and how long it may take."""

    executor: AgentExecutor
    build_context: BuildContext
    deadlines: DeadlinePolicy | None = None


@dataclass(frozen=True, slots=True)
class MessageKey:
    """What makes a message the same as one that was sent before."""

    name: str
    digest: bytes
    """Of all that the message is to lead to."""
    field: str
    """Where the client gave the name, for errors."""


@dataclass(frozen=True, slots=True)
class Order:
    """One accepted message."""

    request: SendMessageRequest
    """With task id and context id filled in."""
    context: RequestContext
    caller: Caller
    caller_record: CallerRecord
    stored: StoredTask | None = None
    """The task that the message continues, as the handler read it."""
    configs: tuple[TaskPushNotificationConfig, ...] = ()
    wants_id: bool = False
    """The caller waits for the task's id rather than for the answer."""
    streams: bool = False
    place: Place | None = None
    """The place that was taken for its turn."""
    key: MessageKey | None = None
    """Given by clients that may send the message again, and want it to be executed once."""


@dataclass(frozen=True, slots=True)
class CrashedTurn:
    """A turn that was running when its server died, for whoever decides what becomes of it."""

    task: Task
    """As it was recorded."""
    message: Message
    """The user's message that the turn was to answer."""
    attempt: int
    """How often the message has been executed, this time included."""


AfterCrash = Callable[[CrashedTurn], CrashPolicy]
"""Decides for one task; must not block."""


@dataclass(frozen=True, slots=True)
class CancelOrder:
    """A task that is to be cancelled."""

    task_id: str
    caller: Caller
    context: ServerCallContext
    metadata: Struct
    """What the client said of it; the executor's `cancel` finds it as its request context's metadata."""

    def encode(self) -> bytes:
        """Returns the order as the process reads it that works on the task."""
        scope = self.caller.scope
        return encode_cancel(CancelAsked(record_caller(self.context, scope.owner, scope.tenant), self.metadata))

    @classmethod
    def decode(cls, task_id: str, caller: Caller, body: bytes) -> Self:
        """Returns an order of another process for the task of `caller`."""
        asked = decode_cancel(body)
        return cls(task_id, caller, rebuild_context(asked.caller), asked.metadata)

"""How far a task has been read, and what the next connection has to ask for. Used by `follow` alone."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import NamedTuple

from a2a.client import Client, ClientCallContext
from a2a.client.service_parameters import with_a2a_extensions
from a2a.types.a2a_pb2 import GetTaskRequest, StreamResponse, SubscribeToTaskRequest
from a2a.utils.errors import UnsupportedOperationError

from a2a_scribe.client.breaks import NotResumableError, StreamEndedError, is_break
from a2a_scribe.protocol.extensions import SEQUENCE_URI
from a2a_scribe.protocol.service_parameters import IDEMPOTENCY_KEY, LAST_EVENT_ID
from a2a_scribe.protocol.states import INPUT_REQUIRED, TERMINAL
from a2a_scribe.protocol.types import (
    SendMessageRequest,
    Task,
    TaskArtifactUpdateEvent,
    TaskEvent,
    TaskState,
)


class Followed(NamedTuple):
    """An event, and its place in the journal of its task."""

    seq: int | None
    """To be given as `after` to go on from here; a direct Message has none."""
    response: StreamResponse


class Reader:
    """Reads one connection after another; knows what was seen, so that nothing is seen twice."""

    def __init__(
        self,
        client: Client,
        what: SendMessageRequest | str,
        after: int | None,
        tenant: str,
        context: ClientCallContext,
    ) -> None:
        """Takes what `follow` takes. Raises: ValueError."""
        self.task_id = ''
        self.seq = after
        """The place of the event that was seen last."""
        self.is_over = False
        """Whether the last event ends the task, or asks for input."""
        self._client = client
        self._context = context
        self._tenant = tenant
        self._request: SendMessageRequest | None = None
        """The message, until its first event has come."""
        self._has_read = False
        self._state: TaskState | None = None
        self._error: Exception | None = None
        if isinstance(what, str):
            self.task_id = what
        elif after is None:
            self._request = SendMessageRequest()
            self._request.CopyFrom(what)
            self._tenant = self._request.tenant = what.tenant or tenant
        else:
            raise ValueError('after goes with the id of a task: what a message leads to has only just begun')

    async def connection(self) -> AsyncGenerator[Followed, None]:
        """Yields what one connection brings that is new, until it ends or breaks. Raises what cannot be retried."""
        self._error = None
        is_answer = self._request is not None
        try:
            async with aclosing(self._responses()) as responses:
                async for response in responses:
                    if self._is_new(response):
                        yield Followed(None if response.HasField('message') else self.seq, response)
        except Exception as error:
            if not is_break(error):
                raise
            self._error = error
        else:
            # The answer to a follow-up begins with the task as it was; if nothing more came, that is how it is.
            self.is_over = self.is_over or (is_answer and self._state == INPUT_REQUIRED)

    def reason_to_reconnect(self) -> Exception:
        """Returns why the last connection ended.

        Raises:
            Exception: The same, if reading cannot go on: nobody knows from where, or whether a message that has no key
                was received.
        """
        error = self._error or StreamEndedError()
        if self._request is not None and not self._has_key:
            raise error
        if self._has_read and self.seq is None:
            raise NotResumableError from error
        return error

    @property
    def _has_key(self) -> bool:
        """Whether the message may be sent again: a server that knows its key does not execute it twice."""
        return any(name.lower() == IDEMPOTENCY_KEY.lower() for name in self._context.service_parameters or {})

    async def _responses(self) -> AsyncGenerator[StreamResponse, None]:
        try:
            async with _closing(self._open()) as stream:
                async for response in stream:
                    yield response
        except UnsupportedOperationError:
            if self._request is not None or self._has_read or self.seq is not None:
                raise
            task = await self._client.get_task(
                GetTaskRequest(id=self.task_id, tenant=self._tenant), context=self._call_context()
            )
            if task.status.state not in TERMINAL:
                raise
            yield StreamResponse(task=task)

    def _open(self) -> AsyncIterator[StreamResponse]:
        context = self._call_context()
        if self._request is not None:
            return self._client.send_message(self._request, context=context)
        return self._client.subscribe(SubscribeToTaskRequest(id=self.task_id, tenant=self._tenant), context=context)

    def _call_context(self) -> ClientCallContext:
        given = self._context.service_parameters or {}
        parameters = {name: value for name, value in given.items() if name.lower() != LAST_EVENT_ID.lower()}
        with_a2a_extensions([SEQUENCE_URI])(parameters)
        if self.seq is not None:
            parameters[LAST_EVENT_ID] = str(self.seq)
        return self._context.model_copy(update={'service_parameters': parameters})

    def _is_new(self, response: StreamResponse) -> bool:
        """Notes what an event says; an event that was seen before, or that this version does not know, says nothing."""
        match response.WhichOneof('payload'):
            case None:
                return False
            case 'message':
                self.is_over = True
                return True
            case kind:
                event: TaskEvent = getattr(response, kind)
        seq = take_sequence(event)
        if self.seq is not None:
            if seq is None:
                raise NotResumableError
            if seq <= self.seq:
                return False
        self.seq = seq
        self._note(event)
        return True

    def _note(self, event: TaskEvent) -> None:
        if not isinstance(event, TaskArtifactUpdateEvent):
            is_follow_up = self._request is not None and self._request.message.task_id != ''
            is_as_found = is_follow_up and isinstance(event, Task)
            self._state = event.status.state
            self.is_over = self._state in TERMINAL or (self._state == INPUT_REQUIRED and not is_as_found)
        self.task_id = self.task_id or (event.id if isinstance(event, Task) else event.task_id)
        self._request = None
        self._has_read = True


def take_sequence(event: TaskEvent) -> int | None:
    """Removes the event's place from its metadata, and returns it."""
    fields = event.metadata.fields
    if SEQUENCE_URI not in fields:
        return None
    value = fields[SEQUENCE_URI]
    seq = int(value.number_value) if value.HasField('number_value') else None
    del fields[SEQUENCE_URI]
    if not fields:
        event.ClearField('metadata')
    return seq


@asynccontextmanager
async def _closing(stream: AsyncIterator[StreamResponse]) -> AsyncIterator[AsyncIterator[StreamResponse]]:
    """Closes a stream at the end; a client of one's own may give iterators that need no closing."""
    try:
        yield stream
    finally:
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()

"""`follow`: all events of a task, each once and in order, over as many connections as it takes."""

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Final

from a2a.client import Client, ClientCallContext
from a2a.types.a2a_pb2 import StreamResponse

from a2a_scribe.client.backoff import Backoff
from a2a_scribe.client.breaks import is_silence
from a2a_scribe.client.reader import Followed, Reader
from a2a_scribe.protocol.types import SendMessageRequest

logger = logging.getLogger(__name__)

BACKOFF: Final = Backoff()
ATTEMPTS: Final = 10


def nowhere(_: StreamResponse) -> bool:
    """Stops at no event."""
    return False


async def follow(
    client: Client,
    what: SendMessageRequest | str,
    *,
    after: int | None = None,
    tenant: str = '',
    until: Callable[[StreamResponse], bool] = nowhere,
    context: ClientCallContext | None = None,
    backoff: Backoff = BACKOFF,
    attempts: int | None = ATTEMPTS,
) -> AsyncGenerator[Followed, None]:
    """Yields each event of a task once and in order, and connects again whenever the connection breaks.

    Ends after a terminal state, `INPUT_REQUIRED`, a direct Message, or an event that `until` says yes to. It goes on
    after `AUTH_REQUIRED`, as agents do; to go on after `INPUT_REQUIRED` too, follow again with `after`. A message is
    sent once: when the connection breaks before the first event, the error is raised, because the message may have been
    received. One that has an `Idempotency-Key` among the service parameters of `context` is sent again: a server that
    knows keys, as a2a-scribe does, executes it once all the same. Whoever stops reading earlier closes the generator
    (`contextlib.aclosing`), which frees the connection.

    A time-out of the client while it waits for the next event of a task means that the agent is silent, so it is no
    failure, however often it comes: who wants to wait for so long and no longer uses `asyncio.timeout`.

    Args:
        client: Of `a2a-sdk`, for any of the three bindings; stays the caller's to close.
        what: A message to send, or the id of a task.
        after: Only what came after this event, for the id of a task. Without it, the task as it is comes first; if it
            has ended, that is all.
        tenant: The task's; a message may have it, too.
        until: Asked about each event after it was yielded.
        context: For every call; two service parameters are added.
        backoff: How long to wait before the next connection.
        attempts: Failures in a row, without an event between them, after which the last error is raised; `None` to try
            for ever.

    Raises:
        A2AError: The server refused, or could not be reached `attempts` times.
        NotResumableError: The connection broke, and the server does not say where its events stand.
        StreamEndedError: The server ended the stream before the first event, or `attempts` times without any.
        ValueError: `after` was given with a message.
    """
    reader = Reader(client, what, after, tenant, context or ClientCallContext())
    failures = 0
    while True:
        failures += 1
        async with aclosing(reader.connection()) as events:
            async for followed in events:
                failures = 0
                yield followed
                if reader.is_over or until(followed.response):
                    return
        if reader.is_over:
            return
        error = reader.reason_to_reconnect()
        if reader.seq is not None and is_silence(error):
            failures = 0
        if attempts is not None and failures >= attempts:
            raise error
        logger.info('The stream of task %s broke after event %s: %s', reader.task_id, reader.seq, error)
        await backoff.wait(failures)

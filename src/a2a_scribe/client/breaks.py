"""What ends a connection: what can be tried again, what cannot, and what only means that the agent said nothing."""

from typing import Any, Final

import httpx
from a2a.client import A2AClientError, A2AClientTimeoutError
from a2a.utils.errors import InternalError

from a2a_scribe.errors import EnvironmentFault

Status = int | str | None
"""An HTTP status, or the name of a gRPC status."""

UNAVAILABLE: Final[tuple[Status, ...]] = (503, 'UNAVAILABLE')
PASSING: Final = (408, 425, 429)
"""Statuses of HTTP that blame the client and may be gone the next time."""
REFUSED: Final = (
    'ALREADY_EXISTS',
    'FAILED_PRECONDITION',
    'INVALID_ARGUMENT',
    'NOT_FOUND',
    'OUT_OF_RANGE',
    'PERMISSION_DENIED',
    'UNAUTHENTICATED',
    'UNIMPLEMENTED',
)
"""Statuses of gRPC that will be the same the next time."""
NO_CONNECTION: Final = (httpx.ConnectTimeout, httpx.PoolTimeout, httpx.WriteTimeout)


class NotResumableError(EnvironmentFault):
    """The stream broke, and its events do not say where it could be continued: read the task with GetTask."""


class StreamEndedError(EnvironmentFault):
    """The server ended the stream too early."""


def is_break(error: Exception) -> bool:
    """Whether the same can be tried again: the network failed, or the server cannot answer now."""
    if isinstance(error, A2AClientError):
        return not _is_refusal(_status_of(error))
    if isinstance(error, InternalError):
        return (error.data or {}).get('retryable') == 'true' or _status_of(error) in UNAVAILABLE
    return isinstance(error, httpx.TransportError)


def is_silence(error: Exception) -> bool:
    """Whether a connection was there and nothing came over it for as long as the client waits."""
    return isinstance(error, A2AClientTimeoutError) and not isinstance(error.__cause__, NO_CONNECTION)


def _is_refusal(status: Status) -> bool:
    if isinstance(status, int):
        return 400 <= status < 500 and status not in PASSING
    return status in REFUSED


def _status_of(error: Exception) -> Status:
    """Returns the status of the answer that an error was made of; gRPC is an extra, so it is known by its looks."""
    cause: Any = error.__cause__
    if isinstance(cause, httpx.HTTPStatusError):
        return cause.response.status_code
    code = getattr(cause, 'code', None)
    return getattr(code(), 'name', None) if callable(code) else None

"""The error table of A2A 1.0.1 (sections 5.4 and 3.3.2), and errors that name the field at fault.

Each error of the protocol has one row: what JSON-RPC, HTTP and gRPC call it, and its reason. Transports shape their
answers from it; the handler and the codec raise what is in it.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from a2a.utils.errors import (
    A2AError,
    ContentTypeNotSupportedError,
    ExtendedAgentCardNotConfiguredError,
    ExtensionSupportRequiredError,
    InternalError,
    InvalidAgentResponseError,
    InvalidParamsError,
    InvalidRequestError,
    JSONParseError,
    MethodNotFoundError,
    PushNotificationNotSupportedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
    VersionNotSupportedError,
)

DOMAIN: Final = 'a2a-protocol.org'
"""Whose reasons these are (section 11.6)."""


class Violation(NamedTuple):
    """A field of a request that is not as it must be."""

    field: str
    """Path of camelCase names and indices."""
    reason: str
    """What it must be; continues the field's name to a sentence."""


class InvalidFieldsError(InvalidParamsError):
    """Fields of the request are missing, or not what they must be (section 3.3.2)."""

    def __init__(self, violations: Sequence[Violation]) -> None:
        """Takes what is wrong, in the order of the request."""
        self.violations = tuple(violations)
        text = '; '.join(f'{field} {reason}' if field else reason for field, reason in self.violations)
        errors = [{'field': field, 'message': reason} for field, reason in self.violations]
        super().__init__(text, data={'errors': errors})


class InvalidFieldError(InvalidFieldsError):
    """One field of the request is not what it must be."""

    def __init__(self, field: str, reason: str) -> None:
        """Names the field by its path, and what it must be."""
        super().__init__([Violation(field, reason)])


class TooLargeError(InvalidRequestError):
    """The request is larger than the server takes."""

    message = 'The request is too large'


class TooLargeFieldError(InvalidFieldError):
    """A field of the request is larger than the server takes."""


class TemporaryError(InternalError):
    """The service is temporarily unavailable; try again."""

    text = 'The service is temporarily unavailable; try again.'
    retry_after = 1
    """Seconds."""

    def __init__(self) -> None:
        """Says that trying again can help."""
        super().__init__(self.text, data={'retryable': 'true'})


class BusyError(TemporaryError):
    """The service has too much to do; try again later. Nothing was done for the request."""

    text = 'The service has too much to do; try again later.'
    retry_after = 2


class UnauthenticatedError(A2AError):
    """The caller is not known: credentials are missing or not valid (section 3.3.2)."""

    message = 'Credentials are missing or not valid'

    def __init__(self, message: str | None = None, challenges: Sequence[str] = ()) -> None:
        """Takes what the client is told, and the values of WWW-Authenticate; those of the card's schemes if absent."""
        super().__init__(message)
        self.challenges = tuple(challenges)


class PermissionDeniedError(A2AError):
    """The caller is known, and may not do this, whether or not there is something to do it with (section 3.3.2)."""

    message = 'The caller lacks the permission'

    def __init__(self, message: str | None = None, challenges: Sequence[str] = ()) -> None:
        """Takes what the client is told, and the values of WWW-Authenticate, if there are any."""
        super().__init__(message)
        self.challenges = tuple(challenges)


class RateError(BusyError):
    """The caller sends more requests than it may."""

    def __init__(self, seconds: int) -> None:
        """Takes after how many seconds there is room for the request."""
        self.text = 'Too many requests: there is a limit for each caller (requests_per_second); try again later.'
        self.retry_after = seconds
        super().__init__()


class TooManyStreamsError(BusyError):
    """As many streams are open as may be."""

    text = 'Too many streams are open (max_streams); try again later.'


class TooManyStreamsOfCallerError(BusyError):
    """As many streams of the caller are open as may be."""

    text = 'Too many streams of this caller are open (max_streams_per_owner); close one first.'


class Fault(NamedTuple):
    """A row of the table."""

    code: int
    """JSON-RPC's error code."""
    http: int
    """HTTP's status."""
    grpc: str
    """The name of gRPC's status."""
    reason: str


FAULTS: Final[dict[type[A2AError], Fault]] = {
    TaskNotFoundError: Fault(-32001, 404, 'NOT_FOUND', 'TASK_NOT_FOUND'),
    TaskNotCancelableError: Fault(-32002, 400, 'FAILED_PRECONDITION', 'TASK_NOT_CANCELABLE'),
    PushNotificationNotSupportedError: Fault(-32003, 400, 'FAILED_PRECONDITION', 'PUSH_NOTIFICATION_NOT_SUPPORTED'),
    UnsupportedOperationError: Fault(-32004, 400, 'FAILED_PRECONDITION', 'UNSUPPORTED_OPERATION'),
    ContentTypeNotSupportedError: Fault(-32005, 400, 'INVALID_ARGUMENT', 'CONTENT_TYPE_NOT_SUPPORTED'),
    InvalidAgentResponseError: Fault(-32006, 500, 'INTERNAL', 'INVALID_AGENT_RESPONSE'),
    ExtendedAgentCardNotConfiguredError: Fault(
        -32007, 400, 'FAILED_PRECONDITION', 'EXTENDED_AGENT_CARD_NOT_CONFIGURED'
    ),
    ExtensionSupportRequiredError: Fault(-32008, 400, 'FAILED_PRECONDITION', 'EXTENSION_SUPPORT_REQUIRED'),
    VersionNotSupportedError: Fault(-32009, 400, 'FAILED_PRECONDITION', 'VERSION_NOT_SUPPORTED'),
    JSONParseError: Fault(-32700, 400, 'INVALID_ARGUMENT', 'PARSE_ERROR'),
    InvalidRequestError: Fault(-32600, 400, 'INVALID_ARGUMENT', 'INVALID_REQUEST'),
    MethodNotFoundError: Fault(-32601, 404, 'UNIMPLEMENTED', 'METHOD_NOT_FOUND'),
    InvalidParamsError: Fault(-32602, 400, 'INVALID_ARGUMENT', 'INVALID_PARAMS'),
    InternalError: Fault(-32603, 500, 'INTERNAL', 'INTERNAL_ERROR'),
    TemporaryError: Fault(-32603, 503, 'UNAVAILABLE', 'INTERNAL_ERROR'),
    BusyError: Fault(-32603, 503, 'RESOURCE_EXHAUSTED', 'INTERNAL_ERROR'),
    RateError: Fault(-32603, 429, 'RESOURCE_EXHAUSTED', 'RATE_LIMITED'),
    TooManyStreamsOfCallerError: Fault(-32603, 429, 'RESOURCE_EXHAUSTED', 'RATE_LIMITED'),
    UnauthenticatedError: Fault(-32000, 401, 'UNAUTHENTICATED', 'UNAUTHENTICATED'),
    PermissionDeniedError: Fault(-32000, 403, 'PERMISSION_DENIED', 'PERMISSION_DENIED'),
}
"""The last two have a code that JSON-RPC leaves to servers and A2A does not use: it begins at -32001."""


def fault_of(error: A2AError) -> Fault:
    """Returns the row of an error, that of the nearest class it inherits from."""
    for kind in type(error).__mro__:
        if found := FAULTS.get(kind):
            return found
    return FAULTS[InternalError]

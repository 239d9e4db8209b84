"""The errors of the protocol as one table (A2A 1.0.1, section 5.4), and what each binding shows of them."""

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

Json = dict[str, Any]
ERROR_INFO = 'type.googleapis.com/google.rpc.ErrorInfo'
BAD_REQUEST = 'type.googleapis.com/google.rpc.BadRequest'


class Fault(NamedTuple):
    """A row of the error table (A2A 1.0.1, section 5.4)."""

    reason: str
    code: int
    http: int
    grpc: str


TASK_NOT_FOUND = Fault('TASK_NOT_FOUND', -32001, 404, 'NOT_FOUND')
TASK_NOT_CANCELABLE = Fault('TASK_NOT_CANCELABLE', -32002, 400, 'FAILED_PRECONDITION')
PUSH_NOT_SUPPORTED = Fault('PUSH_NOTIFICATION_NOT_SUPPORTED', -32003, 400, 'FAILED_PRECONDITION')
UNSUPPORTED_OPERATION = Fault('UNSUPPORTED_OPERATION', -32004, 400, 'FAILED_PRECONDITION')
CONTENT_TYPE_NOT_SUPPORTED = Fault('CONTENT_TYPE_NOT_SUPPORTED', -32005, 400, 'INVALID_ARGUMENT')
INVALID_AGENT_RESPONSE = Fault('INVALID_AGENT_RESPONSE', -32006, 500, 'INTERNAL')
CARD_NOT_CONFIGURED = Fault('EXTENDED_AGENT_CARD_NOT_CONFIGURED', -32007, 400, 'FAILED_PRECONDITION')
EXTENSION_REQUIRED = Fault('EXTENSION_SUPPORT_REQUIRED', -32008, 400, 'FAILED_PRECONDITION')
VERSION_NOT_SUPPORTED = Fault('VERSION_NOT_SUPPORTED', -32009, 400, 'FAILED_PRECONDITION')
PARSE_ERROR = Fault('PARSE_ERROR', -32700, 400, 'INVALID_ARGUMENT')
INVALID_REQUEST = Fault('INVALID_REQUEST', -32600, 400, 'INVALID_ARGUMENT')
METHOD_NOT_FOUND = Fault('METHOD_NOT_FOUND', -32601, 404, 'UNIMPLEMENTED')
INVALID_PARAMS = Fault('INVALID_PARAMS', -32602, 400, 'INVALID_ARGUMENT')
INTERNAL_ERROR = Fault('INTERNAL_ERROR', -32603, 500, 'INTERNAL')
TEMPORARY_ERROR = Fault('INTERNAL_ERROR', -32603, 503, 'UNAVAILABLE')


@dataclass(frozen=True)
class Error:
    """An error as a binding writes it; what the binding does not have is `None`."""

    message: str
    details: list[Json]
    code: int | None = None
    http: int | None = None
    grpc: str | None = None

    def detail(self, kind: str) -> Json:
        """The only detail of a type."""
        (found,) = (each for each in self.details if each.get('@type') == kind)
        return found

    @property
    def reason(self) -> str:
        """What `ErrorInfo`, which comes first, gives as the reason."""
        assert self.details, f'no details: {self}'
        assert self.details[0]['@type'] == ERROR_INFO, f'ErrorInfo is not first: {self}'
        return str(self.details[0]['reason'])

    @property
    def fields(self) -> list[str]:
        """The fields that a validation error names."""
        violations = self.detail(BAD_REQUEST)['fieldViolations']
        assert all(violation['description'] for violation in violations), violations
        return [violation['field'] for violation in violations]

    def must_be(self, fault: Fault) -> Self:
        """Checks every cell of the table that the binding has, and what all errors have."""
        assert self.reason == fault.reason, f'{fault.reason} was expected: {self}'
        assert self.detail(ERROR_INFO)['domain'] == 'a2a-protocol.org', self
        for given, expected in ((self.code, fault.code), (self.http, fault.http), (self.grpc, fault.grpc)):
            assert given in (None, expected), f'{expected} was expected: {self}'
        assert self.message, self
        return self

"""Errors as the three bindings write them (A2A 1.0, sections 9.5, 10.6 and 11.6): the one place that does.

Details are the same on all bindings: `ErrorInfo` first, `BadRequest` for fields, `RetryInfo` where trying again helps.
What is no error of the protocol becomes an internal one whose text says nothing.
"""

import logging
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

import orjson
from a2a.utils.errors import A2AError, InternalError
from google.protobuf import any_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2

from a2a_scribe.protocol.codec.errors import UnencodableError
from a2a_scribe.protocol.faults import (
    DOMAIN,
    PermissionDeniedError,
    TemporaryError,
    UnauthenticatedError,
    Violation,
    fault_of,
)
from a2a_scribe.transport.asgi import NotAllowedError

logger = logging.getLogger(__name__)

TYPE_PREFIX: Final = 'type.googleapis.com/'
MAX_GRPC_TEXT: Final = 2_000
MAX_GRPC_BYTES: Final = 5_000
"""Clients take 8 KiB of metadata; where there is more they tell of a broken connection instead of the error."""
Detail = dict[str, Any]


def as_a2a_error(error: Exception) -> A2AError:
    """Returns what the client is told; logs what it is not told."""
    if isinstance(error, A2AError):
        return error
    if isinstance(error, UnencodableError):
        logger.error('An answer cannot be written as JSON: %s', error)
    else:
        logger.error('A request failed', exc_info=error)
    return InternalError()


def to_rpc(error: A2AError) -> dict[str, Any]:
    """Returns JSON-RPC's error object."""
    return {'code': fault_of(error).code, 'message': _said(error.message), 'data': details_of(error)}


def to_status(error: A2AError, http_status: int | None = None) -> dict[str, Any]:
    """Returns the body of an HTTP+JSON error, whose status may be another than the table's."""
    fault = fault_of(error)
    return {
        'error': {
            'code': http_status or fault.http,
            'status': fault.grpc,
            'message': _said(error.message),
            'details': details_of(error),
        }
    }


def to_grpc_status(error: A2AError) -> status_pb2.Status:
    """Returns what gRPC carries in `grpc-status-details-bin`."""
    status = status_pb2.Status(code=code_pb2.Code.Value(fault_of(error).grpc), message=_short(_said(error.message)))
    for detail in _messages(error):
        small = detail
        if status.ByteSize() + detail.ByteSize() > MAX_GRPC_BYTES:
            if not isinstance(detail, error_details_pb2.ErrorInfo):
                continue
            small = error_details_pb2.ErrorInfo(reason=detail.reason, domain=detail.domain)
        packed = any_pb2.Any()
        packed.Pack(small)
        status.details.append(packed)
    return status


def _short(text: str) -> str:
    """Returns as much of a text as clients of gRPC take, which has it percent-encoded."""
    while len(quote(text, safe=' ')) > MAX_GRPC_TEXT:
        text = text[: len(text) // 2]
    return text


def retry_after(error: A2AError) -> int | None:
    """Returns the seconds after which trying again can help, `None` where it does not."""
    return error.retry_after if isinstance(error, TemporaryError) else None


def error_headers(error: A2AError) -> list[tuple[str, str]]:
    """Returns what HTTP says of an error beside its body."""
    headers = []
    if (seconds := retry_after(error)) is not None:
        headers.append(('retry-after', str(seconds)))
    if isinstance(error, NotAllowedError):
        headers.append(('allow', error.allowed))
    return headers + challenges(error)


def challenges(error: A2AError) -> list[tuple[str, str]]:
    """Returns how a client is to say who it is, as headers or metadata (RFC 9110, section 11.6.1)."""
    if isinstance(error, UnauthenticatedError | PermissionDeniedError):
        return [('www-authenticate', _printable(challenge)) for challenge in error.challenges]
    return []


def _printable(text: str) -> str:
    """Returns what of a text can stand in a header, and in gRPC's metadata; authenticators of users write some."""
    return ''.join(each for each in text if ' ' <= each <= '~')


def details_of(error: A2AError) -> list[Detail]:
    """Returns the details as JSON objects that say their type."""
    details: list[Detail] = []
    for message in _messages(error):
        kind = {'@type': TYPE_PREFIX + message.DESCRIPTOR.full_name}
        match message:
            case error_details_pb2.ErrorInfo():
                shown: Detail = {'reason': message.reason, 'domain': message.domain}
                if message.metadata:
                    shown['metadata'] = dict(message.metadata)
            case error_details_pb2.BadRequest():
                violations = message.field_violations
                shown = {'fieldViolations': [{'field': v.field, 'description': v.description} for v in violations]}
            case _:
                shown = {'retryDelay': f'{message.retry_delay.seconds}s'}
        details.append(kind | shown)
    return details


def _messages(error: A2AError) -> list[Any]:
    info = error_details_pb2.ErrorInfo(reason=fault_of(error).reason, domain=DOMAIN, metadata=_metadata(error))
    messages: list[Any] = [info]
    if violations := _violations(error):
        request = error_details_pb2.BadRequest()
        for field, reason in violations:
            request.field_violations.add(field=field, description=reason)
        messages.append(request)
    if (seconds := retry_after(error)) is not None:
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.seconds = seconds
        messages.append(retry)
    return messages


def _violations(error: A2AError) -> list[Violation]:
    """Returns the fields that an error names, ours and those of `a2a-sdk`'s own checks."""
    errors = error.data.get('errors') if isinstance(error.data, Mapping) else None
    if not isinstance(errors, list):
        return []
    found = [each for each in errors if isinstance(each, Mapping)]
    return [Violation(_said(each.get('field', '')), _said(each.get('message', ''))) for each in found]


def _metadata(error: A2AError) -> dict[str, str]:
    """Returns an error's data as the map of strings that `ErrorInfo` has; agents give their errors data of any kind."""
    if not isinstance(error.data, Mapping):
        return {}
    return {_said(name): _text(value) for name, value in error.data.items() if name != 'errors'}


def _text(value: object) -> str:
    """Returns data as text, as JSON where it can be."""
    if isinstance(value, str):
        return _said(value)
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        return _said(value)


def _said(value: object) -> str:
    """Returns what can be written on every binding: agents give their errors texts and data of any kind."""
    try:
        return str(value).encode('utf-8', 'replace').decode()
    except Exception:  # noqa: BLE001 - an object of the agent's, which may fail as it likes
        return type(value).__name__

"""The body of an HTTP request as JSON, for both bindings that have one."""

import orjson
from a2a.utils.errors import JSONParseError

from a2a_scribe.protocol.size import check_json
from a2a_scribe.settings import Settings
from a2a_scribe.transport.asgi import HttpCall


async def read_json(call: HttpCall, settings: Settings, absent: bytes = b'') -> object:
    """Returns what the body says; `absent` stands for a body of no bytes.

    Raises:
        MediaTypeError: The body is said to be something else than JSON.
        TooLargeError: It has more bytes or more values than the settings allow.
        SlowBodyError: It did not come in time.
        JSONParseError: It is no JSON.
        CallerGoneError: The client went away.
    """
    call.check_media_type()
    body = await call.body(settings.request_bytes, settings.body_timeout) or absent
    check_json(body, settings.request_values)
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise JSONParseError(f'The body is not JSON: {error}') from None

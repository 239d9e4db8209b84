"""One address for clients of both versions: an HTTP request goes where its version is spoken."""

from a2a.utils.errors import InvalidRequestError
from starlette.types import ASGIApp, Receive, Scope, Send

from a2a_scribe.protocol.service_parameters import UNNAMED_VERSION, is_version, service_parameters
from a2a_scribe.transport.asgi import HttpCall


class ByVersion:
    """Two apps at one address, as an ASGI app."""

    def __init__(self, current: ASGIApp, old: ASGIApp) -> None:
        """Takes what speaks 1.0, and refuses what is neither, and what speaks 0.3."""
        self._current = current
        self._old = old

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on."""
        is_old = scope['type'] == 'http' and _is_old(HttpCall(scope, receive, send))
        await (self._old if is_old else self._current)(scope, receive, send)


def _is_old(call: HttpCall) -> bool:
    try:
        query = call.query()
    except InvalidRequestError:
        query = []
    return is_version(service_parameters([*call.headers, *query]).version, UNNAMED_VERSION)

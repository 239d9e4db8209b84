"""Who calls, on every binding alike: asks the server's authenticator before anything of a request is looked at.

An authenticator that fails lets nobody in: the call is answered as an internal error, and nothing of what the failure
says, which may have credentials in it, goes to the client or into the log.
"""

import inspect
import logging
import traceback
from typing import Any

from a2a.server.context import ServerCallContext
from a2a.types.a2a_pb2 import AgentCard, SecurityRequirement, SecurityScheme
from a2a.utils.errors import InternalError

from a2a_scribe.auth.claims import REALM
from a2a_scribe.auth.principals import Authenticate, AuthenticatedUser, Binding, IncomingCall, Principal, schemes_of
from a2a_scribe.protocol.faults import PermissionDeniedError, TemporaryError, UnauthenticatedError
from a2a_scribe.protocol.ids import is_usable
from a2a_scribe.transport.asgi import HttpCall

logger = logging.getLogger(__name__)


async def identify(authenticate: Authenticate, call: IncomingCall, card: AgentCard) -> Principal:
    """Returns whom a call comes from.

    Raises:
        UnauthenticatedError: From nobody who is known; says by which schemes of the card one is.
        PermissionDeniedError: From somebody who may not call.
        TemporaryError: That cannot be found out now.
        InternalError: The authenticator failed.
    """
    try:
        found = authenticate(call)
        principal: object = await found if inspect.isawaitable(found) else found
    except UnauthenticatedError as error:
        if error.challenges:
            raise
        raise UnauthenticatedError(error.message, challenges_of(card)) from None
    except (PermissionDeniedError, TemporaryError):
        raise
    except Exception as error:  # noqa: BLE001 - the user's own code: however it fails, nobody is let in
        frames = ''.join(traceback.format_tb(error.__traceback__))
        logger.error('The authenticator failed: %s\n%s', type(error).__name__, frames)  # noqa: TRY400 - see above
        raise InternalError from None
    name: object = getattr(principal, 'name', None)
    if not isinstance(principal, Principal) or not isinstance(name, str) or not is_usable(name):
        logger.error('The authenticator returned %s, not a Principal with a usable name', type(principal).__name__)
        raise InternalError
    return principal


def http_call(call: HttpCall, binding: Binding) -> IncomingCall:
    """Returns what is known of an HTTP request."""
    client, query = call.scope.get('client'), call.scope.get('query_string') or b''
    url = str(call.scope['path']) + (f'?{query.decode("latin-1")}' if query else '')
    return IncomingCall(binding, call.headers, str(client[0]) if client else '', url)


def note_principal(context: ServerCallContext, principal: Principal | None) -> None:
    """Makes the principal the caller, whoever has built the context."""
    if principal is not None:
        context.user = AuthenticatedUser(principal)


def declare_schemes(card: AgentCard, authenticate: Authenticate | None) -> None:
    """Has a card say how callers are known, any one of the schemes being enough, unless it says so itself."""
    if card.security_schemes or card.security_requirements or card.signatures:
        return
    for name, scheme in schemes_of(authenticate).items():
        card.security_schemes[name].CopyFrom(scheme)
        requirement = SecurityRequirement()
        requirement.schemes[name].SetInParent()
        card.security_requirements.append(requirement)


def challenges_of(card: AgentCard) -> list[str]:
    """Returns what WWW-Authenticate says of the schemes that a card declares (RFC 9110, section 11.6.1)."""
    found = [_challenge(scheme) for scheme in card.security_schemes.values()]
    return list(dict.fromkeys(each for each in found if each)) or [f'Bearer realm="{REALM}"']


def _challenge(scheme: SecurityScheme) -> str:
    kind: Any = scheme.WhichOneof('scheme')
    if kind == 'api_key_security_scheme':
        place = scheme.api_key_security_scheme
        return f'ApiKey realm="{REALM}", in="{_quoted(place.location)}", name="{_quoted(place.name)}"'
    if kind == 'http_auth_security_scheme':
        name = scheme.http_auth_security_scheme.scheme
        return f'{name if name.isalnum() and name.isascii() else "Bearer"} realm="{REALM}"'
    return f'Bearer realm="{REALM}"' if kind in ('oauth2_security_scheme', 'open_id_connect_security_scheme') else ''


def _quoted(text: str) -> str:
    """Returns a text as it stands between quotes; cards are made by people."""
    return ''.join(each for each in text if each.isascii() and each.isprintable() and each not in '"\\')

"""Several ways to be authenticated, of which a call uses one."""

import inspect
from collections.abc import Mapping

from a2a.types.a2a_pb2 import SecurityScheme

from a2a_scribe.auth.principals import Authenticate, IncomingCall, MissingCredentialsError, Principal, schemes_of
from a2a_scribe.errors import SettingsError
from a2a_scribe.protocol.faults import UnauthenticatedError


class AnyOf:
    """Lets in whom one of several authenticators knows."""

    def __init__(self, *authenticators: Authenticate) -> None:
        """Takes authenticators that raise `MissingCredentialsError` for calls without credentials of their kind.

        Raises:
            SettingsError: There is none.
        """
        if not authenticators:
            raise SettingsError('AnyOf needs an authenticator')
        self._authenticators = authenticators
        self.security_schemes: Mapping[str, SecurityScheme] = {
            name: scheme for each in authenticators for name, scheme in schemes_of(each).items()
        }

    async def __call__(self, call: IncomingCall) -> Principal:
        """Returns whom the call comes from.

        Raises:
            UnauthenticatedError: It has no credentials, bad ones, or those of several kinds.
        """
        found: list[Principal] = []
        for authenticate in self._authenticators:
            try:
                result = authenticate(call)
                found.append(await result if inspect.isawaitable(result) else result)
            except MissingCredentialsError:
                continue
        if not found:
            raise MissingCredentialsError
        if len(found) > 1:
            raise UnauthenticatedError('Credentials of more than one kind are given')
        return found[0]

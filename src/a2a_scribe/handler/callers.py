"""Who calls: from a call's context to the scope that bounds every operation (A2A 1.0, section 13.1)."""

from typing import Protocol

from a2a.server.context import ServerCallContext
from a2a.server.owner_resolver import OwnerResolver
from a2a.utils.errors import InvalidParamsError

from a2a_scribe.core.records import CallerRecord
from a2a_scribe.engine.contexts import record_caller
from a2a_scribe.errors import SettingsError
from a2a_scribe.handler.guards import check_id
from a2a_scribe.journal.tasks import Caller
from a2a_scribe.protocol.faults import InvalidFieldError
from a2a_scribe.protocol.ids import is_usable
from a2a_scribe.protocol.types import Scope


class HasTenant(Protocol):
    """A request of A2A: each carries the tenant that the client echoes."""

    @property
    def tenant(self) -> str:
        """The tenant, empty if there is none."""


class Callers:
    """Resolves the callers of one handler."""

    def __init__(self, agent: str, owner_resolver: OwnerResolver) -> None:
        """Takes the agent's name, which is part of every scope.

        Raises:
            SettingsError: The name is too long, or has control characters.
        """
        if agent and not is_usable(agent):
            raise SettingsError('agent: the name must have at most 255 characters, and no control characters')
        self._agent = agent
        self._resolve_owner = owner_resolver

    def of(self, params: HasTenant, context: ServerCallContext) -> Caller:
        """Returns the caller of a request.

        Raises:
            InvalidParamsError: Owner or tenant are too long, or have control characters.
        """
        owner, tenant = self._resolve_owner(context), context.tenant or params.tenant
        if params.tenant and params.tenant != tenant:
            raise InvalidFieldError('tenant', 'is not that of the call')
        if not isinstance(owner, str):
            raise InvalidParamsError('the owner of the request cannot be resolved')
        if owner:
            check_id('owner', owner)
        if tenant:
            check_id('tenant', tenant)
        return Caller(Scope(self._agent, owner, tenant), context)

    def owner_of(self, context: ServerCallContext) -> str:
        """Returns the owner, as far as the context says it; empty if it cannot be resolved."""
        owner: object = self._resolve_owner(context)
        return owner if isinstance(owner, str) else ''

    def record(self, caller: Caller, context: ServerCallContext) -> CallerRecord:
        """Returns what is recorded of a caller with its message."""
        return record_caller(context, caller.scope.owner, caller.scope.tenant)

"""Who called, as the executor sees it: recorded with the turn, and made again from the record.

A turn usually starts in the process that accepted its message, with the caller's own context. Where it does not, the
context is rebuilt from what was recorded: user name, tenant, requested extensions.
"""

from dataclasses import dataclass
from typing import Final

from a2a.auth.user import User
from a2a.server.agent_execution import RequestContext
from a2a.server.context import ServerCallContext

from a2a_scribe.core.records import CallerRecord

RERUN: Final = 'a2a_scribe.rerun'
"""Where an executor finds, in the state of its call context, that it does a turn again."""


@dataclass(frozen=True, slots=True)
class Rerun:
    """A message is executed once more: the server died while it was, or an operator has asked for it."""

    attempt: int
    """Which attempt this is: 2 for the first repetition."""
    last_seq: int
    """The last record of the task when this attempt began; `current_task` shows all up to it."""
    reason: str = 'crash'
    """`crash`, or `operator`."""


def rerun_of(context: RequestContext) -> Rerun | None:
    """Returns what an executor has to know if it executes a message once more; `None` at the first time."""
    found = context.call_context.state.get(RERUN)
    return found if isinstance(found, Rerun) else None


class RecordedUser(User):
    """A user of whom only the name is known any more."""

    def __init__(self, name: str, authenticated: bool) -> None:
        """Takes what was recorded."""
        self._name = name
        self._authenticated = authenticated

    @property
    def is_authenticated(self) -> bool:
        """Whether the user was authenticated when the message was accepted."""
        return self._authenticated

    @property
    def user_name(self) -> str:
        """The user's name."""
        return self._name


def record_caller(context: ServerCallContext, owner: str, tenant: str) -> CallerRecord:
    """Returns what is recorded of a caller."""
    headers = context.state.get('headers')
    traceparent = headers.get('traceparent', '') if isinstance(headers, dict) else ''
    return CallerRecord(
        owner=owner,
        tenant=tenant,
        user_name=_storable(context.user.user_name),
        authenticated=context.user.is_authenticated,
        extensions=tuple(sorted(map(_storable, context.requested_extensions))),
        traceparent=_storable(str(traceparent)),
    )


def _storable(text: str) -> str:
    """Returns what came in headers as text that can be recorded: they may hold halves of characters."""
    return text.encode('utf-8', 'replace').decode()


def rebuild_context(caller: CallerRecord) -> ServerCallContext:
    """Returns a context as much like the original one as the record allows."""
    return ServerCallContext(
        user=RecordedUser(caller.user_name, caller.authenticated),
        tenant=caller.tenant,
        requested_extensions=set(caller.extensions),
    )

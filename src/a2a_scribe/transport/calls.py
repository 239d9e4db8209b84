"""What comes with every request on every binding: version, extensions, tenant, who calls (A2A 1.0, section 3.2.6).

A `Wire` is what the bindings of one app share; it decides whether a call is let in before anything else is looked at.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from a2a.auth.user import UnauthenticatedUser, User
from a2a.server.context import ServerCallContext
from a2a.server.routes import ServerCallContextBuilder
from a2a.server.routes.common import StarletteUser
from a2a.types.a2a_pb2 import AgentCard
from a2a.utils.errors import ExtensionSupportRequiredError
from starlette.requests import Request

from a2a_scribe.auth.principals import Authenticate, Binding, IncomingCall, Principal
from a2a_scribe.clock import Clock, SystemClock
from a2a_scribe.core.records import Shown
from a2a_scribe.handler.handler import DefaultRequestHandler
from a2a_scribe.protocol.extensions import SEQUENCE_URI
from a2a_scribe.protocol.faults import InvalidFieldError
from a2a_scribe.protocol.json import InvalidJsonError, from_dict
from a2a_scribe.protocol.service_parameters import (
    KEY_IN_STATE,
    LAST_EVENT_ID,
    NOTHING,
    SUPPORTED_VERSION,
    UNNAMED_VERSION,
    ServiceParameters,
    check_version,
    parse_event_id,
    service_parameters,
)
from a2a_scribe.settings import Settings
from a2a_scribe.transport.asgi import HttpCall
from a2a_scribe.transport.audit import Visit
from a2a_scribe.transport.authentication import http_call, identify, note_principal
from a2a_scribe.transport.dialects import CURRENT, OLD, Dialect
from a2a_scribe.transport.doors import Doors
from a2a_scribe.transport.events import EventTexts
from a2a_scribe.transport.operations import Operation


class Admission(NamedTuple):
    """A call that was let in."""

    parameters: ServiceParameters
    activated: tuple[str, ...] = ()
    """The extensions that the client asked for and the agent has, in order."""
    dialect: Dialect = CURRENT

    @property
    def old_extensions(self) -> frozenset[str]:
        """What stands under a name that nobody else reads: a user's builder of contexts does not know it."""
        return self.parameters.old_extensions if self.dialect.is_old else frozenset()

    @property
    def wants_sequence(self) -> bool:
        """Whether events are to say their place in the journal."""
        return SEQUENCE_URI in self.activated

    @property
    def headers(self) -> list[tuple[str, str]]:
        """What the answer says of extensions (section 4.6)."""
        return [(self.dialect.extensions, ', '.join(self.activated))] if self.activated else []

    def after(self, operation: Operation) -> int | None:
        """Returns the event after which a stream is to begin, `None` for a new one.

        Raises:
            InvalidParamsError: The client names no event, or means to continue a message that would run again.
        """
        if not operation.starts_at_once and self.parameters.last_event_id:
            raise InvalidFieldError(LAST_EVENT_ID, 'is for SubscribeToTask: a message sent again would run again')
        return parse_event_id(self.parameters.last_event_id)


NOBODY: Final = Admission(NOTHING)
"""A call of which nothing is known but its connection."""


@dataclass(frozen=True)
class Wire:
    """What the bindings of one app share, as far as they speak one version."""

    handler: DefaultRequestHandler
    card: AgentCard
    settings: Settings
    context_builder: ServerCallContextBuilder | None = None
    authenticate: Authenticate | None = None
    clock: Clock = field(default_factory=SystemClock)
    texts: EventTexts = field(default_factory=EventTexts)
    shared: Doors | None = None
    """The doors of another wire, if callers are to be counted together; its own otherwise."""
    serves_old: bool = False
    """Whether the app takes clients of version 0.3 too."""
    dialect: Dialect = CURRENT
    declared: frozenset[str] = field(init=False)
    required: frozenset[str] = field(init=False)
    doors: Doors = field(init=False)

    def __post_init__(self) -> None:
        """Reads the card's extensions; its author may still add some while the server runs."""
        extensions = self.card.capabilities.extensions
        object.__setattr__(self, 'declared', frozenset(each.uri for each in extensions) | {SEQUENCE_URI})
        object.__setattr__(self, 'required', frozenset(each.uri for each in extensions if each.required))
        object.__setattr__(self, 'doors', self.shared or Doors(self.settings, self.clock))
        object.__setattr__(self, 'shared', self.doors)  # so that copies of this one share them

    async def enter_http(self, call: HttpCall, visit: Visit) -> None:
        """Lets an HTTP request in by who sends it, before its body is read. Raises as `identify`, and RateError."""
        if self.authenticate is not None:
            call.principal = await identify(self.authenticate, http_call(call, visit.binding), self.card)
        self.doors.enter(visit, lambda: self._owner_of(call))

    def _owner_of(self, call: HttpCall) -> str:
        """Returns the owner; empty if the user's builder refuses the request, which is then refused once more."""
        try:
            if self.context_builder is None:
                context = _context(call, NOBODY)
            else:
                context = self.context_builder.build(Request(call.scope))
            note_principal(context, call.principal)
            return self.handler.owner_of(context)
        except Exception:  # noqa: BLE001 - code of the user's
            return ''

    async def identify(self, call: IncomingCall) -> Principal | None:
        """Returns whom a call comes from, `None` if nobody asks. Raises as `authentication.identify`."""
        return None if self.authenticate is None else await identify(self.authenticate, call, self.card)

    def for_old(self) -> 'Wire':
        """The same for clients of version 0.3."""
        return replace(self, dialect=OLD)

    def admit(self, parameters: ServiceParameters) -> Admission:
        """Lets a call in.

        Raises:
            VersionNotSupportedError: It is of another version of the protocol (section 3.6.2).
            ExtensionSupportRequiredError: It does not declare an extension that the agent requires (section 4.6.3).
        """
        served = (SUPPORTED_VERSION, UNNAMED_VERSION) if self.serves_old else (SUPPORTED_VERSION,)
        check_version(parameters.version, self.dialect.version, served)
        if self.dialect.is_old and parameters.old_extensions:
            parameters = parameters._replace(extensions=parameters.extensions | parameters.old_extensions)
        asked = parameters.extensions
        if missing := self.required - asked:
            name = self.dialect.extensions
            raise ExtensionSupportRequiredError(f'The agent requires {name}: {", ".join(sorted(missing))}')
        return Admission(parameters, tuple(sorted(asked & self.declared)) if asked else (), self.dialect)

    def admit_http(self, call: HttpCall) -> Admission:
        """Lets an HTTP request in. Raises as `admit`, and InvalidRequestError for a query that is none."""
        return self.admit(service_parameters([*call.headers, *call.query()]))

    def event_writer(self, operation: Operation) -> Callable[[Shown, bool], bytes]:
        """What writes the events of a stream as JSON, with their places in the metadata or without."""
        if operation.event_to_json is not None:
            return operation.event_to_json
        return lambda item, sequenced: self.texts.of(item, sequenced=sequenced)

    def context(self, call: HttpCall, admission: Admission, tenant: str, state: dict[str, Any]) -> ServerCallContext:
        """Returns the context of an HTTP request, by the user's builder if there is one."""
        if self.context_builder is None:
            context = _context(call, admission)
        else:
            context = self.context_builder.build(Request(call.scope))
            context.requested_extensions |= admission.old_extensions
        if tenant and context.tenant and tenant != context.tenant:
            raise InvalidFieldError('tenant', 'is not that of the call')
        context.tenant = context.tenant or tenant
        context.state.update(state)
        note_principal(context, call.principal)
        note_key(context, admission)
        return context


def visit_of(call: HttpCall, binding: Binding) -> Visit:
    """Returns what is known of an HTTP request before anything of it is read."""
    client = call.scope.get('client')
    return Visit(binding, str(client[0]) if client else '')


def _context(call: HttpCall, admission: Admission) -> ServerCallContext:
    """Returns a context with what users of `a2a-sdk` find in its own."""
    state: dict[str, Any] = {'headers': dict(call.headers)}
    if 'auth' in call.scope:
        state['auth'] = call.scope['auth']
    user: User = StarletteUser(call.scope['user']) if 'user' in call.scope else UnauthenticatedUser()
    return ServerCallContext(state=state, user=user, requested_extensions=set(admission.parameters.extensions))


def note_key(context: ServerCallContext, admission: Admission) -> None:
    """Lets the handler know the key of a message, whoever has built the context."""
    if admission.parameters.idempotency_key is not None:
        context.state[KEY_IN_STATE] = admission.parameters.idempotency_key


def decode(value: object, operation: Operation) -> Any:
    """Returns the request that JSON describes. Raises: InvalidParamsError, which names the field."""
    if operation.from_json is not None:
        return operation.from_json(value)
    try:
        return operation.read(from_dict(value, operation.request))
    except InvalidJsonError as error:
        raise InvalidFieldError(error.field, error.reason) from None


def one_tenant(given: Sequence[tuple[str, str]]) -> str:
    """Returns the tenant that a request names, in one place or in several.

    Raises:
        InvalidParamsError: It names two.
    """
    tenants = {tenant for _, tenant in given if tenant}
    if len(tenants) > 1:
        raise InvalidFieldError('tenant', f'is not the same in {" and ".join(place for place, _ in given)}')
    return next(iter(tenants), '')

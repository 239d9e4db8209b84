"""The seam: what an authenticator is told, what it may answer, and that its failures let nobody in."""

import logging
from typing import Any, ClassVar

import pytest
from a2a.types.a2a_pb2 import (
    AgentCard,
    APIKeySecurityScheme,
    HTTPAuthSecurityScheme,
    MutualTlsSecurityScheme,
    OAuth2SecurityScheme,
    SecurityScheme,
)
from a2a.utils.errors import InternalError, TaskNotFoundError

from a2a_scribe import (
    AnyOf,
    IncomingCall,
    MissingCredentialsError,
    PermissionDeniedError,
    Principal,
    SettingsError,
    UnauthenticatedError,
)
from a2a_scribe.auth.principals import Authenticate
from a2a_scribe.protocol.faults import TemporaryError
from a2a_scribe.transport.agent_card import complete_card
from a2a_scribe.transport.authentication import challenges_of, declare_schemes, identify
from a2a_scribe.transport.listening import is_loopback

pytestmark = pytest.mark.anyio

SECRET = 'a-secret'
CALL = IncomingCall('JSONRPC', [('x', SECRET), ('y', '1'), ('x', '2')], '127.0.0.1', f'/?key={SECRET}')
BEARER = SecurityScheme(http_auth_security_scheme=HTTPAuthSecurityScheme(scheme='Bearer'))
KEY = SecurityScheme(api_key_security_scheme=APIKeySecurityScheme(location='header', name='X-API-Key'))


def answering(answer: Any) -> Authenticate:
    """An authenticator with this answer, or this failure."""

    def authenticate(_: IncomingCall) -> Principal:
        if isinstance(answer, BaseException):
            raise answer
        return answer  # type: ignore[no-any-return]

    return authenticate


def later(authenticate: Authenticate) -> Authenticate:
    """The same, awaited."""

    async def wait(call: IncomingCall) -> Principal:
        return authenticate(call)  # type: ignore[return-value]

    return wait


BOTH = pytest.mark.parametrize('manner', [lambda given: given, later], ids=['at once', 'awaited'])


def test_call_has_all_values_of_a_header() -> None:
    assert (CALL.values('x'), CALL.values('z')) == ([SECRET, '2'], [])


def test_call_shows_no_secrets() -> None:
    assert SECRET not in repr(CALL) + str(CALL)


@BOTH
async def test_principal_is_let_in(manner: Any) -> None:
    principal = Principal('ann', frozenset({'a'}))
    assert await identify(manner(answering(principal)), CALL, AgentCard()) is principal


@BOTH
async def test_refusal_says_how_to_be_known(manner: Any) -> None:
    card = AgentCard(security_schemes={'b': BEARER})
    with pytest.raises(UnauthenticatedError) as refusal:
        await identify(manner(answering(UnauthenticatedError('not today'))), CALL, card)
    assert (refusal.value.message, refusal.value.challenges) == ('not today', ('Bearer realm="a2a"',))
    with pytest.raises(UnauthenticatedError) as refusal:
        await identify(manner(answering(UnauthenticatedError(challenges=['Own']))), CALL, card)
    assert refusal.value.challenges == ('Own',)


@pytest.mark.parametrize('refusal', [PermissionDeniedError('no'), TemporaryError()], ids=['denied', 'temporary'])
async def test_other_refusals_pass(refusal: Exception) -> None:
    with pytest.raises(type(refusal)):
        await identify(answering(refusal), CALL, AgentCard())


@BOTH
@pytest.mark.parametrize(
    'failure', [ValueError(SECRET), KeyError(SECRET), PermissionError(SECRET), TaskNotFoundError(SECRET)], ids=repr
)
async def test_failure_lets_nobody_in_and_says_nothing(
    manner: Any, failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(InternalError) as refusal:
        await identify(manner(answering(failure)), CALL, AgentCard())
    assert refusal.value.message == InternalError.message
    assert refusal.value.__cause__ is None
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert type(failure).__name__ in caplog.text
    assert 'raise answer' in caplog.text
    assert SECRET not in caplog.text


@pytest.mark.parametrize(
    'answer',
    [None, True, 'ann', Principal(''), Principal('a\nb'), Principal('a' * 256), Principal(3), {'name': 'ann'}],  # type: ignore[arg-type]
    ids=str,
)
async def test_answer_has_to_be_a_usable_principal(answer: Any, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(InternalError):
        await identify(answering(answer), CALL, AgentCard())
    assert 'The authenticator returned' in caplog.text


# Several ways in

ANN, BEN = answering(Principal('ann')), answering(Principal('ben'))
MISSING, BAD = answering(MissingCredentialsError()), answering(UnauthenticatedError('bad'))


@pytest.mark.parametrize(('ways', 'owner'), [((ANN, MISSING), 'ann'), ((MISSING, later(BEN)), 'ben'), ((ANN,), 'ann')])
async def test_one_way_is_enough(ways: tuple[Authenticate, ...], owner: str) -> None:
    assert (await AnyOf(*ways)(CALL)).name == owner


@pytest.mark.parametrize(
    ('ways', 'reason'),
    [
        ((MISSING, MISSING), 'Credentials are missing'),
        ((MISSING, BAD), 'bad'),
        ((ANN, BAD), 'bad'),
        ((BAD, ANN), 'bad'),
        ((ANN, BEN), 'Credentials of more than one kind are given'),
    ],
)
async def test_everything_else_is_refused(ways: tuple[Authenticate, ...], reason: str) -> None:
    with pytest.raises(UnauthenticatedError, match=reason):
        await AnyOf(*ways)(CALL)


def test_there_has_to_be_a_way() -> None:
    with pytest.raises(SettingsError):
        AnyOf()


# The card


class Declaring:
    """An authenticator that says what the card is to say."""

    security_schemes: ClassVar = {'b': BEARER, 'k': KEY}

    def __call__(self, _: IncomingCall) -> Principal:
        return Principal('ann')


def test_card_declares_the_schemes_by_itself() -> None:
    card = complete_card(AgentCard(), {}, AnyOf(Declaring(), ANN))
    assert dict(card.security_schemes) == {'b': BEARER, 'k': KEY}
    assert [list(each.schemes) for each in card.security_requirements] == [['b'], ['k']]
    assert complete_card(AgentCard(), {}, ANN) == complete_card(AgentCard(), {})


def test_card_that_says_its_own_keeps_it() -> None:
    own = AgentCard(security_schemes={'own': BEARER})
    declare_schemes(own, Declaring())
    assert list(own.security_schemes) == ['own']
    assert not own.security_requirements
    signed = AgentCard()
    signed.signatures.add(protected='x')
    assert complete_card(signed, {}, Declaring()) == signed


def test_challenges_follow_the_card() -> None:
    basic = SecurityScheme(http_auth_security_scheme=HTTPAuthSecurityScheme(scheme='Basic'))
    broken = SecurityScheme(http_auth_security_scheme=HTTPAuthSecurityScheme(scheme='a\r\nb'))
    oauth = SecurityScheme(oauth2_security_scheme=OAuth2SecurityScheme())
    mtls = SecurityScheme(mtls_security_scheme=MutualTlsSecurityScheme())
    strange = SecurityScheme(api_key_security_scheme=APIKeySecurityScheme(location='header', name='X"\r\n€'))
    key = 'ApiKey realm="a2a", in="header", name="X-API-Key"'
    for schemes, expected in (
        ((), ['Bearer realm="a2a"']),
        ((KEY,), [key]),
        ((BEARER, KEY, oauth), ['Bearer realm="a2a"', key]),
        ((basic,), ['Basic realm="a2a"']),
        ((broken,), ['Bearer realm="a2a"']),
        ((mtls,), ['Bearer realm="a2a"']),
        ((strange,), ['ApiKey realm="a2a", in="header", name="X"']),
    ):
        card = AgentCard(security_schemes={str(number): scheme for number, scheme in enumerate(schemes)})
        assert sorted(challenges_of(card)) == sorted(expected)


@pytest.mark.parametrize(
    ('host', 'is_local'),
    [('127.0.0.1', True), ('127.8.8.8', True), ('::1', True), ('localhost', True), ('', False), ('0.0.0.0', False)],
)
def test_loopback_is_known(host: str, is_local: bool) -> None:
    assert is_loopback(host) is is_local
    assert not is_loopback('::')
    assert not is_loopback('agent.test')

"""Verifiers for receivers of webhooks: who signed a delivery, that it is whole, recent, and not taken before.

    verifier = HmacVerifier(['whsec_...'])

    with verifier.verify(request.headers, await request.body()) as delivery:
        if not delivery.is_duplicate:
            ...  # what raises here has not handled the event, and it may come again

The same event comes again when its sender did not hear that it was handled; then it is a duplicate, which is answered
like the first. The same *attempt* never comes twice from the sender, so it is refused. A verifier is made once and used
for all deliveries of one sender: it remembers, in its process, what it has seen.
"""

import hashlib
import hmac
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from a2a_scribe.clock import Clock, SystemClock
from a2a_scribe.errors import SettingsError
from a2a_scribe.webhooks import names
from a2a_scribe.webhooks.keys import Fetch, FetchedKeys, GivenKeys, Keys, PublicKey, require_crypto
from a2a_scribe.webhooks.memory import REMEMBERED_EVENTS, Memory, Sighting
from a2a_scribe.webhooks.refusals import (
    DeliveryInHandError,
    DeliveryRefusedError,
    KeysUnavailableError,
    MisdirectedDeliveryError,
    ReplayedDeliveryError,
    StaleDeliveryError,
    UnknownKeyError,
    UnsignedDeliveryError,
    WrongSignatureError,
)
from a2a_scribe.webhooks.standard import SIGNATURE_PREFIX, SharedSecret, content_of

__all__ = [
    'Delivery',
    'DeliveryInHandError',
    'DeliveryRefusedError',
    'HmacVerifier',
    'JwtVerifier',
    'KeysUnavailableError',
    'MisdirectedDeliveryError',
    'ReplayedDeliveryError',
    'StaleDeliveryError',
    'UnknownKeyError',
    'UnsignedDeliveryError',
    'WrongSignatureError',
]

TOLERANCE: Final = 300.0
LONGEST_TOKEN: Final = 16_384
MOST_SIGNATURES: Final = 20


@dataclass(frozen=True, slots=True)
class Delivery:
    """A delivery that its sender has signed.

    `event_id` is `<task id>/<seq>`, the same each time the event comes. `sent_at` is when this attempt was made.
    `is_duplicate`: this verifier has seen the event handled before.
    """

    event_id: str
    sent_at: datetime
    body: bytes
    is_duplicate: bool

    @property
    def task_id(self) -> str:
        """The task of the event."""
        return self.event_id.rpartition('/')[0]

    @property
    def seq(self) -> int:
        """The place of the event in its task; 0 if the sender does not say."""
        seq = self.event_id.rpartition('/')[2]
        return int(seq) if seq.isascii() and seq.isdigit() and len(seq) < 20 else 0


class HmacVerifier:
    """Checks signatures of Standard Webhooks, made with a secret that sender and receiver share."""

    def __init__(
        self,
        secrets: str | Sequence[str],
        *,
        tolerance: float = TOLERANCE,
        clock: Clock | None = None,
        remembered_events: int = REMEMBERED_EVENTS,
    ) -> None:
        """Makes a verifier that has seen nothing yet.

        Args:
            secrets: `whsec_...`; several while one takes the place of another: any of them will do.
            tolerance: Seconds by which a signature may be older or newer than now.
            clock: Time; the machine's if absent.
            remembered_events: How many handled events are known again as duplicates.

        Raises:
            SettingsError: There is no secret, or it has the wrong form.
        """
        self._secrets = [SharedSecret.parse(text) for text in ([secrets] if isinstance(secrets, str) else secrets)]
        if not self._secrets:
            raise SettingsError('secrets: at least one is needed')
        self._tolerance = tolerance
        self._clock = clock or SystemClock()
        self._memory = Memory(remembered_events)

    @contextmanager
    def verify(self, headers: Mapping[str, str], body: bytes) -> Iterator[Delivery]:
        """Gives the delivery for as long as it is handled; `body` is what came, byte for byte.

        Raises:
            DeliveryRefusedError: It is not taken; `status` is what to answer.
        """
        given = {name.lower(): value for name, value in headers.items()}
        event, timestamp = given.get(names.ID, ''), given.get(names.TIMESTAMP, '')
        if not event or '.' in event or not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) < 12):
            raise UnsignedDeliveryError
        content = content_of(event, timestamp, body)
        self._check(given.get(names.SIGNATURES, ''), content)
        now, sent_at = self._clock.now() / 1_000_000, int(timestamp)
        if abs(now - sent_at) > self._tolerance:
            raise StaleDeliveryError
        event_id = names.event_id_in(event)
        sighting = Sighting(event_id, hashlib.sha256(content).digest(), sent_at + self._tolerance)
        with self._memory.handling(sighting, now) as is_duplicate:
            yield Delivery(event_id, datetime.fromtimestamp(sent_at, UTC), body, is_duplicate)

    def _check(self, header: str, content: bytes) -> None:
        signatures = [each.encode() for each in header.split(' ') if each.startswith(SIGNATURE_PREFIX)]
        if not signatures or len(signatures) > MOST_SIGNATURES:
            raise UnsignedDeliveryError
        expected = [secret.sign(content).encode() for secret in self._secrets]
        if not any(hmac.compare_digest(one, other) for one in expected for other in signatures):
            raise WrongSignatureError


class JwtVerifier:
    """Checks tokens that a sender has signed with a key of its own, by the keys that it publishes."""

    def __init__(
        self,
        keys: str | Mapping[str, Any],
        *,
        issuer: str,
        audience: str | Collection[str],
        tolerance: float = TOLERANCE,
        clock: Clock | None = None,
        remembered_events: int = REMEMBERED_EVENTS,
        fetch: Fetch | None = None,
    ) -> None:
        """Makes a verifier that has seen nothing yet, and has fetched nothing.

        Args:
            keys: The URL of the sender's JWK set, or the set itself.
            issuer: Who must have signed: the sender's `webhook_issuer`.
            audience: The URL under which this receiver was registered, or several. Without it, whoever else gets
                deliveries of this sender could hand them on to this receiver.
            tolerance: Seconds by which a signature may be older or newer than now.
            clock: Time; the machine's if absent.
            remembered_events: How many handled events are known again as duplicates.
            fetch: Gets the bytes at a URL, in place of a plain GET.

        Raises:
            SettingsError: The keys cannot be used, or the extra `crypto` is not installed.
        """
        require_crypto('JwtVerifier')
        self._issuer = issuer
        self._audience = [names.audience_of(url) for url in ([audience] if isinstance(audience, str) else audience)]
        self._tolerance = tolerance
        self._clock = clock or SystemClock()
        self._memory = Memory(remembered_events)
        self._keys: Keys = FetchedKeys(keys, self._clock, fetch) if isinstance(keys, str) else GivenKeys(keys)

    @asynccontextmanager
    async def verify(self, headers: Mapping[str, str], body: bytes) -> AsyncIterator[Delivery]:
        """Gives the delivery for as long as it is handled; `body` is what came, byte for byte.

        Raises:
            DeliveryRefusedError: It is not taken; `status` is what to answer.
        """
        given = {name.lower(): value for name, value in headers.items()}
        token = given.get(names.TOKEN.lower(), '')
        claims = self._claims_of(token, await self._keys.find(_kid_of(token)))
        digest = hashlib.sha256(body).hexdigest()
        if not hmac.compare_digest(str(claims[names.BODY_HASH]).encode(), digest.encode()):
            raise WrongSignatureError
        now, sent_at = self._clock.now() / 1_000_000, claims['iat']
        if abs(now - sent_at) > self._tolerance or now > claims['exp']:
            raise StaleDeliveryError
        event_id = claims[names.EVENT_ID]
        signed = token.rpartition('.')[0]
        sighting = Sighting(event_id, hashlib.sha256(signed.encode()).digest(), sent_at + self._tolerance)
        with self._memory.handling(sighting, now) as is_duplicate:
            yield Delivery(event_id, datetime.fromtimestamp(sent_at, UTC), body, is_duplicate)

    def _claims_of(self, token: str, key: PublicKey) -> Mapping[str, Any]:
        """Returns the claims of a token whose signature is right; its times are not judged yet."""
        import jwt

        required = ['iss', 'aud', 'iat', 'exp', names.EVENT_ID, names.BODY_HASH]
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                key.key,
                # That of the key, whatever the token says: with `none`, or with the public key as a secret of HMAC,
                # everybody could sign.
                algorithms=[key.algorithm],
                issuer=self._issuer,
                audience=self._audience,
                # Times are judged by our clock, below.
                options={'require': required, 'verify_exp': False, 'verify_iat': False, 'verify_nbf': False},
            )
        except (jwt.InvalidIssuerError, jwt.InvalidAudienceError):
            raise MisdirectedDeliveryError from None
        except jwt.MissingRequiredClaimError:
            raise UnsignedDeliveryError from None
        except (jwt.PyJWTError, ValueError, TypeError):
            raise WrongSignatureError from None
        if not (_is_time(claims['iat']) and _is_time(claims['exp']) and isinstance(claims[names.EVENT_ID], str)):
            raise UnsignedDeliveryError
        return claims


def _kid_of(token: str) -> str:
    """Returns the id of the key that a token names. Raises: UnsignedDeliveryError: It is no token of ours."""
    import jwt

    if not token or len(token) > LONGEST_TOKEN:
        raise UnsignedDeliveryError
    try:
        header = jwt.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError, TypeError):
        raise UnsignedDeliveryError from None
    kid = header.get('kid')
    if header.get('typ') != names.TOKEN_TYPE or not isinstance(kid, str):
        raise UnsignedDeliveryError
    return kid


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e11

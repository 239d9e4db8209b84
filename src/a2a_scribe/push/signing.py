"""Signers of deliveries: HMAC as Standard Webhooks have it, and tokens by keys that are published.

`signers_of` makes those that the settings ask for; nothing that only one of them needs is loaded before.
"""

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from a2a_scribe.errors import SettingsError
from a2a_scribe.push.delivery import Outgoing, Signer
from a2a_scribe.push.signing_keys import KeyRing, read_ring
from a2a_scribe.settings import Settings
from a2a_scribe.webhooks import names
from a2a_scribe.webhooks.keys import require_crypto
from a2a_scribe.webhooks.standard import SharedSecret, content_of

TOKEN_SECONDS: Final = 300
"""For how long a token is good; one is made for each attempt."""


def signers_of(settings: Settings) -> tuple[Signer, ...]:
    """Returns the signers that the settings ask for.

    Raises:
        SettingsError: A secret or a key cannot be used, or the extra `crypto` is not installed.
    """
    signers: list[Signer] = []
    if settings.webhook_hmac_secrets:
        signers.append(HmacSigner(read_secrets(settings.webhook_hmac_secrets)))
    ring = key_ring_of(settings)
    if ring is not None:
        signers.append(TokenSigner(ring, settings.webhook_issuer))
    return tuple(signers)


def signer_of(settings: Settings) -> Signer | None:
    """Returns one signer that does what all do that the settings ask for; `None` if they ask for none.

    Raises:
        SettingsError: A secret or a key cannot be used, or the extra `crypto` is not installed.
    """
    signers = signers_of(settings)
    return Signers(signers) if signers else None


def key_ring_of(settings: Settings) -> KeyRing | None:
    """Returns the keys that sign tokens, if the settings name any.

    Raises:
        SettingsError: They cannot be used, or the extra `crypto` is not installed.
    """
    if settings.webhook_signing_keys_file is None:
        return None
    require_crypto('webhook_signing_keys_file')
    return read_ring(Path(settings.webhook_signing_keys_file))


def read_secrets(texts: Iterable[str]) -> list[SharedSecret]:
    """Reads the secrets of the settings. Raises: SettingsError."""
    try:
        return [SharedSecret.parse(each) for each in texts]
    except SettingsError as error:
        raise SettingsError(f'webhook_hmac_secrets: {error}') from None


class Signers:
    """Signs in several ways at once."""

    def __init__(self, signers: Sequence[Signer]) -> None:
        """Takes signers that add different headers."""
        self._signers = tuple(signers)

    def sign(self, outgoing: Outgoing) -> Mapping[str, str]:
        """Returns the headers of all."""
        return {name: value for signer in self._signers for name, value in signer.sign(outgoing).items()}


class HmacSigner:
    """Signs with secrets that receivers know too, with each of them, so that either side can change first."""

    def __init__(self, secrets: Sequence[SharedSecret]) -> None:
        """Takes one secret, or several while one takes the place of another."""
        self._secrets = tuple(secrets)

    def sign(self, outgoing: Outgoing) -> Mapping[str, str]:
        """Returns the three headers of Standard Webhooks."""
        event, timestamp = names.header_form(outgoing.event_id), str(outgoing.sent_at // 1_000_000)
        content = content_of(event, timestamp, outgoing.body)
        signatures = ' '.join(secret.sign(content) for secret in self._secrets)
        return {names.ID: event, names.TIMESTAMP: timestamp, names.SIGNATURES: signatures}


class TokenSigner:
    """Signs with a key of the server's: only the server can, and everybody can check it."""

    def __init__(self, ring: KeyRing, issuer: str) -> None:
        """Takes the keys, and what the tokens name as their issuer."""
        self._ring = ring
        self._issuer = issuer

    def sign(self, outgoing: Outgoing) -> Mapping[str, str]:
        """Returns the header with the token of this attempt."""
        import jwt

        seconds = outgoing.sent_at // 1_000_000
        key = self._ring.signer_at(seconds)
        claims = {
            'iss': self._issuer,
            'aud': names.audience_of(outgoing.url),
            'iat': seconds,
            'exp': seconds + TOKEN_SECONDS,
            'jti': _attempt_id(outgoing),
            names.EVENT_ID: outgoing.event_id,
            names.TASK_ID: outgoing.task_id,
            names.ATTEMPT: outgoing.attempt,
            names.BODY_HASH: hashlib.sha256(outgoing.body).hexdigest(),
        }
        headers = {'kid': key.kid, 'typ': names.TOKEN_TYPE}
        return {names.TOKEN: jwt.encode(claims, key.private, key.algorithm, headers)}


def _attempt_id(outgoing: Outgoing) -> str:
    """Returns the id of a token: another one for each attempt (RFC 7519), and of the same size for any task."""
    text = f'{outgoing.event_id} {outgoing.attempt} {outgoing.sent_at}'
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()[:16]).rstrip(b'=').decode()

"""The secrets of push configs, unreadable in the database: Fernet (AES-128-CBC and HMAC-SHA256) with keys that rotate.

The handler seals a config before the journal gets it, and opens what it reads for a client; whoever delivers opens it
too. What is sealed begins with a character that no secret of a client can have, so it is known without a key, and what
was stored before there were keys stays readable.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from a2a_scribe.errors import SettingsError
from a2a_scribe.protocol.types import TaskPushNotificationConfig
from a2a_scribe.push.delivery import SecretBox
from a2a_scribe.settings import Settings

MARK = b'\x01'
"""What a sealed secret begins with; a config with control characters in its secrets is refused."""
HOW_TO_MAKE_ONE = "python -c 'from cryptography.fernet import Fernet; print(Fernet.generate_key().decode())'"


class OpenBox:
    """Seals nothing: there are no keys."""

    def seal(self, secret: bytes) -> bytes:
        """Returns the secret as it is."""
        return secret

    def open(self, sealed: bytes) -> bytes:
        """Returns what was stored as it is. Raises: SettingsError: It is sealed."""
        if sealed.startswith(MARK):
            raise SettingsError('The database has sealed secrets of push configs, but webhook_keys has no key')
        return sealed


class FernetBox:
    """Seals with the first of its keys, and opens with any."""

    def __init__(self, keys: Sequence[str]) -> None:
        """Takes keys as Fernet writes them: 32 bytes in URL-safe base64. Raises: SettingsError."""
        try:
            from cryptography.fernet import Fernet, InvalidToken, MultiFernet
        except ImportError:
            raise SettingsError("webhook_keys needs cryptography: pip install 'a2a-scribe[crypto]'") from None
        self._no_key_fits = InvalidToken
        try:
            every = [Fernet(key) for key in keys]
        except ValueError:
            raise SettingsError(
                f'webhook_keys has a key of the wrong form; this makes one: {HOW_TO_MAKE_ONE}'
            ) from None
        self._newest, self._fernet = every[0], MultiFernet(every)

    def seal(self, secret: bytes) -> bytes:
        """Encrypts with the newest key."""
        return MARK + self._fernet.encrypt(secret)

    def renew(self, sealed: bytes) -> bytes:
        """Seals with the newest key what is not; returns the rest as it is. Raises: SettingsError: No key fits."""
        if sealed.startswith(MARK):
            try:
                self._newest.decrypt(sealed[len(MARK) :])
            except self._no_key_fits:
                return self.seal(self.open(sealed))
            return sealed
        return self.seal(sealed)

    def open(self, sealed: bytes) -> bytes:
        """Decrypts what any of the keys has sealed; what was stored before there were keys is returned as it is.

        Raises:
            SettingsError: No key fits.
        """
        if not sealed.startswith(MARK):
            return sealed
        try:
            return self._fernet.decrypt(sealed[len(MARK) :])
        except self._no_key_fits:
            raise SettingsError('No key in webhook_keys opens a secret that is in the database') from None


def box_of(settings: Settings) -> SecretBox:
    """Makes the box of a server.

    Raises:
        SettingsError: A key has the wrong form, the file cannot be read, or cryptography is not installed.
    """
    if settings.webhook_keys and settings.webhook_keys_file is not None:
        raise SettingsError('Only one of webhook_keys and webhook_keys_file can be given')
    keys = settings.webhook_keys if settings.webhook_keys_file is None else _read_keys(settings.webhook_keys_file)
    return FernetBox(keys) if keys else OpenBox()


def seal_config(config: TaskPushNotificationConfig, box: SecretBox) -> TaskPushNotificationConfig:
    """Returns a copy whose token and credentials cannot be read."""
    return _with_secrets(config, box.seal)


def open_config(config: TaskPushNotificationConfig, box: SecretBox) -> TaskPushNotificationConfig:
    """Returns a copy whose token and credentials can be read. Raises: SettingsError: No key fits."""
    return _with_secrets(config, box.open)


def renew_config(config: TaskPushNotificationConfig, box: FernetBox) -> TaskPushNotificationConfig:
    """Returns a copy that is sealed with the newest key. Raises: SettingsError: No key fits."""
    return _with_secrets(config, box.renew)


def without_secrets(config: TaskPushNotificationConfig) -> TaskPushNotificationConfig:
    """Returns a copy that has neither token nor credentials."""
    return _with_secrets(config, lambda _: b'')


def _with_secrets(config: TaskPushNotificationConfig, change: Callable[[bytes], bytes]) -> TaskPushNotificationConfig:
    changed = TaskPushNotificationConfig()
    changed.CopyFrom(config)
    if changed.token:
        changed.token = change(changed.token.encode()).decode()
    if changed.authentication.credentials:
        changed.authentication.credentials = change(changed.authentication.credentials.encode()).decode()
    return changed


def _read_keys(path: str) -> Sequence[str]:
    try:
        keys = Path(path).read_text(encoding='utf-8').split()
    except (OSError, ValueError):
        raise SettingsError(f'webhook_keys_file {path!r} cannot be read') from None
    if not keys:
        raise SettingsError(f'webhook_keys_file {path!r} has no key')
    return keys

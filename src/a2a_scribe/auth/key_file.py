"""The file of API keys: what it says of each key, how it is read, and how it is changed by one command at a time.

It holds no key, only digests. A key has 256 random bits, so that nobody finds it by trying, and a digest that is slow
to compute, as passwords need, would only make each call slow.
"""

import base64
import hashlib
import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from a2a_scribe.errors import SettingsError
from a2a_scribe.protocol.ids import is_usable

PREFIX: Final = 'a2as'
"""What keys begin with, so that scanners for secrets know them."""
ID_BYTES: Final = 8
SECRET_BYTES: Final = 32
DIGEST: Final = 'sha256:'
MAX_KEY_LENGTH: Final = 255
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class StoredKey:
    """What is stored of a key. Times are microseconds since the epoch."""

    id: str
    owner: str
    digest: bytes
    created: int
    expires: int | None = None
    revoked: int | None = None
    scopes: tuple[str, ...] = ()

    def is_valid_at(self, now: int) -> bool:
        """Whether it opens the door."""
        return (self.revoked is None or now < self.revoked) and (self.expires is None or now < self.expires)


class NewKey(NamedTuple):
    """A key that was made just now: the only time that its text is known."""

    text: str
    stored: StoredKey


def new_key(owner: str, random: bytes, now: int, expires: int | None = None, scopes: Iterable[str] = ()) -> NewKey:
    """Makes a key of `ID_BYTES + SECRET_BYTES` random bytes.

    Raises:
        SettingsError: The owner cannot be one.
    """
    if not is_usable(owner):
        raise SettingsError('the owner of a key must have 1 to 255 characters, none of them control characters')
    assert len(random) == ID_BYTES + SECRET_BYTES
    secret = base64.urlsafe_b64encode(random[ID_BYTES:]).rstrip(b'=').decode()
    text = f'{PREFIX}_{random[:ID_BYTES].hex()}_{secret}'
    return NewKey(text, StoredKey(id_of(text), owner, digest_of(text), now, expires, None, tuple(sorted(scopes))))


def id_of(text: str) -> str:
    """Returns the public part of a key, empty if it is none."""
    parts = text.split('_', 2)
    return parts[1] if len(parts) == 3 and parts[0] == PREFIX else ''


def digest_of(text: str) -> bytes:
    """Returns what is stored of a key's secret: the digest of all of its text."""
    return hashlib.sha256(text.encode('utf-8', 'replace')).digest()


def parse_keys(data: bytes) -> dict[str, StoredKey]:
    """Reads the file's content.

    Raises:
        SettingsError: It is no file of keys; names the entry.
    """
    try:
        keys = orjson.loads(data)['keys']
    except (orjson.JSONDecodeError, KeyError, TypeError):
        raise SettingsError('it is no JSON object with a list of keys') from None
    if not isinstance(keys, list):
        raise SettingsError('it has no list of keys')
    found: dict[str, StoredKey] = {}
    for number, entry in enumerate(keys, 1):
        try:
            key = _parse(entry)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            raise SettingsError(f'key {number} is not as keys are written') from None
        if key.id in found:
            raise SettingsError(f'key {number} has the id of another')
        found[key.id] = key
    return found


def _parse(entry: Mapping[str, Any]) -> StoredKey:
    owner, key_id, digest = entry['owner'], entry['id'], entry['hash']
    if not is_usable(owner) or not is_usable(key_id) or not digest.startswith(DIGEST):
        raise ValueError
    raw = bytes.fromhex(digest.removeprefix(DIGEST))
    scopes = entry.get('scopes', [])
    if len(raw) != hashlib.sha256().digest_size or not isinstance(scopes, list) or not all(map(is_usable, scopes)):
        raise ValueError
    times = [None if entry.get(name) is None else from_text(entry[name]) for name in ('created', 'expires', 'revoked')]
    return StoredKey(key_id, owner, raw, times[0] or 0, times[1], times[2], tuple(scopes))


def render_keys(keys: Iterable[StoredKey]) -> bytes:
    """Returns the file's content."""
    entries = [
        {
            'id': key.id,
            'owner': key.owner,
            'hash': DIGEST + key.digest.hex(),
            'scopes': list(key.scopes),
            'created': to_text(key.created),
            'expires': to_text(key.expires),
            'revoked': to_text(key.revoked),
        }
        for key in keys
    ]
    return orjson.dumps({'keys': entries}, option=orjson.OPT_INDENT_2) + b'\n'


def to_text(micros: int | None) -> str | None:
    """Returns a time as ISO 8601, UTC."""
    if micros is None:
        return None
    return (EPOCH + timedelta(microseconds=micros)).isoformat(timespec='seconds').replace('+00:00', 'Z')


def from_text(text: str) -> int:
    """Returns a time of ISO 8601 as microseconds; one without a zone is UTC. Raises: ValueError, OverflowError."""
    time = datetime.fromisoformat(text)
    return ((time if time.tzinfo else time.replace(tzinfo=UTC)) - EPOCH) // timedelta(microseconds=1)


class KeyFile:
    """The file, as the commands for operators change it."""

    def __init__(self, path: Path) -> None:
        """Takes where it is; it need not be there yet."""
        self._path = path

    def keys(self) -> dict[str, StoredKey]:
        """Returns all keys by their ids, none where there is no file.

        Raises:
            SettingsError: The file cannot be read, or is none of keys.
        """
        try:
            return parse_keys(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise SettingsError(f'{str(self._path)!r} cannot be read: {error.strerror}') from error
        except SettingsError as error:
            raise SettingsError(f'{str(self._path)!r} is no file of keys: {error}') from None

    def add(self, key: StoredKey) -> None:
        """Adds a key. Raises: SettingsError."""
        self._change(lambda keys: keys | {key.id: key})

    def revoke(self, key_id: str, now: int) -> StoredKey:
        """Revokes a key; one that was revoked before stays so.

        Raises:
            SettingsError: There is no such key, or the file cannot be changed.
        """

        def change(keys: dict[str, StoredKey]) -> dict[str, StoredKey]:
            if key_id not in keys:
                raise SettingsError(f'{str(self._path)!r} has no key {key_id!r}')
            key = keys[key_id]
            return keys if key.revoked is not None else keys | {key_id: replace(key, revoked=now)}

        return self._change(change)[key_id]

    def _change(self, change: Any) -> dict[str, StoredKey]:
        """Writes the file anew beside it and puts it in its place; the new one's being there keeps others out."""
        place = self._path.resolve()
        draft = place.with_name(place.name + '.new')
        try:
            file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            raise SettingsError(
                f'another command changes {str(self._path)!r}; if none does, remove {str(draft)!r}'
            ) from None
        except OSError as error:
            raise SettingsError(f'{str(draft)!r} cannot be written: {error.strerror}') from error
        try:
            with os.fdopen(file, 'wb') as out:
                keys: dict[str, StoredKey] = change(self.keys())
                out.write(render_keys(keys.values()))
                out.flush()
                _look_alike(out.fileno(), place)
                os.fsync(out.fileno())
            draft.replace(place)
        except OSError as error:
            raise SettingsError(f'{str(self._path)!r} cannot be written: {error.strerror}') from error
        finally:
            with suppress(FileNotFoundError):
                draft.unlink()
        return keys


def _look_alike(file: int, place: Path) -> None:
    """Gives a file the owner, as far as we may, and the mode of the one that it replaces: a server has to read it."""
    with suppress(FileNotFoundError):
        found = place.stat()
        if hasattr(os, 'fchown'):
            with suppress(PermissionError):
                os.fchown(file, found.st_uid, found.st_gid)
            os.fchmod(file, stat.S_IMODE(found.st_mode))

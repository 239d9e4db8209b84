"""`a2a-scribe keys`: the file of API keys."""

import re
import sys
from collections.abc import Callable
from pathlib import Path

from a2a_scribe.auth.key_file import ID_BYTES, SECRET_BYTES, KeyFile, StoredKey, from_text, new_key, to_text
from a2a_scribe.cli.operator.output import print_json, print_table
from a2a_scribe.clock import Clock, SystemClock
from a2a_scribe.errors import SettingsError
from a2a_scribe.ids import new_secret

DONE, REFUSED = 0, 2
SPAN = re.compile(r'(\d{1,6})([smhdw])')
SECONDS = {'s': 1, 'm': 60, 'h': 3600, 'd': 86_400, 'w': 604_800}


def carry_out(command: Callable[[], None]) -> int:
    """Carries out a command; returns its exit code. What is wrong becomes one line."""
    try:
        command()
    except SettingsError as error:
        print(f'a2a-scribe: {error}', file=sys.stderr)
        return REFUSED
    return DONE


def make(path: Path, owner: str, expires: str | None, scopes: list[str]) -> None:
    """Adds a key, and prints it: nobody can show it again. Raises: SettingsError."""
    now = SystemClock().now()
    key = new_key(owner, new_secret(ID_BYTES + SECRET_BYTES), now, _time(expires, now), scopes)
    KeyFile(path).add(key.stored)
    print(f'a2a-scribe: key {key.stored.id} of {owner}; it is shown only now', file=sys.stderr)
    print(key.text, flush=True)


def show(path: Path, *, as_json: bool) -> None:
    """Lists the keys. Raises: SettingsError."""
    if not path.exists():
        raise SettingsError(f'there is no file {str(path)!r}')
    clock = SystemClock()
    rows = [_row(key, clock) for key in KeyFile(path).keys().values()]
    if as_json:
        for row in rows:
            print_json(row)
    else:
        print_table(list(rows[0]) if rows else ['id'], [list(row.values()) for row in rows])


def revoke(path: Path, key_id: str) -> None:
    """Revokes a key. Raises: SettingsError."""
    key = KeyFile(path).revoke(key_id, SystemClock().now())
    print(f'a2a-scribe: key {key.id} of {key.owner} is revoked since {to_text(key.revoked)}', file=sys.stderr)


def _row(key: StoredKey, clock: Clock) -> dict[str, str | None]:
    return {
        'id': key.id,
        'owner': key.owner,
        'state': _state(key, clock.now()),
        'scopes': ' '.join(key.scopes),
        'created': to_text(key.created),
        'expires': to_text(key.expires),
        'revoked': to_text(key.revoked),
    }


def _state(key: StoredKey, now: int) -> str:
    if key.is_valid_at(now):
        return 'valid'
    return 'expired' if key.revoked is None else 'revoked'


def _time(text: str | None, now: int) -> int | None:
    """Returns a time, given as one or as a span from now. Raises: SettingsError."""
    if text is None:
        return None
    if span := SPAN.fullmatch(text):
        return now + int(span[1]) * SECONDS[span[2]] * 1_000_000
    try:
        time = from_text(text)
    except (ValueError, OverflowError):
        raise SettingsError(f'{text!r} is neither a time like 2027-01-31 nor a span like 90d') from None
    if time <= now:
        raise SettingsError(f'{text!r} is over')
    return time

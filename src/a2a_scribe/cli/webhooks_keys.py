"""The commands for what signs webhooks: key files are made, looked at and rotated, secrets are made.

No command shows a private key. Servers read the file when they start.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from a2a_scribe.cli.key_files import replace, write_new
from a2a_scribe.cli.operator.databases import DONE, complain
from a2a_scribe.cli.operator.deleting import seconds_of
from a2a_scribe.cli.operator.options import AsJson, group
from a2a_scribe.cli.operator.output import print_json, print_table, time_text
from a2a_scribe.clock import SystemClock
from a2a_scribe.errors import ScribeError, SettingsError
from a2a_scribe.ids import new_secret
from a2a_scribe.push.signing_keys import (
    Algorithm,
    KeyRing,
    SigningKey,
    is_jwks,
    new_key,
    read_ring,
    rotated,
)
from a2a_scribe.webhooks.keys import require_crypto
from a2a_scribe.webhooks.standard import SharedSecret

SECRET_BYTES = 32

keys_app = group('What signs webhooks: new, list, rotate, secret.')


File = Annotated[Path, typer.Argument(metavar='FILE', help='The key file, as webhook_signing_keys_file names it.')]
SignsWith = Annotated[
    Algorithm | None, typer.Option(help='What the new key signs with: EdDSA, or what the key before it does.')
]


@keys_app.command('new')
def keys_new(file: File, algorithm: SignsWith = None, as_json: AsJson = False) -> None:
    """Make a file with one key, which signs from now on."""

    def work() -> None:
        ring = KeyRing((new_key(algorithm or Algorithm.EDDSA, _now(), _now()),))
        write_new(file, ring.stored())
        _show(ring, as_json=as_json)

    raise typer.Exit(_carry_out(work))


@keys_app.command('list')
def keys_list(file: File, as_json: AsJson = False) -> None:
    """List the keys of a file: their ids, and which of them signs."""
    raise typer.Exit(_carry_out(lambda: _show(read_ring(file), as_json=as_json)))


@keys_app.command('rotate')
def keys_rotate(
    file: File,
    sign_in: Annotated[
        str, typer.Option(metavar='AGE', help='When the new key takes over: after all servers have been restarted.')
    ] = '1h',
    keep: Annotated[
        str, typer.Option(metavar='AGE', help='How long a key stays published after it has signed last.')
    ] = '1d',
    algorithm: SignsWith = None,
    as_json: AsJson = False,
) -> None:
    """Add a key that is published at once and signs later, and drop those that have long been replaced."""

    def work() -> None:
        now, ring = _now(), read_ring(file)
        if not is_jwks(file):
            raise SettingsError(
                f'{str(file)!r} is PEM, which cannot say when a key signs: put the new key last in it, '
                'restart all servers, then move it to the top'
            )
        kind = algorithm or ring.signer_at(now).algorithm
        ring = rotated(ring, new_key(kind, now, now + seconds_of(sign_in)), now, seconds_of(keep))
        replace(file, ring.stored())
        _show(ring, as_json=as_json)

    raise typer.Exit(_carry_out(work))


@keys_app.command('secret')
def keys_secret() -> None:
    """Print a new secret for webhook_hmac_secrets, which the receivers need too."""
    print(SharedSecret(new_secret(SECRET_BYTES)).text())


def _carry_out(work: Callable[[], None]) -> int:
    try:
        require_crypto('webhooks keys')
        work()
    except ScribeError as error:
        return complain(str(error))
    return DONE


def _now() -> int:
    return SystemClock().now() // 1_000_000


def _show(ring: KeyRing, *, as_json: bool) -> None:
    now = _now()
    signer = ring.signer_at(now)
    rows = [(key, _state(key, signer, now)) for key in ring.keys]
    if as_json:
        for key, state in rows:
            times = {'made_at': _time(key.made_at), 'signs_from': _time(key.signs_from)}
            print_json({'kid': key.kid, 'algorithm': key.algorithm, **times, 'state': state})
    else:
        table = [(key.kid, key.algorithm, _time(key.made_at), _time(key.signs_from), state) for key, state in rows]
        print_table(('key', 'algorithm', 'made', 'signs from', 'state'), table)


def _state(key: SigningKey, signer: SigningKey, now: int) -> str:
    if key is signer:
        return 'signs'
    return 'waits' if key.signs_from > now else 'published'


def _time(seconds: int) -> str | None:
    return time_text(seconds * 1_000_000) if seconds else None

"""Files of private keys: made for their owner alone, and replaced as a whole or not at all."""

import os
from pathlib import Path

from a2a_scribe.errors import SettingsError

OWNER_ONLY = 0o600


def write_new(path: Path, text: bytes) -> None:
    """Makes a file that only its owner can read. Raises: SettingsError: It cannot, or there is one."""
    try:
        _write(path, text)
    except FileExistsError:
        raise SettingsError(f'{str(path)!r} exists: `a2a-scribe webhooks keys rotate` adds a key to it') from None
    except OSError as error:
        raise SettingsError(f'{str(path)!r} cannot be written: {error.strerror}') from None


def replace(path: Path, text: bytes) -> None:
    """Replaces a file at once; its owner stays the same. Raises: SettingsError: It cannot."""
    target = path.resolve()
    making = target.with_name(f'.{target.name}.new')
    try:
        owner = target.stat()
        _write(making, text)
        try:
            if os.name == 'posix' and (owner.st_uid, owner.st_gid) != (os.geteuid(), os.getegid()):
                os.chown(making, owner.st_uid, owner.st_gid)
            making.replace(target)
        finally:
            making.unlink(missing_ok=True)
    except FileExistsError:
        raise SettingsError(f'{str(making)!r} is left of a rotation that was interrupted: remove it') from None
    except OSError as error:
        raise SettingsError(f'{str(path)!r} cannot be written: {error.strerror}') from None


def _write(path: Path, text: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
    with os.fdopen(descriptor, 'wb') as file:
        file.write(text)
        file.flush()
        os.fsync(descriptor)

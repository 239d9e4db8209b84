"""Where an SQLite file lives: its file system, and how much room there is."""

import shutil
from collections.abc import Iterator
from pathlib import Path

from a2a_scribe.cli.operator.doctor.findings import Finding, fail, ok, warn
from a2a_scribe.cli.operator.output import size_text

MOUNTS = Path('/proc/self/mounts')

NETWORK = (
    'nfs',
    'cifs',
    'smb',
    '9p',
    'afs',
    'ceph',
    'gluster',
    'lustre',
    'fuse.sshfs',
    'fuse.s3fs',
    'vboxsf',
    'beegfs',
)
"""What the types of file systems of other machines begin with: their locks and shared memory are not those of WAL."""

LITTLE, TOO_LITTLE = 1_000_000_000, 100_000_000
"""Bytes."""


def check_place(file: Path) -> Iterator[Finding]:
    """Yields what there is to say about the place of a file that exists."""
    kind = file_system_of(file, _mounts())
    yield _check_kind(kind)
    yield _check_room(shutil.disk_usage(file.parent).free)


def _mounts() -> str:
    try:
        return MOUNTS.read_text(encoding='utf-8', errors='replace')
    except OSError:
        return ''


def file_system_of(file: Path, mounts: str) -> str | None:
    """Returns the type of the file system of a file, `None` where it cannot be told.

    `mounts` is as Linux writes /proc/self/mounts.
    """
    path = file.resolve()
    best, kind = -1, None
    for line in mounts.splitlines():
        fields = line.split(' ')
        if len(fields) < 3:
            continue
        point = Path(fields[1].replace('\\040', ' ').replace('\\011', '\t').replace('\\134', '\\'))
        if path.is_relative_to(point) and len(point.parts) >= best:
            best, kind = len(point.parts), fields[2]
    return kind


def _check_kind(kind: str | None) -> Finding:
    if kind is None:
        return ok('file system', 'its type cannot be told here')
    if kind.startswith(NETWORK):
        advice = 'put the file on a disk of this machine, or use PostgreSQL'
        return fail('file system', f'{kind} is a network file system, on which SQLite loses data', advice)
    if kind in ('tmpfs', 'ramfs'):
        return warn('file system', f'{kind} is in memory', 'put the file on a disk, if tasks are to survive a restart')
    if kind == 'overlay':
        return warn('file system', 'overlay: the file goes with its container', 'put the file on a volume')
    return ok('file system', kind)


def _check_room(free: int) -> Finding:
    told = f'{size_text(free)} free'
    if free < TOO_LITTLE:
        return fail('disk', told, 'make room: nothing can be recorded on a full disk')
    if free < LITTLE:
        return warn('disk', told, 'make room, or delete old tasks: `a2a-scribe tasks prune`')
    return ok('disk', told)

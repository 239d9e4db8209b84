"""What this process brings: Python, packages, extras, and the settings of its environment."""

import sys
from collections.abc import Iterator, Mapping
from importlib import metadata

from a2a_scribe.cli.operator.doctor.findings import Finding, fail, ok, warn
from a2a_scribe.clock import SystemClock
from a2a_scribe.errors import SettingsError
from a2a_scribe.push.posting import poster_of
from a2a_scribe.push.sealing import box_of
from a2a_scribe.settings import PREFIX, Settings
from a2a_scribe.version import __version__

PACKAGES = ('a2a-sdk', 'SQLAlchemy', 'aiosqlite', 'alembic', 'protobuf', 'starlette', 'uvicorn')

EXTRAS: Mapping[str, tuple[str, str]] = {
    'uvloop': ('fast', 'the event loop is slower without it'),
    'httptools': ('fast', 'requests are parsed slower without it'),
    'grpcio': ('grpc', 'gRPC cannot be served without it'),
    'cryptography': ('crypto', 'secrets of webhooks cannot be encrypted, and tokens not signed, without it'),
    'pyjwt': ('crypto', 'webhooks cannot be signed with tokens without it'),
    'asyncpg': ('postgresql', 'PostgreSQL cannot be used without it'),
}
"""By package: the extra that brings it, and what it is for."""


def check_process(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Yields what there is to say about this process."""
    yield _check_python(sys.version_info[:2])
    yield _check_packages()
    yield from _check_extras()
    yield _check_settings(environment)


def _check_python(version: tuple[int, int]) -> Finding:
    shown = '.'.join(map(str, version))
    if (3, 11) <= version < (3, 14):
        return ok('python', sys.version.split()[0])
    return fail('python', f'{shown} is not supported', 'use Python 3.11, 3.12 or 3.13')


def _check_packages() -> Finding:
    versions = {name: _version(name) for name in PACKAGES}
    missing = [name for name, version in versions.items() if version is None]
    if missing:
        return fail('packages', f'missing: {", ".join(missing)}', 'pip install a2a-scribe')
    shown = ', '.join(f'{name} {version}' for name, version in versions.items())
    return ok('packages', f'a2a-scribe {__version__}, {shown}')


def _check_extras() -> Iterator[Finding]:
    for name, (extra, use) in EXTRAS.items():
        version = _version(name)
        if version is None:
            yield warn(f'extra {extra}', f'{name} is not installed: {use}', f"pip install 'a2a-scribe[{extra}]'")
        else:
            yield ok(f'extra {extra}', f'{name} {version}')


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _check_settings(environment: Mapping[str, str]) -> Finding:
    try:
        settings = Settings.from_environment(environment)
        box_of(settings)
        poster_of(settings, SystemClock())
    except SettingsError as error:
        return fail('settings', str(error), 'correct or unset the variable; servers with this environment do not start')
    given = sorted(name for name in environment if name.startswith(PREFIX))
    return ok('settings', f'from the environment: {", ".join(given)}' if given else 'the environment sets none')

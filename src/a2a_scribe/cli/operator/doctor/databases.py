"""The database: whether it can be reached and written, is durable, and has the schema that this version uses."""

from collections.abc import AsyncIterator, Iterator

from a2a_scribe.cli.operator.databases import Place, Site, connected, trouble_with
from a2a_scribe.cli.operator.doctor.files import check_place
from a2a_scribe.cli.operator.doctor.findings import Finding, fail, ok, warn
from a2a_scribe.clock import Clock
from a2a_scribe.errors import EnvironmentFault, JournalBusyError, SettingsError
from a2a_scribe.journal.sql.diagnosing import Diagnosis, PostgresFacts, SqliteFacts

FULL = 2

OLDEST_POSTGRESQL, OLDEST_TESTED_POSTGRESQL = 130000, 140000

MOST_SKEW = 1.0
"""Seconds."""

FEW_CONNECTIONS = 20
"""What an engine may take with the pool of SQLAlchemy, and a little."""


async def check_database(place: Place, clock: Clock) -> AsyncIterator[Finding]:
    """Yields what there is to say about a database."""
    try:
        async with connected(place) as site:
            diagnosis = Diagnosis(site.engine, prefix=place.prefix)
            if site.engine.dialect.name == 'sqlite':
                found = _check_sqlite(place, diagnosis)
            else:
                found = _check_postgresql(place, diagnosis, clock)
            async for finding in found:
                yield finding
                if finding.level == 'fail' and finding.check == 'database':
                    return
            yield await _check_schema(site)
    except SettingsError as error:
        yield fail('database', str(error), 'name the database as servers do, or make it: `a2a-scribe db upgrade`')


async def _check_sqlite(place: Place, diagnosis: Diagnosis) -> AsyncIterator[Finding]:
    try:
        facts = await diagnosis.of_sqlite()
    except EnvironmentFault as error:
        yield fail(
            'database', f'{place.shown} cannot be used: {error}', 'look at the rights of the file and its folder'
        )
        return
    yield ok('database', f'{place.shown}, SQLite {facts.version}')
    yield await _check_writing(diagnosis)
    for finding in judge_sqlite(facts):
        yield finding
    if place.file is not None:
        for finding in check_place(place.file):
            yield finding


async def _check_writing(diagnosis: Diagnosis) -> Finding:
    try:
        await diagnosis.try_writing()
    except JournalBusyError:
        advice = 'look for a program that leaves a transaction open; servers wait for it too'
        return warn('writing', 'another process has held the lock for long', advice)
    except EnvironmentFault as error:
        return fail('writing', str(error), 'let this user write the file and its folder')
    return ok('writing', 'a transaction can be begun')


def judge_sqlite(facts: SqliteFacts) -> Iterator[Finding]:
    """Yields what to think of a file of SQLite."""
    if facts.journal_mode == 'wal':
        yield ok('journal mode', 'WAL')
    else:
        advice = 'put the file on a local disk, and end programs that use it otherwise'
        yield fail('journal mode', f'{facts.journal_mode}: WAL cannot be switched on', advice)
    if facts.synchronous >= FULL:
        yield ok('durability', 'synchronous is FULL')
    else:
        yield fail('durability', f'synchronous is {facts.synchronous}, not FULL', 'find out what changes it')


async def _check_postgresql(place: Place, diagnosis: Diagnosis, clock: Clock) -> AsyncIterator[Finding]:
    before = clock.now()
    try:
        facts = await diagnosis.of_postgresql()
    except EnvironmentFault as error:
        advice = 'look at address, password, and whether the server runs'
        yield fail('database', f'{place.shown} cannot be used: {error}', advice)
        return
    yield ok('database', place.shown)
    for finding in judge_postgresql(facts, before, clock.now()):
        yield finding


def judge_postgresql(facts: PostgresFacts, before: int, after: int) -> Iterator[Finding]:
    """Yields what to think of a server, which was asked between two moments of our clock."""
    yield _judge_version(facts)
    if facts.is_read_only:
        yield fail('writing', 'the server is a standby or read only', 'use the primary server')
    elif facts.lacks:
        advice = 'GRANT what is missing, or let the owner of the tables connect'
        yield fail('writing', f'no rights on {", ".join(facts.lacks)}', advice)
    else:
        yield ok('writing', 'the rights are there')
    if not facts.fsync or facts.synchronous_commit == 'off':
        told = f'fsync is {"on" if facts.fsync else "off"}, synchronous_commit is {facts.synchronous_commit}'
        yield warn('durability', told, 'switch both on: what clients were shown is lost in a crash otherwise')
    else:
        yield ok('durability', f'fsync is on, synchronous_commit is {facts.synchronous_commit}')
    skew = max(before - facts.now, facts.now - after, 0) / 1e6
    if skew > MOST_SKEW:
        yield warn('clock', f'it differs by {skew:.1f} s from that of the server', 'let NTP set both')
    else:
        yield ok('clock', f'it differs by less than {MOST_SKEW:g} s from that of the server')
    told = f'{facts.connections} of {facts.max_connections} are taken'
    if facts.max_connections - facts.connections < FEW_CONNECTIONS:
        yield warn('connections', told, 'raise max_connections, or make the pools of programs smaller')
    else:
        yield ok('connections', told)


def _judge_version(facts: PostgresFacts) -> Finding:
    if facts.version_number < OLDEST_POSTGRESQL:
        return fail('version', f'PostgreSQL {facts.version} is too old', 'use PostgreSQL 14 or newer')
    if facts.version_number < OLDEST_TESTED_POSTGRESQL:
        return warn('version', f'PostgreSQL {facts.version} is not maintained', 'use PostgreSQL 14 or newer')
    return ok('version', f'PostgreSQL {facts.version}')


async def _check_schema(site: Site) -> Finding:
    try:
        schema = await site.inspector.schema()
    except EnvironmentFault as error:
        return fail('schema', str(error), 'look at the database')
    told = trouble_with(schema)
    if not told:
        return ok('schema', f'{schema.current}, the newest')
    if not schema.is_known:
        return fail('schema', f'the database {told}', 'upgrade a2a-scribe')
    return warn('schema', f'the database {told}', 'servers do it too when they start, unless create_table is off')

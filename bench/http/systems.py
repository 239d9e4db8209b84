"""The systems under test, as values: nothing here imports any of them."""

from dataclasses import dataclass, replace
from typing import Final

from bench.contenders import Contender


@dataclass(frozen=True, slots=True)
class System(Contender):
    """One contender.

    `app`: the function that makes it. `seeds_as`: the system of the other benchmark that fills a database for this one.
    """

    app: str
    dialect: str = 'a2a-1.0'
    is_durable: bool = False
    is_recorded: bool = False
    seeds_as: str = ''


OURS: Final = System(
    name='ours',
    title='a2a-scribe, SQLite',
    package='a2a_scribe',
    distribution='a2a-scribe',
    app='bench.http.app_ours:serve_database',
    is_durable=True,
    seeds_as='ours',
)
SDK_DATABASE: Final = System(
    name='sdk-sqlite',
    title='a2a-sdk, SQLite',
    package='a2a',
    distribution='a2a-sdk',
    app='bench.http.app_sdk:serve_database',
    is_durable=True,
    seeds_as='peer',
)
SDK_MEMORY: Final = System(
    name='sdk-memory',
    title='a2a-sdk, memory',
    package='a2a',
    distribution='a2a-sdk',
    app='bench.http.app_sdk:serve_memory',
)
FASTA2A: Final = System(
    name='fasta2a',
    title='fasta2a, memory',
    package='fasta2a',
    distribution='fasta2a',
    app='bench.http.app_fasta2a:serve_memory',
    dialect='fasta2a',
)
LIMIT: Final = System(
    name='limit',
    title='bare ASGI app',
    package='uvicorn',
    distribution='uvicorn',
    app='bench.http.app_limit:serve',
    is_recorded=True,
)
LIMIT_SINGLY: Final = replace(
    LIMIT, name='limit-singly', title='bare ASGI app, event by event', app='bench.http.app_limit:serve_singly'
)
SYSTEMS: Final = {system.name: system for system in (SDK_DATABASE, SDK_MEMORY, FASTA2A, OURS, LIMIT, LIMIT_SINGLY)}

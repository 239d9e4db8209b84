"""A server in a process of its own whose agent emits numbered chunks, and clients of it."""

import asyncio
import os
import sys
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc
import httpx
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.types.a2a_pb2 import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    Message,
    Part,
    Role,
    SendMessageRequest,
    StreamResponse,
)

from tests.support.proxy import HOST

PROGRAM: Final = Path(__file__).parents[1] / 'acceptance' / 'programs' / 'streaming_agent.py'
JSON_RPC, REST, GRPC = BINDINGS = ('JSONRPC', 'HTTP+JSON', 'GRPC')
QUIET: Final = 60.0
"""Seconds that a client waits for something to come."""
OWN_CONNECTION: Final = (('grpc.use_local_subchannel_pool', 1), ('grpc.enable_http_proxy', 0))
"""Channels to one address share a connection otherwise."""


@dataclass(slots=True)
class ServerProcess:
    """A running server."""

    process: asyncio.subprocess.Process
    ports: Mapping[str, int]
    """By binding."""

    @property
    def url(self) -> str:
        return f'http://{HOST}:{self.ports[JSON_RPC]}'

    @property
    def resident_bytes(self) -> int:
        """The resident memory of the process."""
        pages = Path(f'/proc/{self.process.pid}/statm').read_text(encoding='ascii').split()[1]
        return int(pages) * os.sysconf('SC_PAGE_SIZE')

    @property
    def peak_bytes(self) -> int:
        """The most resident memory that the process has had; Linux only."""
        status = Path(f'/proc/{self.process.pid}/status').read_text(encoding='ascii')
        (line,) = (line for line in status.splitlines() if line.startswith('VmHWM:'))
        return int(line.split()[1]) * 1024

    async def kill(self) -> None:
        """Ends the process as a crash of the machine would; harmless when it has ended."""
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()


@asynccontextmanager
async def serving(
    database_url: str, *arguments: str, program: Path = PROGRAM, **settings: Any
) -> AsyncIterator[ServerProcess]:
    """Runs the server until the block ends, which kills it."""
    environment = {f'A2A_SCRIBE_{name.upper()}': str(value) for name, value in settings.items()}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(program), database_url, *arguments),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, **environment},
    )
    server = ServerProcess(process, {})
    try:
        assert process.stdout is not None
        url = (await asyncio.wait_for(process.stdout.readline(), QUIET)).decode().strip()
        server.ports = await ports_of(url)
        yield server
    finally:
        await server.kill()


async def ports_of(url: str) -> dict[str, int]:
    """Reads from the card where the bindings are served."""
    async with httpx.AsyncClient(trust_env=False) as client:
        card: dict[str, Any] = (await client.get(f'{url}/.well-known/agent-card.json')).json()
    return {
        interface['protocolBinding']: int(interface['url'].rstrip('/').rpartition(':')[2])
        for interface in card['supportedInterfaces']
    }


@asynccontextmanager
async def http_client(*, keep_alive: bool = True) -> AsyncIterator[httpx.AsyncClient]:
    """What the clients of HTTP share: making one takes longer than a stream. May connect anew for each request."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None if keep_alive else 0)
    async with httpx.AsyncClient(trust_env=False, timeout=QUIET, limits=limits) as client:
        yield client


@asynccontextmanager
async def connected(
    binding: str, port: int, http: httpx.AsyncClient, *, streaming: bool = True
) -> AsyncIterator[Client]:
    """A client of `a2a-sdk` for one binding; one that does not stream waits for answers."""
    place = f'{HOST}:{port}'
    url = place if binding == GRPC else f'http://{place}'
    card = AgentCard(
        name='streaming',
        capabilities=AgentCapabilities(streaming=True),
        supported_interfaces=[AgentInterface(url=url, protocol_binding=binding, protocol_version='1.0')],
    )
    config = ClientConfig(
        httpx_client=http,
        streaming=streaming,
        supported_protocol_bindings=[binding],
        grpc_channel_factory=lambda place: grpc.aio.insecure_channel(place, options=OWN_CONNECTION),
    )
    client = ClientFactory(config).create(card)
    try:
        yield client
    finally:
        if binding == GRPC:
            await client.close()


def request(
    first: int, count: int, *, pace: int = 0, end: str = 'complete', task_id: str = '', hook: str = ''
) -> SendMessageRequest:
    """Asks for chunks; `pace` are the milliseconds between them, `hook` is the URL of a webhook."""
    words = f'{first} {count} {pace} {end}'
    message = Message(role=Role.ROLE_USER, message_id=str(uuid.uuid4()), parts=[Part(text=words)], task_id=task_id)
    asked = SendMessageRequest(message=message)
    if hook:
        asked.configuration.task_push_notification_config.url = hook
    return asked


def chunk_of(response: StreamResponse) -> int | None:
    """Returns the number of a chunk, `None` of what is none."""
    if not response.HasField('artifact_update'):
        return None
    return int(response.artifact_update.artifact.parts[0].text.removeprefix('chunk '))

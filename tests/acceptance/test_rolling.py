"""Servers that are replaced one after another under load: clients that resume notice nothing, and no task fails."""

import asyncio
import signal
import uuid
from contextlib import AsyncExitStack
from typing import Any

import pytest
from a2a.client import Client, ClientCallContext
from a2a.types.a2a_pb2 import StreamResponse, TaskState

from a2a_scribe.client import Backoff, Followed, follow
from a2a_scribe.protocol.states import COMPLETED
from tests.support.cutting import CuttingProxy, cutting
from tests.support.proxy import wait_for_seconds
from tests.support.streaming import JSON_RPC, ServerProcess, connected, http_client, request, serving

pytestmark = pytest.mark.anyio

SERVERS = 2
CLIENTS = 16
TOO_LONG = 90
QUICKLY: dict[str, Any] = {'heartbeat': 0.5, 'lease': 2.0, 'poll_interval': 0.1}


@pytest.fixture(params=['sqlite_url', 'postgres_database_url'])
def url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(request.param))


def state_in(response: StreamResponse) -> TaskState:
    """Returns the state that an event shows."""
    return (response.task if response.HasField('task') else response.status_update).status.state


def chunks_in(response: StreamResponse) -> list[int]:
    """Returns the chunks that an event brings; a message that was sent again begins with those that are there."""
    artifacts = response.task.artifacts if response.HasField('task') else [response.artifact_update.artifact]
    return [int(part.text.removeprefix('chunk ')) for artifact in artifacts for part in artifact.parts]


async def converse(client: Client, over: asyncio.Event) -> int:
    """Has one task done after another; whatever its stream raises fails the test."""
    tasks = 0
    while not over.is_set():
        count, pace = ((200, 0), (30, 10), (10, 100))[tasks % 3]
        seen: list[Followed] = []
        keyed = ClientCallContext(service_parameters={'Idempotency-Key': f'{uuid.uuid4()}'})
        message = request(0, count, pace=pace)
        async for followed in follow(client, message, context=keyed, attempts=None, backoff=Backoff(most=0.2)):
            seen.append(followed)  # noqa: PERF401 - as it comes
        assert state_in(seen[-1].response) == COMPLETED
        assert [number for each in seen for number in chunks_in(each.response)] == list(range(count))
        tasks += 1
    return tasks


async def replace(old: ServerProcess, new: ServerProcess, proxy: CuttingProxy) -> None:
    """Sends new connections to the new server, and the old one away, as a load balancer and a supervisor do."""
    proxy.upstream = new.ports[JSON_RPC]
    old.process.send_signal(signal.SIGTERM)
    assert await old.process.wait() == 0


async def test_servers_are_replaced_under_load(url: str) -> None:
    over = asyncio.Event()
    async with (
        asyncio.timeout(TOO_LONG),
        http_client() as http,
        AsyncExitStack() as stack,
        cutting(0) as proxy,
        connected(JSON_RPC, proxy.port, http) as client,
    ):
        server = await stack.enter_async_context(serving(url, **QUICKLY))
        proxy.upstream = server.ports[JSON_RPC]
        running = [asyncio.create_task(converse(client, over)) for _ in range(CLIENTS)]
        for _ in range(SERVERS):
            await wait_for_seconds(1.0)
            following = await stack.enter_async_context(serving(url, **QUICKLY))
            await replace(server, following, proxy)
            server = following
        over.set()
        assert sum(await asyncio.gather(*running)) > CLIENTS

"""A disk that is full: clear errors while it is, and all goes on by itself once there is room again."""

import asyncio
import sys
from contextlib import suppress
from typing import Any

import aiosqlite
import pytest
from a2a.types.a2a_pb2 import GetTaskRequest, Task
from a2a.utils.errors import InternalError
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from a2a_scribe import DatabaseTaskStore, DefaultRequestHandler
from a2a_scribe.protocol.states import COMPLETED, FAILED
from a2a_scribe.settings import Settings
from a2a_scribe.testing.agents import ScriptedAgent, artifact, emit, status, task, wait
from tests.component.kit import new_card, new_context, new_request
from tests.support.proxy import wait_for_seconds

pytestmark = pytest.mark.anyio

BIG = 'x' * 400_000


class Disk:
    """How many pages the database may have, for every connection."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._pages = 2**30
        self._connections: list[aiosqlite.Connection] = []
        event.listen(engine.sync_engine, 'connect', self._note)

    def _note(self, connection: Any, *_: object) -> None:
        cursor = connection.cursor()
        cursor.execute(f'PRAGMA max_page_count = {self._pages}')
        cursor.close()
        self._connections.append(connection.driver_connection)

    async def resize(self, pages: int) -> None:
        self._pages = pages
        for connection in self._connections:
            with suppress(ValueError):  # it is closed
                await connection.execute_fetchall(f'PRAGMA max_page_count = {pages}')


async def test_a_full_disk_is_told_and_got_over(sqlite_url: str) -> None:
    agent = ScriptedAgent(
        answers={
            'wait': [emit(task()), wait('gate'), emit(artifact(BIG), status(COMPLETED))],
            'big': [emit(task(), artifact(BIG), status(COMPLETED))],
            'small': [emit(task(), status(COMPLETED))],
        }
    )
    engine = create_async_engine(sqlite_url)
    disk = Disk(engine)
    settings = Settings(journal_patience=0.5, heartbeat=0.2, poll_interval=0.1)
    handler = DefaultRequestHandler(agent, DatabaseTaskStore(engine), new_card(), settings=settings)
    try:
        async with asyncio.timeout(60):
            stream = handler.on_message_send_stream(new_request('wait'), new_context())
            begun = await anext(stream)
            await disk.resize(60)
            agent.open('gate')
            with pytest.raises(InternalError) as caught:
                async for _ in stream:
                    pass
            assert caught.value.data == {'retryable': 'true'}
            with pytest.raises(InternalError) as caught:
                await handler.on_message_send(new_request('big'), new_context())
            assert caught.value.data == {'retryable': 'true'}
            await disk.resize(2**30)
            while handler.engine.live_tasks:
                await wait_for_seconds(0.05)
            answer = await handler.on_message_send(new_request('big'), new_context())
            assert isinstance(answer, Task)
            assert answer.status.state == COMPLETED
            look = GetTaskRequest(id=begun.id)  # type: ignore[union-attr]
            while (stored := await handler.on_get_task(look, new_context())).status.state != FAILED:
                await wait_for_seconds(0.05)
            assert 'storage' in stored.status.message.parts[0].text
    finally:
        await handler.aclose()
        await engine.dispose()
    check = await asyncio.create_subprocess_exec(
        sys.executable, '-m', 'a2a_scribe', 'db', 'check', sqlite_url, stdout=asyncio.subprocess.PIPE
    )
    told, _ = await check.communicate()
    assert check.returncode == 0, told.decode()

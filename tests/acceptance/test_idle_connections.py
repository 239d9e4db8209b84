"""A server keeps connections that are idle longer than clients do, so no request meets a connection that is closing."""

import asyncio
from contextlib import closing
from typing import Final

import pytest

from tests.support.proxy import HOST, wait_for_seconds
from tests.support.streaming import JSON_RPC, serving

IDLE = 6.0
"""Seconds; `httpx`, and so `a2a-sdk`, keeps idle connections for five."""
REQUEST: Final = f'GET /.well-known/agent-card.json HTTP/1.1\r\nHost: {HOST}\r\n\r\n'.encode()


@pytest.mark.anyio
async def test_a_connection_that_was_idle_is_still_served(sqlite_url: str) -> None:
    async with asyncio.timeout(60), serving(sqlite_url) as server:
        reader, writer = await asyncio.open_connection(HOST, server.ports[JSON_RPC])
        with closing(writer):
            for pause in (IDLE, 0.0):
                writer.write(REQUEST)
                head = (await reader.readuntil(b'\r\n\r\n')).decode().lower()
                assert head.startswith('http/1.1 200')
                (length,) = (line.partition(':')[2] for line in head.splitlines() if line.startswith('content-length:'))
                await reader.readexactly(int(length))
                await wait_for_seconds(pause)

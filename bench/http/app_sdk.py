"""`a2a-sdk` as its users set it up: its handler on one of its stores, its own JSON-RPC routes.

One thing is given to it: SQLite waits longer for a lock than its default of 5 s, within which streams side by side fail
with "database is locked".
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_jsonrpc_routes
from a2a.server.tasks import DatabaseTaskStore, InMemoryTaskStore, TaskStore
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from starlette.applications import Starlette

from bench.agents import BenchAgent, agent_card
from bench.http.control import Served
from bench.http.reached import reached
from bench.http.spec import ServerSpec

LOCK_TIMEOUT: Final = 120


def serve_database(spec: ServerSpec) -> Served:
    engine = create_async_engine(spec.url, connect_args={'timeout': LOCK_TIMEOUT})
    return _served(DatabaseTaskStore(engine), engine)


def serve_memory(_: ServerSpec) -> Served:
    return _served(InMemoryTaskStore(), None)


def _served(store: TaskStore, engine: AsyncEngine | None) -> Served:
    agent = BenchAgent()
    handler = DefaultRequestHandler(agent, store, agent_card())

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await handler.aclose()

    return reached(Starlette(routes=create_jsonrpc_routes(handler, '/'), lifespan=lifespan), agent, engine)

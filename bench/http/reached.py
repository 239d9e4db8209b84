"""What the harness reaches of the systems that run the benchmark's own agent."""

import asyncio

from sqlalchemy.ext.asyncio import AsyncEngine
from starlette.types import ASGIApp

from bench.agents import BenchAgent
from bench.http.control import Served
from bench.promises import durability_settings


def reached(app: ASGIApp, agent: BenchAgent, engine: AsyncEngine | None) -> Served:
    def release() -> None:
        """Lets the tasks go on that wait, and none of those that come later."""
        waited_for, agent.release = agent.release, asyncio.Event()
        waited_for.set()

    async def settings() -> dict[str, str]:
        return {} if engine is None else await durability_settings(engine)

    return Served(app, release, settings)

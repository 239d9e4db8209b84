"""a2a-scribe as its users set it up: the defaults of everything that is not named here."""

from sqlalchemy.ext.asyncio import create_async_engine

from a2a_scribe import create_app
from bench.agents import BenchAgent, agent_card
from bench.http.control import Served
from bench.http.reached import reached
from bench.http.spec import ServerSpec


def serve_database(spec: ServerSpec) -> Served:
    agent, engine = BenchAgent(), create_async_engine(spec.url)
    return reached(create_app(agent, agent_card(), engine), agent, engine)

"""What the contract tests of the SQL journal share."""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from a2a_scribe.journal.sql.tables import DEFAULT_PREFIX
from a2a_scribe.protocol.types import NodeId


async def bury(engine: AsyncEngine, node_id: NodeId) -> None:
    """Declares a node dead, as another node would that finds it silent."""
    statement = text(f"UPDATE {DEFAULT_PREFIX}nodes SET state = 'dead' WHERE id = :id")
    async with engine.begin() as connection:
        await connection.execute(statement, {'id': node_id})

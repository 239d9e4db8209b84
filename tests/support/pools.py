"""What becomes of the connections that an engine makes."""

from collections import Counter

from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine


def watched(engine: AsyncEngine) -> Counter[str]:
    """Counts the connections that were opened, and those that were closed beside the pool or in it.

    Those of another engine whose pool was made as this one's are counted too.
    """
    seen = Counter[str]()
    event.listen(engine.sync_engine, 'connect', lambda *_: seen.update(['opened']))
    event.listen(engine.sync_engine, 'close_detached', lambda *_: seen.update(['closed']))
    event.listen(engine.sync_engine, 'close', lambda *_: seen.update(['closed']))
    return seen

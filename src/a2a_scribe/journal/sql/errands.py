"""What has to come to its end whatever becomes of those who wait for it."""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import TypeVar

T = TypeVar('T')


async def to_its_end(errand: Awaitable[T]) -> T:
    """Awaits an errand to its end, also when the one who waits is cancelled; then the cancellation counts."""
    task = asyncio.ensure_future(errand)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            with suppress(asyncio.CancelledError):  # some cancel again at every turn of the loop
                await asyncio.wait([task])
        if not task.cancelled():
            task.exception()
        raise

"""What happens in conversations: each plot is one task with all that is done with it, to its end."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

from a2a_scribe.protocol.states import COMPLETED, INPUT_REQUIRED, WORKING
from tests.support.conversations import BORN, Conversation, Measures, Server, Story


async def is_answered(it: Conversation) -> None:
    answer = await it.send(f'{it.more()} complete')
    assert answer.status.state == COMPLETED
    await it.has_ended()


async def is_streamed(it: Conversation) -> None:
    await it.stream('send', f'{it.more()} complete')
    await it.has_ended()


async def is_followed(it: Conversation) -> None:
    """Others come while it runs: one from the start, one from where it stands."""
    before = it.more(3)
    words = f'{before} {it.gate.word} {it.more()} complete'
    await it.send(words, immediately=True)
    await it.gate.wait()
    assert (await it.get()).status.state == WORKING
    await it.has_recorded(3)
    begun = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(it.subscribe('subscription from here', begun=begun))
        group.create_task(it.subscribe('subscription', after=BORN + it.chance.randint(0, 3)))
        await begun.wait()
        it.gate.open()


async def is_parked(it: Conversation) -> None:
    """It asks, has its push configs managed, and goes on; somebody follows it all the time."""
    answer = await it.send(f'{it.more()} ask')
    assert answer.status.state == INPUT_REQUIRED
    async with asyncio.TaskGroup() as group:
        group.create_task(it.subscribe('subscription', after=BORN))
        await it.configure()
        await it.send(f'{it.more()} ask')
        await it.stream('answer', f'{it.more()} complete')


async def is_queued_for(it: Conversation) -> None:
    """Two more messages come while the first is worked on."""
    begun = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        words = f'{it.more()} {it.gate.word} {it.more()} ask'
        group.create_task(it.stream('send', words, begun))
        await begun.wait()
        await it.gate.wait()
        await it.send(f'{it.more()} ask', immediately=True)
        last = f'{it.more()} complete'
        if it.chance.random() < 0.5:
            group.create_task(it.stream('queued', last))
        else:
            group.create_task(it.send(last))
        group.create_task(it.subscribe('subscription', after=BORN))
        it.gate.open()


async def is_cancelled(it: Conversation) -> None:
    begun = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(it.stream('send', f'{it.more()} {it.gate.word} forever', begun))
        await begun.wait()
        await it.gate.wait()
        it.gate.open()
        group.create_task(it.subscribe('subscription', after=BORN))
        await it.cancel()
    await it.has_ended()


async def is_cancelled_parked(it: Conversation) -> None:
    await it.send(f'{it.more()} ask')
    async with asyncio.TaskGroup() as group:
        group.create_task(it.subscribe('subscription', after=BORN))
        await it.cancel()


PLOTS: Final[tuple[Callable[[Conversation], Awaitable[None]], ...]] = (
    is_answered,
    is_streamed,
    is_followed,
    is_parked,
    is_queued_for,
    is_cancelled,
    is_cancelled_parked,
)


async def converse(
    numbers: range, servers: Sequence[Server], directory: Path, measures: Measures, at_once: int
) -> list[Story]:
    """Has conversations, so many side by side."""
    room = asyncio.Semaphore(at_once)

    async def have(number: int) -> Story:
        async with room:
            conversation = Conversation(number, servers, directory, measures)
            try:
                await PLOTS[number % len(PLOTS)](conversation)
                return await conversation.finish()
            except Exception as error:
                error.add_note(f'conversation {number}, task {conversation.task_id}')
                raise

    async with asyncio.TaskGroup() as group:
        running = [group.create_task(have(number)) for number in numbers]
    return [each.result() for each in running]

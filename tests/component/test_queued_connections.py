"""Connections whose message waits for another turn: they are kept alive and watched, whatever that turn does."""

import asyncio
from typing import Any

import pytest

from a2a_scribe import Settings
from a2a_scribe.protocol.states import COMPLETED, INPUT_REQUIRED
from a2a_scribe.testing.agents import Run, ScriptedAgent, Step, artifact, do, emit, status, task, wait
from tests.component.connections import Connection, observers, pass_a_second, rest, rpc
from tests.component.kit import Site, running, settle, until

pytestmark = pytest.mark.anyio

KEPT_ALIVE = Settings(stream_keep_alive=3)
OPENING = 'retry: 1000\n\n: keep-alive\n\n'
STREAMS = ('/message:stream', 'SendStreamingMessage')
SENDS = ('/message:send', 'SendMessage')
MINE = [emit(artifact('mine')), emit(status(COMPLETED))]
"""What the turn of the message that waits shows, after the task."""


def follow_up(site: Site, operation: str, task_id: str) -> Connection:
    """Sends a message for a task that works on another one."""
    sent: dict[str, Any] = {
        'message': {'messageId': 'n', 'role': 'ROLE_USER', 'parts': [{'text': 'more'}], 'taskId': task_id}
    }
    return rest(site, operation, sent) if operation.startswith('/') else rpc(site, operation, sent)


def emits_until(name: str) -> Step:
    """Emits all the time, as fast as it is let, until a gate opens."""

    async def chatter(run: Run) -> None:
        while not run.agent.gate(name).opened.is_set():
            await run.queue.enqueue_event(artifact('theirs', append=True))
            await asyncio.sleep(0)

    return do(chatter)


async def queued(site: Site, operation: str) -> Connection:
    """Begins a task, and sends a message that waits for its turn to end."""
    begun = await site.begin_task(user='')
    reader = follow_up(site, operation, begun.id)
    await settle()
    return reader


@pytest.mark.parametrize('operation', STREAMS)
async def test_a_stream_that_waits_for_its_turn_is_kept_alive(operation: str) -> None:
    agent = ScriptedAgent([emit(task()), wait('gate'), emit(status(INPUT_REQUIRED))], MINE)
    async with running(agent, settings=KEPT_ALIVE) as site:
        reader = await queued(site, operation)
        for _ in range(2):
            await pass_a_second(site)
        assert reader.status is None
        for _ in range(4):
            await pass_a_second(site)
        assert reader.text == OPENING + ': keep-alive\n\n'
        agent.open('gate')
        await reader.task
        assert reader.text.count('retry: ') == 1
        assert len(reader.ids) == 3
        assert reader.sent[-1] == {'type': 'http.response.body', 'body': b'', 'more_body': False}


@pytest.mark.parametrize('operation', STREAMS)
async def test_a_stream_that_waits_for_a_busy_turn_is_kept_alive(operation: str) -> None:
    agent = ScriptedAgent([emit(task()), emits_until('gate'), emit(status(INPUT_REQUIRED))], MINE)
    async with running(agent, settings=KEPT_ALIVE) as site:
        reader = await queued(site, operation)
        site.clock.skip(2.9)
        await settle()
        assert reader.status is None
        site.clock.skip(0.2)
        await until(lambda: reader.text == OPENING)
        agent.open('gate')
        await reader.task
        assert 'theirs' not in reader.text.partition('mine')[2]
        assert len(reader.ids) == 3


@pytest.mark.parametrize('operation', STREAMS)
@pytest.mark.parametrize('is_late', [False, True])
async def test_a_refusal_after_a_keep_alive_is_told_in_the_stream(operation: str, is_late: bool) -> None:
    agent = ScriptedAgent([emit(task()), wait('gate'), emit(status(COMPLETED))])
    async with running(agent, settings=KEPT_ALIVE) as site:
        reader = await queued(site, operation)
        for _ in range(3 if is_late else 2):
            await pass_a_second(site)
        agent.open('gate')
        await reader.task
        assert 'ended before the message was looked at' in reader.text
        assert reader.text.startswith(OPENING + 'event: error\ndata: {') == is_late
        assert reader.text.startswith('{') != is_late
        assert reader.status == (400 if operation.startswith('/') and not is_late else 200)


@pytest.mark.parametrize('operation', [*STREAMS, *SENDS])
async def test_a_client_that_has_gone_is_noticed_while_another_turn_emits(operation: str) -> None:
    agent = ScriptedAgent([emit(task()), emits_until('gate'), emit(status(INPUT_REQUIRED))], MINE)
    async with running(agent) as site:
        reader = await queued(site, operation)
        reader.go_away()
        site.clock.skip(1.0)
        await reader.task
        assert (reader.status, reader.text) == (499, '')
        assert len(agent.heard) == 1, 'its turn has not come'
        agent.open('gate')
        await site.left_memory()
        assert agent.heard == ['go', 'more']


@pytest.mark.parametrize('operation', [*STREAMS, *SENDS])
async def test_a_client_is_looked_for_once_a_second_while_another_turn_emits(operation: str) -> None:
    agent = ScriptedAgent([emit(task()), emits_until('gate'), emit(status(INPUT_REQUIRED))], MINE)
    async with running(agent) as site:
        reader = await queued(site, operation)
        for seconds in range(4):
            asked = 1 + seconds
            await until(lambda asked=asked: reader.asked == asked)  # type: ignore[misc]
            await settle()
            assert reader.asked == asked
            site.clock.skip(1.0)
        agent.open('gate')
        await reader.task


@pytest.mark.parametrize('operation', [*STREAMS, *SENDS])
async def test_no_round_of_a_silent_call_comes_too_early_for_a_look(operation: str) -> None:
    """Though a timer may go off a little before its time."""
    agent = ScriptedAgent([emit(task()), wait('gate'), emit(status(INPUT_REQUIRED))], MINE)
    async with running(agent, settings=Settings(poll_interval=0.999)) as site:
        reader = await queued(site, operation)
        for seconds in range(1, 4):
            await site.advance(0.999)
            await until(lambda: observers(site) == 2)
            assert reader.asked == 1 + seconds
        agent.open('gate')
        await reader.task


async def test_a_client_that_wants_no_more_than_the_task_is_looked_for_as_well() -> None:
    """While the journal is away there is none."""
    agent = ScriptedAgent([emit(task()), wait('gate')])
    async with running(agent) as site:
        site.journal.fail()
        sent = {
            'message': {'messageId': 'm', 'role': 'ROLE_USER', 'parts': [{'text': 'go'}]},
            'configuration': {'returnImmediately': True},
        }
        reader = rest(site, '/message:send', sent)
        await agent.reached('gate')
        reader.go_away()
        await site.advance(1.0)
        await reader.task
        assert reader.status == 499
        site.journal.heal()
        agent.open('gate')
        await site.advance(1.0)
        await site.left_memory()

"""Turns that go on in the background of the agent (`unfinished='keep'`): the next message ends them, whosever it is."""

import pytest

from a2a_scribe import Settings
from a2a_scribe.errors import TurnEndedError
from a2a_scribe.protocol.states import COMPLETED, WORKING
from a2a_scribe.testing.agents import ScriptedAgent, artifact, emit, status, task, wait
from tests.component.kit import running, settle, text_of, until
from tests.component.two_sites import pass_time, two_sites

pytestmark = pytest.mark.anyio

KEEP = Settings(unfinished='keep', journal_patience=3600.0)


async def test_a_message_of_another_process_ends_a_kept_turn() -> None:
    agent = ScriptedAgent([emit(task(WORKING))], [emit(status(COMPLETED, 'second'))])
    async with two_sites(agent, settings=KEEP) as (owner, sender):
        begun = await owner.begin_task('one')
        await until(lambda: agent.finished)
        answer = sender.begin('two', task_id=begun.id)
        await pass_time(sender, 4, answer)
        assert text_of((await answer).status.message) == 'second'
        assert agent.heard == ['one', 'two']
        with pytest.raises(TurnEndedError):
            await agent.queues[0].enqueue_event(artifact('too late'))


@pytest.mark.parametrize('elsewhere', [False, True])
async def test_a_message_that_waits_already_ends_a_turn_that_would_go_on_in_the_background(elsewhere: bool) -> None:
    agent = ScriptedAgent([emit(task(WORKING)), wait('gate')], [emit(status(COMPLETED, 'second'))])
    async with two_sites(agent, settings=KEEP) as (owner, other):
        begun = await owner.begin_task('one')
        await agent.reached('gate')
        answer = (other if elsewhere else owner).begin('two', task_id=begun.id)
        await settle()
        await pass_time(other, 3)
        assert agent.heard == ['one']
        agent.open('gate')
        await pass_time(other, 3, answer)
        assert text_of((await answer).status.message) == 'second'


async def test_a_turn_that_is_alone_is_not_ended() -> None:
    agent = ScriptedAgent([emit(task(WORKING))])
    async with running(agent, settings=KEEP) as site:
        answer = site.begin('one')
        await until(lambda: agent.finished)
        await settle()
        assert not answer.done()
        await agent.queues[0].enqueue_event(status(COMPLETED))
        assert (await answer).status.state == COMPLETED

"""A history that is too long for memory: it stays in the journal, and nobody can tell."""

from a2a_scribe import Settings
from a2a_scribe.protocol.states import CANCELED, COMPLETED, INPUT_REQUIRED, WORKING
from a2a_scribe.protocol.types import Task
from a2a_scribe.testing.agents import ScriptedAgent, emit, status, task, wait
from tests.component.kit import history_of, running, text_of

SHORT = Settings(history_bytes=2_000, pending_records=5)
TALK = [status(WORKING, f'{number} ' + 'x' * 300) for number in range(60)]
SAID = [f'{number} ' + 'x' * 300 for number in range(60)]


async def test_a_long_history_is_read_whole() -> None:
    agent = ScriptedAgent([emit(*TALK), wait('gate'), emit(status(COMPLETED, 'done'))])
    async with running(agent, settings=SHORT) as site:
        answer = site.begin()
        await agent.reached('gate')
        assert history_of(await site.get(site.task_id)) == ['go', *SAID[:-1]]
        agent.open('gate')
        done = await answer
        assert history_of(done) == ['go', *SAID]
        assert text_of(done.status.message) == 'done'
        assert history_of(await site.get(done.id)) == ['go', *SAID]
        await site.left_memory()


async def test_a_whole_task_does_not_bring_back_what_was_shed() -> None:
    old = task(WORKING, 'now')
    old.history.add(message_id='old').parts.add(text='said long ago')
    agent = ScriptedAgent([emit(old, *TALK), emit(old), emit(status(COMPLETED))])
    async with running(agent, settings=SHORT) as site:
        done = await site.send()
        assert history_of(done).count('said long ago') == 1
        assert history_of(done).count('now') == 1


async def test_a_follow_up_sees_all_of_it() -> None:
    agent = ScriptedAgent(
        [emit(*TALK, status(INPUT_REQUIRED, 'well?')), wait('gate')],
        [emit(status(COMPLETED))],
    )
    async with running(agent, settings=SHORT) as site:
        waiting = site.begin()
        await agent.reached('gate')
        stream = site.stream('two', task_id=site.task_id)
        agent.open('gate')
        assert (await waiting).status.state == INPUT_REQUIRED
        events = await stream.end()
        assert isinstance(events[0], Task)
        assert history_of(events[0])[: len(SAID) + 1] == ['go', *SAID]
        current = agent.contexts[1].current_task
        assert current is not None
        assert len(current.history) == len(SAID) + 3


async def test_a_cancel_answers_with_all_of_it() -> None:
    agent = ScriptedAgent([emit(*TALK), wait('gate')])
    async with running(agent, settings=SHORT) as site:
        waiting = site.begin()
        await agent.reached('gate')
        canceled = await site.cancel(site.task_id)
        assert canceled.status.state == CANCELED
        assert history_of(canceled) == ['go', *SAID]
        assert history_of(await waiting) == ['go', *SAID]

"""ListTasks: a total order, pages that neither skip nor repeat, filters, and what is left out."""

from typing import Any

import pytest
from a2a.utils.errors import InvalidParamsError
from google.protobuf.timestamp_pb2 import Timestamp

from a2a_scribe.protocol.states import CANCELED, COMPLETED, INPUT_REQUIRED, WORKING
from a2a_scribe.protocol.types import Task
from a2a_scribe.testing.agents import ScriptedAgent, artifact, emit, status, task, wait
from a2a_scribe.testing.clock import START
from tests.component.kit import Site, running, settle

pytestmark = pytest.mark.anyio

ANSWER = [emit(artifact()), emit(status(COMPLETED, 'done'))]


async def pages_of(site: Site, size: int) -> list[list[str]]:
    pages, token = [], ''
    while True:
        page = await site.find(page_size=size, page_token=token)
        pages.append([listed.id for listed in page.tasks])
        token = page.next_page_token
        if not token:
            return pages


async def test_the_newest_status_comes_first() -> None:
    async with running(ScriptedAgent(ANSWER)) as site:
        made: list[Task] = []
        for _ in range(3):
            made.append(await site.send())
            site.clock.skip(1.0)
        listed = await site.find()
        assert [each.id for each in listed.tasks] == [each.id for each in reversed(made)]
        assert (listed.total_size, listed.page_size, listed.next_page_token) == (3, 50, '')


async def test_a_new_status_moves_a_task_to_the_front() -> None:
    async with running(ScriptedAgent([emit(status(INPUT_REQUIRED))])) as site:
        old, new = await site.send(), await site.send()
        await site.left_memory()
        site.clock.skip(1.0)
        await site.cancel(old.id)
        assert [each.id for each in (await site.find()).tasks] == [old.id, new.id]


@pytest.mark.parametrize('size', [1, 3, 4, 11, 100])
async def test_tasks_of_one_moment_are_listed_once_each(size: int) -> None:
    async with running(ScriptedAgent(ANSWER)) as site:
        made = {(await site.send()).id for _ in range(11)}
        pages = await pages_of(site, size)
        assert sorted(task_id for page in pages for task_id in page) == sorted(made)
        assert all(len(page) == size for page in pages[:-1])
        assert (await site.find(page_size=size)).total_size == 11


async def test_a_token_survives_the_task_that_it_names() -> None:
    async with running(ScriptedAgent(ANSWER)) as site:
        for _ in range(6):
            await site.send()
            site.clock.skip(1.0)
        await site.left_memory()
        whole = [each.id for each in (await site.find()).tasks]
        first = await site.find(page_size=2)
        await site.journal.delete_task(first.tasks[-1].id, site.caller())
        second = await site.find(page_size=2, page_token=first.next_page_token)
        assert [each.id for each in second.tasks] == whole[2:4]


async def test_lists_can_be_filtered() -> None:
    agent = ScriptedAgent(
        ANSWER, answers={'park': [emit(status(INPUT_REQUIRED))], 'work': [emit(task()), wait('gate')]}
    )
    async with running(agent) as site:
        done = await site.send('done', context_id='one')
        site.clock.skip(10.0)
        parked = await site.send('park', context_id='one')
        site.clock.skip(10.0)
        working = await site.begin_task('work', context_id='two')

        async def ids(**given: Any) -> set[str]:
            page = await site.find(**given)
            assert page.total_size == len(page.tasks)
            return {each.id for each in page.tasks}

        assert await ids(context_id='one') == {done.id, parked.id}
        assert await ids(context_id='none') == set()
        assert await ids(status=COMPLETED) == {done.id}
        assert await ids(status=INPUT_REQUIRED, context_id='one') == {parked.id}
        assert await ids(status=CANCELED) == set()
        after = Timestamp()
        after.FromMicroseconds(START + 10_000_000)
        assert await ids(status_timestamp_after=after) == {parked.id, working.id}
        assert await ids(status=WORKING) == set()


async def test_artifacts_and_history_are_shown_as_wanted() -> None:
    async with running(ScriptedAgent([emit(status(WORKING, 'a'), status(WORKING, 'b')), *ANSWER])) as site:
        await site.send()
        (bare,) = (await site.find()).tasks
        assert list(bare.artifacts) == []
        assert len(bare.history) == 3
        (whole,) = (await site.find(include_artifacts=True, history_length=1)).tasks
        assert (len(whole.artifacts), len(whole.history)) == (1, 1)
        assert list((await site.find(history_length=0)).tasks[0].history) == []


async def test_a_running_task_is_listed_as_it_is() -> None:
    agent = ScriptedAgent([emit(task(WORKING, 'on it')), wait('gate'), emit(status(COMPLETED))])
    async with running(agent) as site:
        begun = await site.begin_task()
        assert list((await site.find(include_artifacts=True)).tasks) == [await site.get(begun.id)]
        agent.open('gate')
        await site.left_memory()
        await settle()
        assert (await site.find()).tasks[0].status.state == COMPLETED


@pytest.mark.parametrize(
    'given', [{'page_size': 0}, {'page_size': 101}, {'page_token': '%'}, {'history_length': -1}], ids=str
)
async def test_what_cannot_be_listed_is_refused(given: dict[str, Any]) -> None:
    async with running(ScriptedAgent(ANSWER)) as site:
        with pytest.raises(InvalidParamsError):
            await site.find(**given)

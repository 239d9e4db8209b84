"""Lists of tasks."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from a2a.utils.errors import InvalidParamsError

from a2a_scribe.journal.port import Journal
from a2a_scribe.protocol.states import COMPLETED, FAILED, WORKING
from a2a_scribe.protocol.types import ListTasksRequest, TaskState
from a2a_scribe.testing.contract.adapter import AdapterContract, Connect, Point, needs
from a2a_scribe.testing.contract.scenes import born, listed, outside
from a2a_scribe.testing.journal_driver import ALICE, EPOCH, ScriptedNode, timestamp


async def all_pages(journal: Journal, query: ListTasksRequest) -> AsyncIterator[list[str]]:
    """Yields the ids of page after page, each read when it is asked for."""
    while True:
        page = await journal.list_tasks(ALICE, query)
        yield [task.id for task in page.tasks]
        if not page.next_token:
            return
        query.page_token = page.next_token


class ListsContract(AdapterContract):
    """Lists are filtered, ordered and cut into pages, while tasks move too."""

    @needs(Point.LISTS)
    async def test_lists_filter(self, journal: Journal, node: ScriptedNode) -> None:
        for number, (context, state) in enumerate([('x', WORKING), ('x', COMPLETED), ('y', WORKING), ('y', FAILED)]):
            await listed(node, f'task {number}', state, EPOCH + number, context=context)
        later = timestamp(EPOCH + 2)
        for query, expected in (
            (ListTasksRequest(), '3210'),
            (ListTasksRequest(context_id='x'), '10'),
            (ListTasksRequest(context_id='z'), ''),
            (ListTasksRequest(status=WORKING), '20'),
            (ListTasksRequest(status=TaskState.TASK_STATE_REJECTED), ''),
            (ListTasksRequest(status_timestamp_after=later), '32'),
            (ListTasksRequest(context_id='y', status=FAILED), '3'),
            (ListTasksRequest(context_id='x', status=WORKING, status_timestamp_after=later), ''),
        ):
            page = await journal.list_tasks(ALICE, query)
            assert ''.join(task.id[-1] for task in page.tasks) == expected, query
            assert (page.total, page.next_token) == (len(expected), ''), query

    @needs(Point.LISTS)
    async def test_lists_show_running_tasks_as_they_are(self, journal: Journal, node: ScriptedNode) -> None:
        task = await born(node, 'task')
        await node.commit(task.append(task.chunk('text'), task.status(WORKING, EPOCH + 3)))
        page = await journal.list_tasks(ALICE, ListTasksRequest(status=WORKING))
        assert page.tasks == [task.projection.to_task()]

    @needs(Point.LISTS)
    async def test_pages_lose_and_repeat_nothing(self, journal: Journal, node: ScriptedNode) -> None:
        times = {f'task {n:02}': EPOCH + 10 * (n % 3) for n in range(23)}
        for task_id, time in times.items():
            await listed(node, task_id, WORKING, time)
        expected = sorted(times, key=lambda task_id: (times[task_id], task_id), reverse=True)
        for size in (1, 2, 5, 22, 23, 50):
            pages = [page async for page in all_pages(journal, ListTasksRequest(page_size=size))]
            assert [task_id for page in pages for task_id in page] == expected
            assert [len(page) for page in pages[:-1]] == [size] * (len(pages) - 1)
            assert len(pages) == -(-23 // size)

    @needs(Point.LISTS)
    async def test_pages_stand_firm_while_tasks_move_and_vanish(self, journal: Journal, node: ScriptedNode) -> None:
        tasks = [await listed(node, f'task {n:02}', WORKING, EPOCH + n // 2) for n in range(20)]
        moved, deleted = {tasks[19], tasks[16], tasks[9], tasks[4]}, {tasks[18], tasks[15], tasks[8], tasks[3]}
        seen: list[str] = []
        async for page in all_pages(journal, ListTasksRequest(page_size=3)):
            seen += page
            if page and moved:
                await journal.delete_task(deleted.pop().id, ALICE)
                await journal.replace_task(outside(moved.pop().id, WORKING, EPOCH + 1000), ALICE, EPOCH)
        assert len(seen) == len(set(seen))
        untouched = {f'task {n:02}' for n in range(20)} - {f'task {n:02}' for n in (19, 16, 9, 4, 18, 15, 8, 3)}
        assert untouched <= set(seen)

    @needs(Point.LISTS)
    async def test_lists_are_whole_while_tasks_move(
        self, connect: Connect, journal: Journal, node: ScriptedNode
    ) -> None:
        tasks = [await born(node, f'task {n}') for n in range(5)]
        reader = connect()
        await reader.open()

        async def move() -> None:
            for number in range(40):
                changes = [task.append(task.chunk(f'{number}'), snapshot=number % 3 == 0) for task in tasks]
                await node.commit(*changes)

        moving = asyncio.gather(move())
        chunks = 0
        while not moving.done():
            page = await reader.list_tasks(ALICE, ListTasksRequest())
            assert len(page.tasks) == page.total == 5
            lengths = [sum(len(artifact.parts) for artifact in task.artifacts) for task in page.tasks]
            assert min(lengths) >= chunks
            chunks = min(lengths)
            await asyncio.sleep(0)
        await moving
        await reader.close()

    @needs(Point.LISTS)
    async def test_the_total_counts_all_pages(self, journal: Journal, node: ScriptedNode) -> None:
        for n in range(7):
            await listed(node, f'task {n}', WORKING if n % 2 else COMPLETED, EPOCH + n)
        first = await journal.list_tasks(ALICE, ListTasksRequest(page_size=2))
        assert (len(first.tasks), first.total) == (2, 7)
        second = await journal.list_tasks(ALICE, ListTasksRequest(page_size=2, page_token=first.next_token))
        assert second.total == 7
        assert (await journal.list_tasks(ALICE, ListTasksRequest(page_size=2, status=COMPLETED))).total == 4

    async def test_a_token_that_is_none_is_refused(self, journal: Journal) -> None:
        with pytest.raises(InvalidParamsError):
            await journal.list_tasks(ALICE, ListTasksRequest(page_token='not a token'))

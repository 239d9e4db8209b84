"""What every journal keeps, stated once: an adapter's test subclasses `JournalContract` and says how to connect.

    class TestMyJournal(JournalContract):
        @pytest.fixture
        async def connect(self, tmp_path):
            yield lambda: MyJournal(tmp_path)

        async def declare_dead(self, journal, node_id): ...

Each call of `connect` gives a journal on the same storage, as another process would have it; where nothing outlives the
process, it gives the same object again. A point that an adapter cannot promise is named in `cannot`, with the reason;
the tests that ask for it are then left out.
"""

import asyncio
import enum
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from typing import ClassVar, Final, TypeVar

import pytest
from a2a.utils.errors import InvalidParamsError

from a2a_scribe.core.projection import fold
from a2a_scribe.core.records import Change, Record, decode_turn_started
from a2a_scribe.errors import JournalRefusedError, NodeFencedError, TaskConflictError
from a2a_scribe.journal.port import (
    Append,
    Caller,
    Claimed,
    Continues,
    Done,
    DropConfig,
    Full,
    Group,
    Journal,
    Missing,
    NextTurn,
    PutConfig,
    Queued,
    Refused,
    Released,
    Stale,
    StoredTask,
    Write,
    WriteResult,
)
from a2a_scribe.protocol.states import COMPLETED, FAILED, INPUT_REQUIRED, WORKING
from a2a_scribe.protocol.types import (
    ListTasksRequest,
    NodeId,
    Task,
    TaskPushNotificationConfig,
    TaskState,
    TaskStatus,
)
from a2a_scribe.testing.journal_driver import ALICE, EPOCH, ScriptedNode, ScriptedTask, caller, timestamp

Connect = Callable[[], Journal]
F = TypeVar('F', bound=Callable[..., object])

BOB: Final = caller('bob')
OTHER_TENANT: Final = caller('alice', tenant='tenant')
OTHER_AGENT: Final = caller('alice', agent='another agent')
ANY_AGENT: Final = caller('alice', agent='', any_agent=True)

TEXTS: Final = {
    'empty': '',
    'NUL': 'before\0after\0',
    'controls': ''.join(map(chr, range(1, 32))) + '\x7f\x85',
    'quotes': """'";--%s %(name)s :name $1 \\ ? {}""",
    'accents': 'Ünïcödé combining e\u0301 and \u00e9',
    'right to left': 'שלום \u202e مرحبا',
    'astral': '🜁𐍈👩\u200d🚀🇪🇺',
    'line ends': 'a\r\nb\u2028c\u2029d',
    'non-characters': '\ufffe\uffff\U0010ffff\ufeff',
    'private use': '\ue000\U000f0000',
}


class Point(enum.Enum):
    """What an adapter may be unable to promise."""

    AGENTS_AND_TENANTS = 'tasks of other agents and tenants stay hidden when nobody works on them'
    ATOMIC = 'a group that fails leaves nothing'
    LISTS = 'lists follow A2A 1.0, section 3.1.4, in every detail'
    REFUSES_KNOWN_IDS = 'a task cannot be born under the id of another'
    REPLACING = 'storing a whole task from outside makes a record of it'


def needs(*points: Point) -> Callable[[F], F]:
    """Marks a test that only adapters with these points can pass."""

    def mark(test: F) -> F:
        test.needed_points = points  # type: ignore[attr-defined]
        return test

    return mark


# What tests say shortly


async def born(
    node: ScriptedNode, task_id: str, state: TaskState | None = None, *, parked: bool = False, snapshot: bool = False
) -> ScriptedTask:
    """Makes a task, and with `parked` ends its first turn."""
    task = ScriptedTask(node, task_id)
    await node.commit(task.birth(*([] if state is None else [task.status(state)]), snapshot=snapshot))
    if parked:
        await settle_all(node, task)
    return task


async def listed(
    node: ScriptedNode, task_id: str, state: TaskState, time: int, *, context: str = 'context'
) -> ScriptedTask:
    """Makes a parked task whose status is of a certain time."""
    task = ScriptedTask(node, task_id, context_id=context)
    task.settle(await node.append(task.birth(task.status(state, time), ends_turn=True, snapshot=time % 2 == 0)))
    return task


async def settle_all(node: ScriptedNode, *tasks: ScriptedTask) -> None:
    """Ends the open turns of the tasks, and follows what becomes of them."""
    appended = (await node.commit(*(task.end() for task in tasks))).appended
    for task, result in zip(tasks, appended, strict=True):
        task.settle(result)


async def write(node: ScriptedNode, wanted: Write) -> WriteResult:
    """Writes one wish as a group of its own."""
    return (await node.commit(writes=[wanted])).written[0]


async def started_by(node: ScriptedNode, append: Append) -> str:
    """Returns the id of the turn that starts when `append` has ended one."""
    result = await node.append(append)
    assert isinstance(result, NextTurn)
    return decode_turn_started(result.started.body).turn_id


def config_of(task_id: str, config_id: str, url: str = 'http://hook.test') -> TaskPushNotificationConfig:
    """Returns a push config."""
    return TaskPushNotificationConfig(task_id=task_id, id=config_id, url=url)


def put(task: ScriptedTask, config_id: str, url: str = 'http://hook.test') -> PutConfig:
    """Returns the wish to store a push config."""
    return PutConfig(task.caller, config_of(task.id, config_id, url))


def outside(
    task_id: str, state: TaskState, time: int, *, context_id: str = 'context', text: str = 'from outside'
) -> Task:
    """Returns a whole task, as somebody stores it who is no agent."""
    task = Task(id=task_id, context_id=context_id, status=TaskStatus(state=state, timestamp=timestamp(time)))
    task.artifacts.add(artifact_id='artifact').parts.add(text=text)
    task.metadata.update({'key': text})
    return task


def history_of(task: ScriptedTask) -> list[Change]:
    """Returns changes of every kind that a turn can record."""
    return [
        task.chunk('one'),
        task.status(WORKING, EPOCH + 1, text='on it', first='1', both='1'),
        task.chunk('two'),
        task.chunk('other', 'another artifact'),
        task.said('by the way'),
        task.status(WORKING, EPOCH + 2, text='still on it', both='2', second='2'),
        task.chunk('again', append=False),
        task.chunk('and more'),
        task.status(INPUT_REQUIRED, EPOCH + 3),
    ]


def changes_for(task: ScriptedTask, start: int, end: int) -> list[Change]:
    """Returns a part of the task's history."""
    return history_of(task)[start:end]


async def read(journal: Journal, task: ScriptedTask) -> StoredTask:
    """Returns a task that must be there."""
    stored = await journal.read_task(task.id, task.caller)
    assert stored is not None
    return stored


async def all_records(journal: Journal, task_id: str) -> list[Record]:
    """Returns all records of a task."""
    return await journal.read_records(task_id, 0, 100_000)


async def check(journal: Journal, task: ScriptedTask) -> None:
    """Asserts that the journal holds the task as it stands: row, records, and what is folded from them."""
    stored, records = await read(journal, task), await all_records(journal, task.id)
    assert stored.row == task.row
    assert records == task.records
    assert stored.projection.to_task() == task.projection.to_task()
    folded = fold(None, records)
    assert folded is not None
    assert folded.to_task() == stored.projection.to_task()
    assert await journal.has_task(task.id, task.caller)


async def check_absent(journal: Journal, task: ScriptedTask) -> None:
    """Asserts that nothing of the task is there."""
    assert await journal.read_task(task.id, task.caller) is None
    assert not await journal.has_task(task.id, task.caller)
    assert await all_records(journal, task.id) == []
    assert await journal.read_configs(task.id) == []


async def check_hidden(journal: Journal, node: ScriptedNode, task: ScriptedTask, stranger: Caller) -> None:
    """Asserts that a parked task does not exist for a stranger."""
    assert not await journal.has_task(task.id, stranger)
    assert await journal.read_task(task.id, stranger) is None
    page = await journal.list_tasks(stranger, ListTasksRequest())
    assert (page.tasks, page.total) == ([], 0)
    assert await write(node, task.accept('turn 2', stranger)) == Missing()
    assert await write(node, task.claim(stranger)) == Missing()
    assert not await journal.delete_task(task.id, stranger)
    await check(journal, task)


async def all_pages(journal: Journal, query: ListTasksRequest) -> AsyncIterator[list[str]]:
    """Yields the ids of page after page, each read when it is asked for."""
    while True:
        page = await journal.list_tasks(ALICE, query)
        yield [task.id for task in page.tasks]
        if not page.next_token:
            return
        query.page_token = page.next_token


# Groups whose answer is lost

TASK_IDS: Final = ('task', 'parked', 'free')


async def lose_birth(node: ScriptedNode, other: ScriptedNode) -> Group:
    task = ScriptedTask(node, 'task')
    return node.group([task.birth(task.chunk('text'), configs=(config_of('task', 'config'),))])


async def lose_birth_with_end(node: ScriptedNode, other: ScriptedNode) -> Group:
    task = ScriptedTask(node, 'task')
    return node.group([task.birth(task.status(COMPLETED), ends_turn=True, snapshot=True)])


async def lose_append(node: ScriptedNode, other: ScriptedNode) -> Group:
    task = await born(node, 'task')
    return node.group([task.append(task.chunk('text'), snapshot=True)])


async def lose_release(node: ScriptedNode, other: ScriptedNode) -> Group:
    task = await born(node, 'task')
    return node.group([task.end(task.status(INPUT_REQUIRED))])


async def lose_end_of_task(node: ScriptedNode, other: ScriptedNode) -> Group:
    task = await born(node, 'task')
    await other.commit(writes=[task.accept('turn 2')])
    return node.group([task.end(task.status(FAILED))])


async def lose_next_turn(node: ScriptedNode, other: ScriptedNode) -> Group:
    task = await born(node, 'task')
    await other.commit(writes=[task.accept('turn 2'), task.accept('turn 3')])
    return node.group([task.end(task.status(INPUT_REQUIRED))])


async def lose_next_turn_of_same_group(node: ScriptedNode, other: ScriptedNode) -> Group:
    task = await born(node, 'task')
    return node.group([task.end()], [task.accept('turn 2'), task.accept('turn 3')])


async def lose_claim_by_message(node: ScriptedNode, other: ScriptedNode) -> Group:
    task, free = await born(node, 'parked', parked=True), await born(node, 'free', parked=True)
    return node.group(writes=[task.accept('turn 2'), task.accept('turn 3'), free.accept('another')])


async def lose_claim(node: ScriptedNode, other: ScriptedNode) -> Group:
    task = await born(node, 'parked', parked=True)
    return node.group(writes=[task.claim()])


async def lose_second_claim(node: ScriptedNode, other: ScriptedNode) -> Group:
    task = await born(node, 'parked', parked=True)
    return node.group(writes=[task.claim(), task.claim(), task.accept('turn 2')])


async def lose_claim_of_others(node: ScriptedNode, other: ScriptedNode) -> Group:
    task = await born(other, 'task')
    return node.group(writes=[task.claim()])


async def lose_queued(node: ScriptedNode, other: ScriptedNode) -> Group:
    task = await born(other, 'task')
    return node.group(writes=[task.accept('turn 2')])


async def lose_refusals(node: ScriptedNode, other: ScriptedNode) -> Group:
    task, free = await born(other, 'task'), await born(node, 'free', COMPLETED, parked=True)
    parked = await born(node, 'parked', parked=True)
    stranger = ScriptedTask(node, 'stranger')
    writes: list[Write] = [
        task.accept('turn 2', limit=1),
        task.accept('turn 3', limit=1),
        free.accept('another'),
        parked.accept('late', expected=1),
        stranger.accept('strange'),
        free.claim(),
    ]
    return node.group(writes=writes)


async def lose_configs(node: ScriptedNode, other: ScriptedNode) -> Group:
    task = await born(node, 'task')
    return node.group(writes=[put(task, 'a'), DropConfig('task', 'b')])


async def lose_everything(node: ScriptedNode, other: ScriptedNode) -> Group:
    task, parked, free = await born(node, 'task'), await born(node, 'parked', parked=True), ScriptedTask(node, 'free')
    appends = [task.end(task.chunk('last')), free.birth(free.status(WORKING))]
    return node.group(appends, [task.accept('turn 2'), parked.accept('turn of parked'), put(parked, 'config')])


async def lose_nothing(node: ScriptedNode, other: ScriptedNode) -> Group:
    return node.group()


LOST: Final = {
    make.__name__.removeprefix('lose_').replace('_', ' '): make
    for make in (
        lose_birth,
        lose_birth_with_end,
        lose_append,
        lose_release,
        lose_end_of_task,
        lose_next_turn,
        lose_next_turn_of_same_group,
        lose_claim_by_message,
        lose_claim,
        lose_second_claim,
        lose_claim_of_others,
        lose_queued,
        lose_refusals,
        lose_configs,
        lose_everything,
        lose_nothing,
    )
}
"""Makers of a group that is written and of whose answer nobody hears."""


def known(result: WriteResult) -> WriteResult:
    """What leaves no trace may be judged anew after a lost answer: `Stale` makes the engine read and ask again."""
    return Stale() if isinstance(result, Refused | Full | Missing) else result


class JournalContract:
    """The tests. Subclass, override `connect` and `declare_dead`, and name in `cannot` what is out of reach."""

    pytestmark = pytest.mark.anyio
    cannot: ClassVar[Mapping[Point, str]] = {}
    """The points that the adapter does not promise, and why."""

    def __init_subclass__(cls) -> None:
        """Leaves out the tests whose points the adapter cannot promise."""
        super().__init_subclass__()
        if not all(cls.cannot.values()):
            raise TypeError(f'{cls.__name__}.cannot needs a reason for each point')
        for name in dir(cls):
            if any(point in cls.cannot for point in getattr(getattr(cls, name), 'needed_points', ())):
                setattr(cls, name, None)

    @pytest.fixture
    async def connect(self) -> Connect:
        """Returns what gives a journal on an empty storage, the same storage at each call."""
        raise NotImplementedError

    async def declare_dead(self, journal: Journal, node_id: NodeId) -> None:
        """Fences a node, as another node would that finds it silent."""
        raise NotImplementedError

    @pytest.fixture
    async def journal(self, connect: Connect) -> AsyncIterator[Journal]:
        """An open, empty journal."""
        journal = connect()
        await journal.open()
        yield journal
        await journal.close()

    @pytest.fixture
    async def node(self, journal: Journal) -> ScriptedNode:
        """A living node."""
        return await ScriptedNode(journal, 'node').register()

    @pytest.fixture
    async def other(self, connect: Connect) -> AsyncIterator[ScriptedNode]:
        """Another living node, with a connection of its own."""
        journal = connect()
        await journal.open()
        yield await ScriptedNode(journal, 'other node').register()
        await journal.close()

    # -- opening

    async def test_opening_and_closing_again_is_harmless(self, connect: Connect) -> None:
        journal = connect()
        await journal.open()
        await journal.open()
        await journal.close()
        await journal.close()
        await journal.open()
        assert await journal.read_task('task', ALICE) is None
        await journal.close()

    async def test_an_empty_journal_has_nothing(self, journal: Journal) -> None:
        assert not await journal.has_task('task', ALICE)
        assert await journal.read_task('task', ALICE) is None
        assert await journal.read_records('task', 0, 10) == []
        assert await journal.read_configs('task') == []
        page = await journal.list_tasks(ALICE, ListTasksRequest())
        assert (page.tasks, page.next_token, page.total) == ([], '', 0)

    async def test_what_is_written_outlives_the_connection(self, connect: Connect) -> None:
        first = connect()
        await first.open()
        task = ScriptedTask(await ScriptedNode(first, 'node').register(), 'task')
        await task.node.commit(task.birth(task.chunk('text')))
        await first.close()
        second = connect()
        await second.open()
        await check(second, task)
        await second.close()

    # -- births

    async def test_a_birth_stores_row_records_and_task(self, journal: Journal, node: ScriptedNode) -> None:
        task = ScriptedTask(node, 'task')
        assert await node.append(task.birth(task.status(WORKING, EPOCH + 7, text='on it'))) == Continues()
        await check(journal, task)
        stored = await read(journal, task)
        assert (stored.row.node, stored.row.epoch, stored.row.attempt) == (node.id, 1, 1)
        assert (stored.row.state, stored.row.status_time) == (WORKING, EPOCH + 7)

    async def test_a_birth_may_end_its_turn(self, journal: Journal, node: ScriptedNode) -> None:
        task = ScriptedTask(node, 'task')
        result = await node.append(task.birth(task.status(COMPLETED), snapshot=True, ends_turn=True))
        assert result == Released()
        task.settle(result)
        await check(journal, task)

    async def test_many_tasks_are_born_and_move_in_one_group(self, journal: Journal, node: ScriptedNode) -> None:
        tasks = [ScriptedTask(node, f'task {number:02}') for number in range(20)]
        old, young = tasks[::2], tasks[1::2]
        await node.commit(*(task.birth() for task in old))
        appends = [task.append(task.chunk(task.id)) for task in old]
        appends += [task.birth(task.chunk(task.id), snapshot=True) for task in young]
        appends.sort(key=lambda append: append.row.task_id, reverse=True)
        assert (await node.commit(*appends)).appended == [Continues()] * 20
        for task in tasks:
            await check(journal, task)

    @needs(Point.REFUSES_KNOWN_IDS)
    async def test_a_birth_under_a_known_id_is_refused(self, journal: Journal, node: ScriptedNode) -> None:
        task = await born(node, 'task', parked=True)
        with pytest.raises(JournalRefusedError):
            await node.commit(ScriptedTask(node, 'task', BOB).birth())
        await check(journal, task)
        assert await journal.read_task('task', BOB) is None

    # -- appends

    async def test_records_are_kept_in_order_without_gaps(self, journal: Journal, node: ScriptedNode) -> None:
        tasks = [await born(node, f'task {number}') for number in range(3)]
        for count in (1, 5, 2, 40):
            appends = [task.append(*(task.chunk(f'{count}.{n}') for n in range(count))) for task in tasks]
            assert (await node.commit(*appends)).appended == [Continues()] * 3
        for task in tasks:
            await check(journal, task)
            assert [entry.seq for entry in await all_records(journal, task.id)] == list(range(1, task.row.seq + 1))

    async def test_a_record_is_never_overwritten(self, journal: Journal, node: ScriptedNode) -> None:
        task = await born(node, 'task')
        again = task.append(task.chunk('first'))
        await node.commit(again)
        with pytest.raises(JournalRefusedError):
            await node.commit(replace(again, records=[again.records[0]._replace(body=b'\x01')]))
        await check(journal, task)

    async def test_notes_are_kept(self, journal: Journal, node: ScriptedNode) -> None:
        task = await born(node, 'task')
        await node.commit(task.append(task.chunk('text'), note='Traceback: Ünïcödé 🜁\n  "quoted"'))
        await check(journal, task)

    async def test_metadata_artifacts_and_history_come_back(self, journal: Journal, node: ScriptedNode) -> None:
        task = await born(node, 'task')
        for change in history_of(task):
            await node.commit(task.append(change))
            await check(journal, task)

    # -- snapshots

    async def test_any_cut_of_snapshot_and_rest_gives_the_same_task(self, journal: Journal, node: ScriptedNode) -> None:
        changes = history_of(ScriptedTask(node, 'model'))
        for cut in range(len(changes) + 1):
            task = ScriptedTask(node, f'cut {cut}')
            await node.commit(task.birth(*changes_for(task, 0, cut), snapshot=True))
            await check(journal, task)
            await node.commit(task.append(*changes_for(task, cut, len(changes))))
            await check(journal, task)

    async def test_any_two_snapshots_give_the_same_task(self, journal: Journal, node: ScriptedNode) -> None:
        count = len(history_of(ScriptedTask(node, 'model')))
        for cut in range(count + 1):
            task = ScriptedTask(node, f'cut {cut}')
            await node.commit(task.birth(*changes_for(task, 0, cut // 2), snapshot=True))
            await node.commit(task.append(*changes_for(task, cut // 2, cut), snapshot=True))
            await node.commit(task.append(*changes_for(task, cut, count)))
            await check(journal, task)

    async def test_lists_show_tasks_without_snapshot_too(self, journal: Journal, node: ScriptedNode) -> None:
        bare = await born(node, 'bare')
        await node.commit(bare.append(bare.chunk('text')))
        cut = ScriptedTask(node, 'cut')
        await node.commit(cut.birth(cut.chunk('before'), snapshot=True))
        await node.commit(cut.append(cut.chunk('after')))
        for task in (bare, cut):
            await node.append(task.append(task.status(COMPLETED)))
        await settle_all(node, bare, cut)
        page = await journal.list_tasks(ALICE, ListTasksRequest())
        assert {task.id: task for task in page.tasks} == {t.id: t.projection.to_task() for t in (bare, cut)}

    # -- messages

    async def test_a_message_claims_a_parked_task(
        self, journal: Journal, other: ScriptedNode, node: ScriptedNode
    ) -> None:
        task = await born(node, 'task', parked=True)
        accept = task.accept('turn 2')
        receipt = await other.commit(writes=[accept])
        [claimed] = receipt.written
        assert isinstance(claimed, Claimed)
        row = claimed.row
        assert (row.node, row.epoch, row.seq) == (other.id, task.row.epoch + 1, task.row.seq + 1)
        assert (row.open_turn, row.attempt) == ('turn 2', 1)
        task.settle_claim(claimed, other, accept)
        await check(journal, task)

    async def test_a_message_waits_while_a_turn_is_open(
        self, journal: Journal, node: ScriptedNode, other: ScriptedNode
    ) -> None:
        task = await born(node, 'task')
        assert await write(node, task.accept('turn 2')) == Queued()
        assert await write(other, task.accept('turn 3', expected=1)) == Queued()
        await check(journal, task)

    async def test_a_message_is_turned_away_when_too_many_wait(self, node: ScriptedNode) -> None:
        task = await born(node, 'task')
        answers = [await write(node, task.accept(f'turn {n}', limit=2)) for n in range(2, 6)]
        assert answers == [Queued(), Queued(), Full(), Full()]

    async def test_a_message_for_an_ended_task_is_refused(self, journal: Journal, node: ScriptedNode) -> None:
        task = await born(node, 'task', COMPLETED, parked=True)
        assert await write(node, task.accept('turn 2')) == Refused()
        await check(journal, task)

    async def test_a_message_from_one_who_has_read_an_older_task_is_stale(
        self, journal: Journal, node: ScriptedNode
    ) -> None:
        task = await born(node, 'task', parked=True)
        assert await write(node, task.accept('turn 2', expected=task.row.seq + 1)) == Stale()
        assert await write(node, task.accept('turn 2', expected=0)) == Stale()
        await check(journal, task)

    async def test_a_message_for_no_task_is_missing(self, journal: Journal, node: ScriptedNode) -> None:
        assert await write(node, ScriptedTask(node, 'task').accept('turn')) == Missing()
        assert await journal.read_records('task', 0, 10) == []

    @pytest.mark.parametrize('stranger', [BOB, OTHER_TENANT, OTHER_AGENT])
    async def test_a_message_for_a_strangers_running_task_is_missing(
        self, node: ScriptedNode, stranger: Caller
    ) -> None:
        task = await born(node, 'task')
        assert await write(node, task.accept('turn 2', stranger)) == Missing()
        assert await write(node, task.claim(stranger)) == Missing()

    async def test_of_several_messages_in_one_group_the_first_starts(
        self, journal: Journal, node: ScriptedNode
    ) -> None:
        task, free = await born(node, 'task', parked=True), await born(node, 'free', parked=True)
        first = task.accept('turn 2', limit=1)
        writes = [first, task.accept('turn 3', limit=1), task.accept('turn 4', limit=1), free.accept('another')]
        written = (await node.commit(writes=writes)).written
        assert [type(result) for result in written] == [Claimed, Queued, Full, Claimed]
        assert isinstance(written[0], Claimed)
        task.settle_claim(written[0], node, first)
        await check(journal, task)
        assert await started_by(node, task.end()) == 'turn 3'

    # -- claims without a message

    async def test_a_claim_takes_a_parked_task(self, journal: Journal, node: ScriptedNode, other: ScriptedNode) -> None:
        task = await born(node, 'task', parked=True)
        claimed = await write(other, task.claim())
        assert isinstance(claimed, Claimed)
        assert (claimed.row.node, claimed.row.epoch) == (other.id, task.row.epoch + 1)
        assert (claimed.row.seq, claimed.row.open_turn) == (task.row.seq, None)
        task.settle_claim(claimed, other)
        await check(journal, task)
        result = await other.append(task.end(task.status(TaskState.TASK_STATE_CANCELED), snapshot=True))
        assert result == Released()
        task.settle(result)
        await check(journal, task)

    async def test_a_claim_comes_too_late(self, node: ScriptedNode, other: ScriptedNode) -> None:
        ended = await born(node, 'ended', FAILED, parked=True)
        running = await born(node, 'running')
        parked = await born(node, 'parked', parked=True)
        assert await write(other, ended.claim()) == Refused()
        assert await write(other, running.claim()) == Stale()
        assert await write(other, parked.claim(expected=parked.row.seq - 1)) == Stale()
        assert await write(other, ScriptedTask(other, 'unknown').claim()) == Missing()

    async def test_of_several_claims_in_one_group_the_first_counts(self, node: ScriptedNode) -> None:
        task = await born(node, 'task', parked=True)
        written = (await node.commit(writes=[task.claim(), task.claim(), task.accept('turn 2')])).written
        assert [type(result) for result in written] == [Claimed, Stale, Queued]

    async def test_a_claimed_task_goes_on_with_what_waits(self, journal: Journal, node: ScriptedNode) -> None:
        task = await born(node, 'task', parked=True)
        claimed = await write(node, task.claim())
        assert isinstance(claimed, Claimed)
        task.settle_claim(claimed, node)
        assert await write(node, task.accept('turn 2')) == Queued()
        result = await node.append(task.end(task.said('still here')))
        assert isinstance(result, NextTurn)
        task.settle(result)
        await check(journal, task)

    # -- the end of a turn

    async def test_a_turn_that_ends_with_nobody_waiting_releases(self, journal: Journal, node: ScriptedNode) -> None:
        task = await born(node, 'task')
        result = await node.append(task.end(task.status(INPUT_REQUIRED)))
        assert result == Released()
        task.settle(result)
        await check(journal, task)

    async def test_a_turn_that_ends_hands_over_to_the_next_message(
        self, journal: Journal, node: ScriptedNode, other: ScriptedNode
    ) -> None:
        task = await born(node, 'task')
        accept = task.accept('turn 2')
        await other.commit(writes=[accept])
        result = await node.append(task.end(task.status(INPUT_REQUIRED), snapshot=True))
        assert isinstance(result, NextTurn)
        assert (result.started.seq, result.started.body) == (task.row.seq + 1, accept.body)
        assert result.started.recorded_at == EPOCH + node.number
        task.settle(result)
        await check(journal, task)
        await settle_all(node, task)
        await check(journal, task)

    async def test_messages_start_in_the_order_of_their_acceptance(
        self, journal: Journal, node: ScriptedNode, other: ScriptedNode
    ) -> None:
        task = await born(node, 'task')
        await node.commit(writes=[task.accept('turn 4'), task.accept('turn 2')])
        await other.commit(writes=[task.accept('turn 3')])
        await node.commit(writes=[task.accept('turn 1')])
        started = []
        while isinstance(result := await node.append(task.end()), NextTurn):
            task.settle(result)
            started.append(task.row.open_turn)
        task.settle(result)
        assert started == ['turn 4', 'turn 2', 'turn 3', 'turn 1']
        await check(journal, task)

    async def test_turns_of_several_tasks_end_in_one_group(self, journal: Journal, node: ScriptedNode) -> None:
        tasks = [await born(node, f'task {number}') for number in range(4)]
        await node.commit(writes=[task.accept(f'next of {task.id}') for task in tasks[::2]])
        appended = (await node.commit(*(task.end() for task in tasks))).appended
        assert [type(result) for result in appended] == [NextTurn, Released, NextTurn, Released]
        for task, result in zip(tasks, appended, strict=True):
            task.settle(result)
            await check(journal, task)

    async def test_a_message_of_the_same_group_is_seen_by_the_turns_end(
        self, journal: Journal, node: ScriptedNode
    ) -> None:
        task = await born(node, 'task')
        receipt = await node.commit(task.end(), writes=[task.accept('turn 2')])
        assert receipt.written == [Queued()]
        task.settle(receipt.appended[0])
        assert task.row.open_turn == 'turn 2'
        await check(journal, task)

    async def test_the_end_of_a_task_sends_all_away_who_wait(self, journal: Journal, node: ScriptedNode) -> None:
        task = await born(node, 'task')
        await node.commit(writes=[task.accept('turn 2'), task.accept('turn 3')])
        result = await node.append(task.end(task.status(COMPLETED), snapshot=True))
        assert result == Released()
        task.settle(result)
        await check(journal, task)
        assert await write(node, task.accept('turn 4')) == Refused()

    async def test_a_turn_may_end_later_than_its_task(self, journal: Journal, node: ScriptedNode) -> None:
        task = await born(node, 'task')
        await node.commit(writes=[task.accept('turn 2')])
        assert await node.append(task.append(task.status(FAILED))) == Continues()
        assert await write(node, task.accept('turn 3')) == Refused()
        await settle_all(node, task)
        assert task.row.node is None
        await check(journal, task)

    async def test_a_message_of_the_same_group_as_the_tasks_end_never_starts(
        self, journal: Journal, node: ScriptedNode
    ) -> None:
        task = await born(node, 'task')
        accept = task.accept('turn 2')
        receipt = await node.commit(task.end(task.status(COMPLETED)), writes=[accept])
        assert receipt.written[0] in (Queued(), Refused())
        assert receipt.appended == [Released()]
        task.settle(Released())
        await check(journal, task)

    # -- the fence

    async def test_a_node_that_nobody_knows_writes_nothing(self, journal: Journal) -> None:
        stranger = ScriptedNode(journal, 'stranger')
        task = ScriptedTask(stranger, 'task')
        with pytest.raises(NodeFencedError):
            await stranger.commit(task.birth(), writes=[put(task, 'config')])
        await check_absent(journal, task)

    async def test_a_dead_node_writes_nothing(self, journal: Journal, node: ScriptedNode, other: ScriptedNode) -> None:
        task, parked = await born(node, 'task'), await born(node, 'parked', parked=True)
        await self.declare_dead(journal, node.id)
        young = ScriptedTask(node, 'young')
        seq, known = task.row.seq, list(task.records)
        with pytest.raises(NodeFencedError):
            await node.commit(task.append(task.chunk('late')), young.birth(), writes=[parked.accept('turn 2')])
        assert (await all_records(journal, task.id)) == known
        assert (await read(journal, task)).row.seq == seq
        await check_absent(journal, young)
        await check(journal, parked)
        assert isinstance(await write(other, parked.accept('turn 3')), Claimed)

    async def test_a_dead_node_stays_dead(self, journal: Journal, node: ScriptedNode) -> None:
        await node.commit()
        await self.declare_dead(journal, node.id)
        await node.register()
        with pytest.raises(NodeFencedError):
            await node.commit()

    async def test_a_dead_node_gets_no_receipt(self, journal: Journal, node: ScriptedNode) -> None:
        group = node.group([ScriptedTask(node, 'task').birth()])
        await journal.commit(group)
        await self.declare_dead(journal, node.id)
        with pytest.raises(NodeFencedError):
            await journal.commit(group)

    async def test_numbers_only_grow(self, journal: Journal, node: ScriptedNode) -> None:
        early, late = node.group([ScriptedTask(node, 'early').birth()]), ScriptedTask(node, 'late')
        await node.commit(late.birth())
        with pytest.raises(NodeFencedError):
            await journal.commit(early)
        assert await journal.read_task('early', ALICE) is None
        await check(journal, late)

    async def test_numbers_may_be_left_out(self, journal: Journal, node: ScriptedNode) -> None:
        node.number = 41
        task = await born(node, 'task')
        await check(journal, task)

    async def test_registering_again_changes_nothing(self, journal: Journal, node: ScriptedNode) -> None:
        early = node.group([ScriptedTask(node, 'early').birth()])
        await born(node, 'task')
        await node.register()
        with pytest.raises(NodeFencedError):
            await journal.commit(early)
        await born(node, 'another')

    async def test_an_empty_group_is_a_sign_of_life(self, node: ScriptedNode) -> None:
        receipt = await node.commit()
        assert (receipt.appended, receipt.written) == ([], [])

    # -- lost answers

    @pytest.mark.parametrize('kind', list(LOST))
    async def test_the_same_group_again_gives_the_same_receipt(
        self, journal: Journal, node: ScriptedNode, other: ScriptedNode, kind: str
    ) -> None:
        group = await LOST[kind](node, other)
        receipt = await journal.commit(group)
        before = [await all_records(journal, task_id) for task_id in TASK_IDS]
        for _ in range(2):
            again = await journal.commit(group)
            assert again.appended == receipt.appended
            assert [known(result) for result in again.written] == [known(result) for result in receipt.written]
        assert [await all_records(journal, task_id) for task_id in TASK_IDS] == before

    async def test_a_message_that_was_queued_and_started_elsewhere_is_remembered(
        self, journal: Journal, node: ScriptedNode, other: ScriptedNode
    ) -> None:
        task = await born(other, 'task')
        group = node.group(writes=[task.accept('turn 2'), task.accept('turn 3')])
        receipt = await journal.commit(group)
        task.settle(await other.append(task.end()))
        task.settle(await other.append(task.end(task.chunk('answer to 2'))))
        again = await journal.commit(group)
        assert again.written == receipt.written == [Queued(), Queued()]
        await check(journal, task)

    async def test_after_a_lost_answer_the_node_goes_on(self, journal: Journal, node: ScriptedNode) -> None:
        task = ScriptedTask(node, 'task')
        group = node.group([task.birth()])
        await journal.commit(group)
        await journal.commit(group)
        assert await node.append(task.append(task.chunk('more'))) == Continues()
        await check(journal, task)

    # -- atomicity

    @needs(Point.ATOMIC, Point.REFUSES_KNOWN_IDS)
    async def test_a_group_that_fails_leaves_nothing(self, journal: Journal, node: ScriptedNode) -> None:
        running, parked = await born(node, 'running'), await born(node, 'parked', parked=True)
        known = await born(node, 'known', parked=True)
        configured = await born(node, 'configured', parked=True)
        await node.commit(writes=[put(configured, 'kept')])
        seq, records, young = running.row.seq, list(running.records), ScriptedTask(node, 'young')
        with pytest.raises(JournalRefusedError):
            await node.commit(
                running.append(running.chunk('lost'), snapshot=True),
                young.birth(configs=(config_of('young', 'lost'),)),
                ScriptedTask(node, known.id).birth(),
                writes=[
                    parked.accept('turn 2'),
                    running.accept('turn 3'),
                    put(configured, 'lost'),
                    DropConfig(configured.id, 'kept'),
                ],
            )
        assert await all_records(journal, running.id) == records
        assert (await read(journal, running)).row.seq == seq
        await check_absent(journal, young)
        for task in (parked, known, configured):
            await check(journal, task)
        assert [config.id for config in await journal.read_configs(configured.id)] == ['kept']
        assert isinstance(await write(node, parked.accept('turn 2')), Claimed)
        rest = replace(running.append(), row=replace(running.row, seq=seq), ends_turn=True)
        assert await node.append(rest) == Released()

    # -- push configs

    async def test_configs_are_made_replaced_and_removed(self, journal: Journal, node: ScriptedNode) -> None:
        task, other = await born(node, 'task'), await born(node, 'another')
        writes = [put(task, 'b'), put(task, 'a'), put(task, 'c'), put(other, 'a', 'http://other.test')]
        assert (await node.commit(writes=writes)).written == [Done()] * 4
        await node.commit(writes=[put(task, 'b', 'http://new.test'), DropConfig(task.id, 'c')])
        assert (await node.commit(writes=[DropConfig(task.id, 'c'), DropConfig('unknown', 'c')])).written == [
            Done()
        ] * 2
        assert await journal.read_configs(task.id) == [
            config_of('task', 'a'),
            config_of('task', 'b', 'http://new.test'),
        ]
        assert await journal.read_configs(other.id) == [config_of('another', 'a', 'http://other.test')]

    async def test_configs_may_be_born_with_their_task(self, journal: Journal, node: ScriptedNode) -> None:
        task = ScriptedTask(node, 'task')
        await node.commit(task.birth(configs=(config_of('task', 'b'), config_of('task', 'a'))))
        assert await journal.read_configs('task') == [config_of('task', 'a'), config_of('task', 'b')]

    async def test_writes_of_one_group_are_done_in_their_order(self, journal: Journal, node: ScriptedNode) -> None:
        task = await born(node, 'task')
        await node.commit(
            writes=[put(task, 'a'), DropConfig('task', 'a'), put(task, 'b'), put(task, 'b', 'http://2.test')]
        )
        assert await journal.read_configs('task') == [config_of('task', 'b', 'http://2.test')]

    # -- storing and deleting from outside

    @needs(Point.REPLACING)
    async def test_a_task_stored_from_outside_is_there(self, journal: Journal) -> None:
        task = outside('task', WORKING, EPOCH + 5)
        await journal.replace_task(task, ALICE, EPOCH + 9)
        stored = await journal.read_task('task', ALICE)
        assert stored is not None
        assert stored.projection.to_task() == task
        assert (stored.row.seq, stored.row.node, stored.row.open_turn) == (1, None, None)
        assert (stored.row.state, stored.row.status_time, stored.row.created_at) == (WORKING, EPOCH + 5, EPOCH + 9)
        assert [entry.kind for entry in await all_records(journal, 'task')] == ['replaced']

    @needs(Point.REPLACING)
    async def test_a_task_stored_without_a_status_time_gets_the_present(self, journal: Journal) -> None:
        task = Task(id='task', status=TaskStatus(state=WORKING))
        await journal.replace_task(task, ALICE, EPOCH + 9)
        stored = await journal.read_task('task', ALICE)
        assert stored is not None
        assert stored.row.status_time == EPOCH + 9

    @needs(Point.REPLACING)
    async def test_a_parked_task_may_be_replaced(self, journal: Journal, node: ScriptedNode) -> None:
        task = await born(node, 'task', parked=True, snapshot=True)
        new = outside('task', WORKING, EPOCH + 50, context_id='new context', text='new')
        await journal.replace_task(new, ANY_AGENT, EPOCH + 60)
        stored = await journal.read_task('task', ALICE)
        assert stored is not None
        assert stored.projection.to_task() == new
        row = replace(task.row, seq=task.row.seq + 1, state=WORKING, status_time=EPOCH + 50, context_id='new context')
        assert stored.row == replace(row, size=stored.row.size)
        assert stored.row.size > task.row.size
        listed = await journal.list_tasks(ALICE, ListTasksRequest(context_id='new context'))
        assert [entry.id for entry in listed.tasks] == ['task']
        accept = ScriptedTask(node, 'task').accept('turn 2', expected=stored.row.seq)
        assert isinstance(await write(node, accept), Claimed)

    @needs(Point.REPLACING)
    async def test_a_task_may_be_replaced_again_and_again(self, journal: Journal) -> None:
        for number in range(5):
            task = outside('task', WORKING, EPOCH + number, text=f'version {number}')
            await journal.replace_task(task, ALICE, EPOCH + number)
            stored = await journal.read_task('task', ALICE)
            assert stored is not None
            assert stored.projection.to_task() == task
        assert [entry.seq for entry in await all_records(journal, 'task')] == [1, 2, 3, 4, 5]

    async def test_a_task_with_an_open_turn_is_neither_replaced_nor_deleted(
        self, journal: Journal, node: ScriptedNode
    ) -> None:
        task = await born(node, 'task')
        with pytest.raises(TaskConflictError):
            await journal.replace_task(outside('task', COMPLETED, EPOCH), ALICE, EPOCH)
        with pytest.raises(TaskConflictError):
            await journal.delete_task('task', ALICE)
        await check(journal, task)

    async def test_an_ended_task_is_only_stored_as_it_is(self, journal: Journal, node: ScriptedNode) -> None:
        task = await born(node, 'task', COMPLETED, parked=True)
        await journal.replace_task(task.projection.to_task(), ALICE, EPOCH + 9)
        with pytest.raises(TaskConflictError):
            await journal.replace_task(outside('task', WORKING, EPOCH + 9), ALICE, EPOCH + 9)
        await check(journal, task)

    @needs(Point.REFUSES_KNOWN_IDS, Point.AGENTS_AND_TENANTS)
    @pytest.mark.parametrize('stranger', [BOB, OTHER_TENANT, OTHER_AGENT])
    async def test_a_strangers_task_is_neither_replaced_nor_deleted(
        self, journal: Journal, node: ScriptedNode, stranger: Caller
    ) -> None:
        task = await born(node, 'task', parked=True)
        with pytest.raises(TaskConflictError):
            await journal.replace_task(outside('task', WORKING, EPOCH), stranger, EPOCH)
        assert not await journal.delete_task('task', stranger)
        await check(journal, task)

    async def test_deleting_takes_all_that_belongs_to_a_task(self, journal: Journal, node: ScriptedNode) -> None:
        task, other = await born(node, 'task'), await born(node, 'another', parked=True)
        await node.commit(writes=[put(task, 'config'), put(other, 'config')])
        await settle_all(node, task)
        assert await journal.delete_task('task', ALICE)
        assert not await journal.delete_task('task', ALICE)
        await check_absent(journal, task)
        await check(journal, other)
        assert await write(node, task.accept('turn 2')) == Missing()
        assert [config.id for config in await journal.read_configs('another')] == ['config']

    async def test_a_deleted_id_may_be_used_again(self, journal: Journal, node: ScriptedNode) -> None:
        await born(node, 'task', parked=True)
        await journal.delete_task('task', ALICE)
        task = await born(node, 'task', WORKING, parked=True)
        await check(journal, task)

    # -- reads

    @pytest.mark.parametrize('limit', [1, 2, 7, 1000])
    async def test_records_are_read_in_portions(self, journal: Journal, node: ScriptedNode, limit: int) -> None:
        task = await born(node, 'task')
        await node.commit(task.append(*(task.chunk(str(n)) for n in range(20))))
        found, after = [], 0
        while portion := await journal.read_records('task', after, limit):
            assert len(portion) <= limit
            found += portion
            after = portion[-1].seq
        assert found == task.records
        assert await journal.read_records('task', task.row.seq, 10) == []
        assert await journal.read_records('task', task.row.seq + 100, 10) == []

    async def test_strangers_see_nothing_of_a_running_task(self, journal: Journal, node: ScriptedNode) -> None:
        await born(node, 'task')
        for stranger in (BOB, OTHER_TENANT, OTHER_AGENT):
            assert not await journal.has_task('task', stranger)
            assert await journal.read_task('task', stranger) is None
        assert await journal.has_task('task', ANY_AGENT)
        assert await journal.read_task('task', ANY_AGENT) is not None

    async def test_other_owners_see_nothing_of_a_parked_task(self, journal: Journal, node: ScriptedNode) -> None:
        task = await born(node, 'task', parked=True)
        await check_hidden(journal, node, task, BOB)
        assert [task.id for task in (await journal.list_tasks(ANY_AGENT, ListTasksRequest())).tasks] == ['task']

    @needs(Point.AGENTS_AND_TENANTS)
    @pytest.mark.parametrize('stranger', [OTHER_TENANT, OTHER_AGENT])
    async def test_other_agents_and_tenants_see_nothing_of_a_parked_task(
        self, journal: Journal, node: ScriptedNode, stranger: Caller
    ) -> None:
        await check_hidden(journal, node, await born(node, 'task', parked=True), stranger)

    async def test_what_was_read_is_the_readers_own(self, journal: Journal, node: ScriptedNode) -> None:
        task = await born(node, 'task', parked=True)
        await node.commit(writes=[put(task, 'config')])
        stored = await read(journal, task)
        stored.projection.apply(task.chunk('mine'))
        stored.projection.status.state = FAILED
        (await journal.read_configs('task'))[0].url = 'http://changed.test'
        (await journal.list_tasks(ALICE, ListTasksRequest())).tasks[0].status.state = FAILED
        await check(journal, task)
        assert await journal.read_configs('task') == [config_of('task', 'config')]

    async def test_what_was_written_is_the_journals_own(self, journal: Journal, node: ScriptedNode) -> None:
        inline, config, task = config_of('task', 'inline'), config_of('task', 'put'), ScriptedTask(node, 'task')
        await node.commit(task.birth(configs=(inline,)), writes=[PutConfig(ALICE, config)])
        inline.url = config.url = 'http://changed.test'
        assert await journal.read_configs('task') == [config_of('task', 'inline'), config_of('task', 'put')]
        given = outside('given', WORKING, EPOCH)
        await journal.replace_task(given, ALICE, EPOCH)
        given.status.state = FAILED
        stored = await journal.read_task('given', ALICE)
        assert stored is not None
        assert stored.projection.state == WORKING

    # -- content

    @pytest.mark.parametrize('name', list(TEXTS))
    async def test_any_text_survives(self, journal: Journal, node: ScriptedNode, name: str) -> None:
        text, task = TEXTS[name], ScriptedTask(node, 'task')
        await node.commit(task.birth(task.chunk(text), task.status(WORKING, text=text or 'x', key=text)))
        await node.commit(task.append(task.said(text), snapshot=True))
        await node.commit(writes=[task.accept(f'turn of {name}')])
        await check(journal, task)
        task.settle(await node.append(task.end()))
        await check(journal, task)

    async def test_ids_are_compared_exactly(self, journal: Journal, node: ScriptedNode) -> None:
        ids = ['a', 'A', 'a ', ' a', 'ä', 'a\u0308', 'ß', 'ss', '%', '_', "'", 'a' * 255]
        tasks = [await born(node, task_id, parked=True) for task_id in ids]
        for task in tasks:
            await check(journal, task)
        page = await journal.list_tasks(ALICE, ListTasksRequest())
        assert sorted(task.id for task in page.tasks) == sorted(ids)

    async def test_large_bodies_survive(self, journal: Journal, node: ScriptedNode) -> None:
        task = await born(node, 'task')
        await node.commit(task.append(task.chunk('x' * 2_000_000)), writes=[task.accept('turn 2')])
        await node.commit(task.append(task.chunk('y' * 2_000_000), snapshot=True))
        await check(journal, task)

    # -- lists

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

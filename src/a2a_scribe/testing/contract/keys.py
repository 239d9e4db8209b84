"""Keys that clients give their messages."""

import asyncio
from dataclasses import replace

from a2a_scribe.journal.port import Journal
from a2a_scribe.journal.results import Claimed, Continues, Full, Known, Queued, Refused, Released, Stale
from a2a_scribe.journal.tasks import Ended
from a2a_scribe.journal.writes import DropConfig, Key
from a2a_scribe.protocol.states import COMPLETED
from a2a_scribe.protocol.types import TurnId
from a2a_scribe.testing.contract.adapter import AdapterContract, Point, needs
from a2a_scribe.testing.contract.checks import all_records, check
from a2a_scribe.testing.contract.scenes import BOB, OTHER_AGENT, OTHER_TENANT, born, config_of, write
from a2a_scribe.testing.journal_driver import ALICE, EPOCH, ScriptedNode, ScriptedTask

LATER = EPOCH + 1_000_000


def key(name: str, turn_id: str, *, expires_at: int = LATER, replaces: str | None = None) -> Key:
    """Returns a key of the message that `turn_id` answers."""
    other = None if replaces is None else TurnId(replaces)
    return Key(name, f'digest of {turn_id}'.encode(), TurnId(turn_id), expires_at, other)


def known(task_id: str, turn_id: str) -> Known:
    """Returns what a message hears whose key is that of another."""
    return Known(task_id, TurnId(turn_id), f'digest of {turn_id}'.encode())


class KeysContract(AdapterContract):
    """A key belongs to the message that came first, and is never looked up before it is taken."""

    async def test_of_two_births_with_one_key_the_second_leaves_nothing(
        self, journal: Journal, node: ScriptedNode, other: ScriptedNode
    ) -> None:
        one, two = ScriptedTask(node, 'task'), ScriptedTask(other, 'free')
        birth = replace(one.birth(), key=key('k', 'first'))
        late = replace(two.birth(configs=(config_of('free', 'config'),)), key=key('k', 'second'))
        assert await node.append(birth) == Continues()
        assert await other.append(late) == known('task', 'first')
        await check(journal, one)
        assert await journal.read_task('free', ALICE) is None
        assert await all_records(journal, 'free') == []
        assert await journal.read_configs('free') == []
        assert await other.append(replace(late, key=None)) == Continues()

    async def test_of_two_births_in_one_group_one_wins(self, journal: Journal, node: ScriptedNode) -> None:
        one, two, third = [ScriptedTask(node, name) for name in ('task', 'free', 'parked')]
        old = await born(node, 'old')
        appends = [
            replace(one.birth(), key=key('k', 'first')),
            old.append(old.chunk('goes on')),
            replace(two.birth(), key=key('k', 'second')),
            replace(third.birth(), key=key('another', 'third')),
        ]
        receipt = await node.commit(*appends)
        assert receipt.appended == [Continues(), Continues(), known('task', 'first'), Continues()]
        for task in (one, old, third):
            await check(journal, task)
        assert await journal.read_task('free', ALICE) is None

    async def test_of_two_at_the_same_moment_one_wins(
        self, journal: Journal, node: ScriptedNode, other: ScriptedNode
    ) -> None:
        for round_ in range(5):
            names = [f'{round_} {name}' for name in 'abcd']
            groups = []
            for each, order in ((node, names), (other, names[::-1])):
                tasks = [ScriptedTask(each, f'{name} of {each.id}') for name in order]
                births = [replace(task.birth(), key=key(task.id[:3], task.id)) for task in tasks]
                groups.append(each.commit(*births))
            one, two = [receipt.appended for receipt in await asyncio.gather(*groups)]
            for here, there in zip(one, two[::-1], strict=True):
                assert isinstance(here, Known) != isinstance(there, Known)
                assert Continues() in (here, there)

    @needs(Point.REFUSES_KNOWN_IDS)
    async def test_a_loser_may_have_the_winners_id(self, journal: Journal, node: ScriptedNode) -> None:
        task, again = ScriptedTask(node, 'task'), ScriptedTask(node, 'task')
        await node.append(replace(task.birth(), key=key('k', 'first')))
        late = node.group([replace(again.birth(again.chunk('other')), key=key('k', 'second'))])
        for _ in range(2):
            assert (await journal.commit(late)).appended == [known('task', 'first')]
        await check(journal, task)

    async def test_keys_of_others_are_others(self, journal: Journal, node: ScriptedNode) -> None:
        callers = (ALICE, BOB, OTHER_TENANT, OTHER_AGENT)
        tasks = [ScriptedTask(node, f'task {index}', caller) for index, caller in enumerate(callers)]
        births = [replace(task.birth(), key=key('k', task.id)) for task in tasks]
        assert (await node.commit(*births)).appended == [Continues()] * len(tasks)

    async def test_a_follow_up_is_accepted_once(
        self, journal: Journal, node: ScriptedNode, other: ScriptedNode
    ) -> None:
        task = await born(node, 'task', parked=True)
        first, again = (replace(task.accept(turn), key=key('k', turn)) for turn in ('turn 2', 'turn 3'))
        assert isinstance(await write(node, first), Claimed)
        assert await write(other, again) == known('task', 'turn 2')
        queued, more = (replace(task.accept(turn), key=key('q', turn)) for turn in ('turn 4', 'turn 5'))
        receipt = await other.commit(writes=[queued, more])
        assert receipt.written == [Queued(), known('task', 'turn 4')]

    async def test_keys_of_births_and_of_follow_ups_are_the_same(self, node: ScriptedNode) -> None:
        task = ScriptedTask(node, 'task')
        await node.append(replace(task.birth(), key=key('k', 'first')))
        assert await write(node, replace(task.accept('turn 2'), key=key('k', 'turn 2'))) == known('task', 'first')
        await write(node, replace(task.accept('turn 3'), key=key('q', 'turn 3')))
        late = replace(ScriptedTask(node, 'free').birth(), key=key('q', 'turn 4'))
        assert await node.append(late) == known('task', 'turn 3')

    async def test_the_key_of_a_message_that_is_not_accepted_stays_free(
        self, node: ScriptedNode, other: ScriptedNode
    ) -> None:
        task, over = await born(node, 'task'), await born(node, 'free', COMPLETED, parked=True)
        parked = await born(node, 'parked', parked=True)
        assert await write(other, replace(task.accept('a', limit=0), key=key('k', 'a'))) == Full()
        assert await write(other, replace(over.accept('b'), key=key('k', 'b'))) == Refused()
        assert await write(other, replace(parked.accept('c', expected=1), key=key('k', 'c'))) == Stale()
        receipt = await other.commit(
            writes=[replace(over.accept('d'), key=key('k', 'd')), replace(parked.accept('e'), key=key('k', 'e'))]
        )
        assert receipt.written[0] == Refused()
        assert isinstance(receipt.written[1], Claimed)

    async def test_a_key_that_has_expired_is_free(self, node: ScriptedNode) -> None:
        task, late, later = (ScriptedTask(node, name) for name in ('task', 'free', 'parked'))
        now = EPOCH + node.number + 2
        await node.append(replace(task.birth(), key=key('k', 'first', expires_at=now)))
        assert await node.append(replace(late.birth(), key=key('k', 'second'))) == Continues()
        assert await node.append(replace(later.birth(), key=key('k', 'third'))) == known('free', 'second')

    async def test_a_key_can_be_taken_from_a_turn_whose_task_is_gone(self, node: ScriptedNode) -> None:
        task, late = ScriptedTask(node, 'task'), ScriptedTask(node, 'free')
        await node.append(replace(task.birth(), key=key('k', 'first')))
        birth = late.birth()
        assert await node.append(replace(birth, key=key('k', 'second', replaces='zero'))) == known('task', 'first')
        assert await node.append(replace(birth, key=key('k', 'second', replaces='first'))) == Continues()

    async def test_a_task_that_is_deleted_frees_its_keys(self, journal: Journal, node: ScriptedNode) -> None:
        task = ScriptedTask(node, 'task')
        ended = task.birth(task.status(COMPLETED), snapshot=True, ends_turn=True)
        assert await node.append(replace(ended, key=key('k', 'first'))) == Released()
        assert await journal.delete_task('task', ALICE)
        assert await node.append(replace(ScriptedTask(node, 'free').birth(), key=key('k', 'second'))) == Continues()

    @needs(Point.REPLACING)
    async def test_a_task_that_is_pruned_frees_its_keys(self, journal: Journal, node: ScriptedNode) -> None:
        task = ScriptedTask(node, 'task')
        ended = task.birth(task.status(COMPLETED), snapshot=True, ends_turn=True)
        await node.append(replace(ended, key=key('k', 'first')))
        assert await journal.delete_ended(Ended(COMPLETED, EPOCH + 100)) == ['task']
        assert await node.append(replace(ScriptedTask(node, 'free').birth(), key=key('k', 'second'))) == Continues()

    async def test_expired_keys_are_deleted_and_others_stay(self, journal: Journal, node: ScriptedNode) -> None:
        tasks = [ScriptedTask(node, name) for name in ('task', 'free', 'parked')]
        names = [('old', EPOCH + 50), ('older', EPOCH + 40), ('new', EPOCH + 51)]
        for task, (name, expires_at) in zip(tasks, names, strict=True):
            await node.append(replace(task.birth(), key=key(name, task.id, expires_at=expires_at)))
        assert await journal.delete_expired_keys(EPOCH + 39) == 0
        assert await journal.delete_expired_keys(EPOCH + 50) == 2
        assert await journal.delete_expired_keys(EPOCH + 50) == 0
        assert await node.append(replace(ScriptedTask(node, 'late').birth(), key=key('new', 'late'))) == known(
            'parked', 'parked'
        )
        assert await node.append(replace(ScriptedTask(node, 'late').birth(), key=key('old', 'late'))) == Continues()

    async def test_the_group_of_a_loser_is_written_otherwise(self, journal: Journal, node: ScriptedNode) -> None:
        task, late = ScriptedTask(node, 'task'), ScriptedTask(node, 'free')
        await node.append(replace(task.birth(), key=key('k', 'first')))
        parked = await born(node, 'parked', parked=True)
        appends = [replace(late.birth(), key=key('k', 'second')), task.append(task.chunk('text'), snapshot=True)]
        receipt = await node.commit(*appends, writes=[parked.accept('turn 2'), DropConfig('task', 'none')])
        assert receipt.appended == [known('task', 'first'), Continues()]
        assert isinstance(receipt.written[0], Claimed)
        await check(journal, task)

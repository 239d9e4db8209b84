"""Which configs are due, who holds them, and what is written of them."""

from dataclasses import replace

from a2a_scribe.journal.deliveries import (
    Delivery,
    DeliveryKey,
    DeliveryOutcome,
    DeliveryQuery,
    DueDeliveries,
    KeepDeliveries,
    Kept,
)
from a2a_scribe.journal.port import Journal
from a2a_scribe.journal.tasks import Ended
from a2a_scribe.journal.writes import DropConfig, PutConfig
from a2a_scribe.protocol.states import COMPLETED, WORKING
from a2a_scribe.testing.contract.adapter import AdapterContract, Point, needs
from a2a_scribe.testing.contract.scenes import born, bury, config_of, put, settle_all
from a2a_scribe.testing.journal_driver import EPOCH, ScriptedNode, ScriptedTask

KEY = DeliveryKey('task', 'a')
NOW = EPOCH + 1_000


async def with_config(node: ScriptedNode, task_id: str = 'task', config_id: str = 'a') -> ScriptedTask:
    """Makes a task that is born with a config."""
    task = ScriptedTask(node, task_id)
    await node.commit(task.birth(configs=(config_of(task_id, config_id),)))
    return task


async def due(
    journal: Journal, node: ScriptedNode, *, now: int = NOW, agent: str = 'agent', tasks: tuple[str, ...] | None = None
) -> list[DeliveryKey]:
    """Asks what a node should take."""
    return await journal.due_deliveries(DueDeliveries(agent, node.id, now, 10, tasks))


async def keep(node: ScriptedNode, *outcomes: DeliveryOutcome, claims: tuple[DeliveryKey, ...] = ()) -> Kept:
    """Has a node write what came of attempts, and take configs."""
    (kept,) = (await node.commit(writes=[KeepDeliveries(outcomes, claims)])).written
    assert isinstance(kept, Kept)
    return kept


async def taken(node: ScriptedNode, key: DeliveryKey = KEY) -> Delivery:
    """Has a node take a config that is free."""
    (claimed,) = (await keep(node, claims=(key,))).claimed
    return claimed


async def read(journal: Journal, key: DeliveryKey = KEY) -> Delivery:
    """Reads a config that is there."""
    found = await journal.read_delivery(key)
    assert found is not None
    return found


class DeliveriesContract(AdapterContract):
    """A config is a cursor that one node at a time moves."""

    async def test_a_config_that_is_born_with_its_task_begins_before_it(
        self, journal: Journal, node: ScriptedNode
    ) -> None:
        task = await with_config(node)
        assert await due(journal, node) == [KEY]
        claimed = await taken(node)
        assert (claimed.config, claimed.position, claimed.seq) == (config_of('task', 'a'), 0, task.row.seq)
        assert (claimed.scope, claimed.state, claimed.node) == (task.caller.scope, 'active', node.id)
        assert claimed.task_state == task.row.state

    async def test_a_later_config_begins_where_its_task_is(self, journal: Journal, node: ScriptedNode) -> None:
        task = await born(node, 'task')
        await node.commit(writes=[put(task, 'a')])
        assert (await read(journal)).position == task.row.seq
        await node.commit(writes=[PutConfig(task.caller, config_of('task', 'b'), 1)])
        assert (await read(journal, DeliveryKey('task', 'b'))).position == 1

    async def test_a_config_that_is_replaced_goes_on_where_it_was(self, journal: Journal, node: ScriptedNode) -> None:
        task = await with_config(node)
        await taken(node)
        await keep(node, DeliveryOutcome(KEY, 0, 1, attempts=2, failing_since=NOW, state='suspended', last_error='no'))
        await node.commit(writes=[put(task, 'a', 'http://new.test')])
        found = await read(journal)
        assert (found.config.url, found.position, found.state) == ('http://new.test', 1, 'active')
        assert (found.attempts, found.failing_since, found.last_error, found.node) == (0, None, None, None)

    async def test_who_works_on_a_task_takes_its_configs_before_there_is_anything(
        self, journal: Journal, node: ScriptedNode, other: ScriptedNode
    ) -> None:
        task = await born(node, 'task')
        await node.commit(writes=[put(task, 'a')])
        assert await due(journal, node) == [KEY]
        assert await due(journal, other) == []
        await node.commit(task.append(task.status(WORKING)))
        assert await due(journal, other) == [KEY]

    async def test_what_is_due_can_be_asked_for_some_tasks_and_is_of_one_agent(
        self, journal: Journal, node: ScriptedNode
    ) -> None:
        await with_config(node)
        await with_config(node, 'another')
        assert await due(journal, node, tasks=('task', 'unknown')) == [KEY]
        assert await due(journal, node, tasks=()) == []
        assert await due(journal, node, agent='another agent') == []
        assert len(await due(journal, node)) == 2

    async def test_a_config_is_held_by_one_node(
        self, journal: Journal, node: ScriptedNode, other: ScriptedNode
    ) -> None:
        await with_config(node)
        await taken(node)
        assert await due(journal, other) == []
        assert await keep(other, claims=(KEY,)) == Kept(frozenset(), ())
        assert await keep(other, DeliveryOutcome(KEY, 0, 2)) == Kept(frozenset({KEY}), ())
        assert await journal.held_deliveries(node.id) == {KEY}
        assert await journal.held_deliveries(other.id) == set()
        assert (await read(journal)).position == 0

    async def test_what_a_dead_node_held_is_free(
        self, journal: Journal, node: ScriptedNode, other: ScriptedNode
    ) -> None:
        await with_config(node)
        await taken(node)
        await bury(journal, node)
        assert await due(journal, other) == [KEY]
        assert (await taken(other)).node == other.id

    async def test_who_holds_a_config_has_to_show_that_it_lives(
        self, journal: Journal, node: ScriptedNode, other: ScriptedNode
    ) -> None:
        await with_config(node)
        await taken(other)
        (found,) = [each for each in await journal.living_nodes('agent') if each.node_id == other.id]
        assert found.owns

    async def test_an_outcome_moves_the_config(self, journal: Journal, node: ScriptedNode) -> None:
        await with_config(node)
        claimed = await taken(node)
        failed = DeliveryOutcome(KEY, 0, 1, 3, NOW + 5, NOW, 'active', 'HTTP 503')
        assert (await keep(node, failed)).lost == frozenset()
        assert await read(journal) == replace(
            claimed, position=1, attempts=3, next_attempt_at=NOW + 5, failing_since=NOW, last_error='HTTP 503'
        )

    async def test_an_outcome_from_another_position_is_lost(self, journal: Journal, node: ScriptedNode) -> None:
        await with_config(node)
        await taken(node)
        assert (await keep(node, DeliveryOutcome(KEY, 1, 2))).lost == {KEY}
        assert (await read(journal)).position == 0

    async def test_outcomes_of_many_configs_are_written_together(self, journal: Journal, node: ScriptedNode) -> None:
        names = [f'task{number}' for number in range(3)]
        for name in names:
            await with_config(node, name)
        keys = tuple(DeliveryKey(name, 'a') for name in names)
        assert {each.key for each in (await keep(node, claims=keys)).claimed} == set(keys)
        await node.commit(writes=[DropConfig('task1', 'a')])
        kept = await keep(node, *(DeliveryOutcome(key, 0, 2) for key in keys))
        assert kept.lost == {keys[1]}
        assert [each.position for each in await journal.list_deliveries(DeliveryQuery())] == [2, 2]

    async def test_a_later_attempt_is_due_at_its_time(
        self, journal: Journal, node: ScriptedNode, other: ScriptedNode
    ) -> None:
        await with_config(node)
        await taken(node)
        await keep(node, DeliveryOutcome(KEY, 0, 0, 1, NOW + 10, NOW, 'active', 'no', releases=True))
        assert await due(journal, other, now=NOW + 9) == []
        assert await due(journal, other, now=NOW + 10) == [KEY]
        claimed = await taken(other)
        assert (claimed.attempts, claimed.next_attempt_at, claimed.failing_since) == (1, NOW + 10, NOW)

    async def test_a_config_goes_when_its_task_has_ended_and_all_is_delivered(
        self, journal: Journal, node: ScriptedNode
    ) -> None:
        task = await with_config(node)
        await taken(node)
        await settle_all(node, await ended(node, task))
        await keep(node, DeliveryOutcome(KEY, 0, task.row.seq - 1, releases=True))
        assert await due(journal, node) == [KEY]
        await taken(node)
        await keep(node, DeliveryOutcome(KEY, task.row.seq - 1, task.row.seq, releases=True))
        assert await journal.read_configs('task') == []
        assert await journal.read_delivery(KEY) is None

    async def test_configs_of_several_ended_tasks_go_together(self, journal: Journal, node: ScriptedNode) -> None:
        tasks = [await with_config(node, name) for name in ('one', 'two', 'three')]
        keys = [DeliveryKey(task.id, 'a') for task in tasks]
        await keep(node, claims=tuple(keys))
        await settle_all(node, *[await ended(node, task) for task in tasks[:2]])
        outcomes = [DeliveryOutcome(key, 0, task.row.seq, releases=True) for key, task in zip(keys, tasks, strict=True)]
        assert (await keep(node, *outcomes)).lost == frozenset()
        assert [each.key for each in await journal.list_deliveries(DeliveryQuery())] == keys[2:]

    async def test_a_config_stays_while_its_task_may_go_on(self, journal: Journal, node: ScriptedNode) -> None:
        task = await with_config(node)
        await taken(node)
        await settle_all(node, task)
        await keep(node, DeliveryOutcome(KEY, 0, task.row.seq, releases=True))
        assert await due(journal, node) == []
        assert (await read(journal)).node is None

    async def test_a_suspended_config_waits_for_an_operator(self, journal: Journal, node: ScriptedNode) -> None:
        task = await with_config(node)
        await taken(node)
        gone = DeliveryOutcome(KEY, 0, 1, 1, None, NOW, 'suspended', 'HTTP 410', releases=True)
        await keep(node, gone)
        assert await due(journal, node) == []
        assert (await keep(node, claims=(KEY,))).claimed == ()
        found = await read(journal)
        assert (found.state, found.last_error, found.position) == ('suspended', 'HTTP 410', 1)
        assert await journal.set_delivery(KEY, 'active')
        assert await due(journal, node) == [KEY]
        resumed = await taken(node)
        assert (resumed.position, resumed.attempts, resumed.last_error, resumed.seq) == (1, 0, None, task.row.seq)

    async def test_an_operator_takes_a_config_from_its_node(self, journal: Journal, node: ScriptedNode) -> None:
        await with_config(node)
        await taken(node)
        await keep(node, DeliveryOutcome(KEY, 0, 2))
        assert await journal.set_delivery(KEY, 'suspended')
        assert (await keep(node, DeliveryOutcome(KEY, 2, 3))).lost == {KEY}
        assert await journal.set_delivery(KEY, 'active', position=1)
        assert (await taken(node)).position == 1
        assert not await journal.set_delivery(DeliveryKey('task', 'unknown'), 'active')

    async def test_configs_are_listed_in_pages(self, journal: Journal, node: ScriptedNode) -> None:
        for name in ('one', 'two'):
            task = await with_config(node, name)
            await node.commit(writes=[put(task, 'b')])
        await journal.set_delivery(DeliveryKey('two', 'b'), 'suspended')
        keys = [DeliveryKey(task, config) for task in ('one', 'two') for config in ('a', 'b')]
        assert [each.key for each in await journal.list_deliveries(DeliveryQuery(agent='agent'))] == keys
        first = await journal.list_deliveries(DeliveryQuery(limit=3))
        rest = await journal.list_deliveries(DeliveryQuery(after=first[-1].key))
        assert [each.key for each in [*first, *rest]] == keys
        assert [each.key for each in await journal.list_deliveries(DeliveryQuery(task_id='one'))] == keys[:2]
        (suspended,) = await journal.list_deliveries(DeliveryQuery(state='suspended'))
        assert suspended.key == keys[3]
        assert await journal.list_deliveries(DeliveryQuery(agent='another agent')) == []

    async def test_a_deleted_task_takes_its_configs_along(self, journal: Journal, node: ScriptedNode) -> None:
        task = await with_config(node)
        await taken(node)
        await settle_all(node, await ended(node, task))
        assert await journal.delete_task('task', task.caller)
        assert await journal.read_configs('task') == []
        assert (await keep(node, DeliveryOutcome(KEY, 0, 1))).lost == {KEY}

    async def test_the_same_group_again_gives_what_became_of_it(self, journal: Journal, node: ScriptedNode) -> None:
        await with_config(node)
        await with_config(node, 'another')
        await taken(node)
        other = DeliveryKey('another', 'a')
        await node.commit(writes=[DropConfig('unknown', 'a')])
        group = node.group(writes=[KeepDeliveries((DeliveryOutcome(KEY, 0, 2),), (other,))])
        first = await journal.commit(group)
        assert await journal.commit(group) == first
        (kept,) = first.written
        assert isinstance(kept, Kept)
        assert (kept.lost, [each.key for each in kept.claimed]) == (frozenset(), [other])


class UndeliveredContract(AdapterContract):
    """Tasks are kept for those who have not heard of them."""

    @needs(Point.RETENTION)
    async def test_a_task_is_kept_until_its_webhooks_have_all_of_it(self, journal: Journal, node: ScriptedNode) -> None:
        task = await with_config(node)
        await settle_all(node, await ended(node, task))
        old = Ended(COMPLETED, EPOCH + 10_000_000)
        assert await journal.delete_ended(old) == []
        await taken(node)
        await keep(node, DeliveryOutcome(KEY, 0, task.row.seq))
        assert await journal.delete_ended(old) == ['task']
        assert await journal.read_configs('task') == []

    @needs(Point.RETENTION)
    async def test_what_is_delivered_elsewhere_is_not_due_and_keeps_no_task(
        self, journal: Journal, node: ScriptedNode
    ) -> None:
        task = ScriptedTask(node, 'task')
        born_elsewhere = node.group([task.birth(configs=(config_of('task', 'a'),))])
        put_elsewhere = node.group(writes=[PutConfig(task.caller, config_of('task', 'b'), 0)])
        for group in (born_elsewhere, put_elsewhere):
            group.delivers = False
            await journal.commit(group)
        assert {each.state for each in await journal.list_deliveries(DeliveryQuery())} == {'elsewhere'}
        assert await due(journal, node) == []
        assert (await keep(node, claims=(KEY,))).claimed == ()
        await settle_all(node, await ended(node, task))
        assert await journal.delete_ended(Ended(COMPLETED, EPOCH + 10_000_000)) == ['task']

    @needs(Point.RETENTION)
    async def test_a_suspended_webhook_keeps_no_task(self, journal: Journal, node: ScriptedNode) -> None:
        task = await with_config(node)
        await settle_all(node, await ended(node, task))
        await journal.set_delivery(KEY, 'suspended')
        assert await journal.delete_ended(Ended(COMPLETED, EPOCH + 10_000_000)) == ['task']


async def ended(node: ScriptedNode, task: ScriptedTask) -> ScriptedTask:
    """Has a task end, without ending its turn."""
    await node.commit(task.append(task.status(COMPLETED)))
    return task

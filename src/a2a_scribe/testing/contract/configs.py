"""Push configs."""

from a2a_scribe.journal.port import Journal
from a2a_scribe.journal.results import Done
from a2a_scribe.journal.writes import DropConfig
from a2a_scribe.testing.contract.adapter import AdapterContract
from a2a_scribe.testing.contract.scenes import born, config_of, put
from a2a_scribe.testing.journal_driver import ScriptedNode, ScriptedTask


class ConfigsContract(AdapterContract):
    """Push configs are kept with their task."""

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

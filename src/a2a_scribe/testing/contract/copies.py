"""Objects that are handed over."""

from a2a_scribe.journal.port import Journal
from a2a_scribe.journal.writes import PutConfig
from a2a_scribe.protocol.states import FAILED, WORKING
from a2a_scribe.protocol.types import ListTasksRequest
from a2a_scribe.testing.contract.adapter import AdapterContract
from a2a_scribe.testing.contract.checks import check, read
from a2a_scribe.testing.contract.scenes import born, config_of, outside, put
from a2a_scribe.testing.journal_driver import ALICE, EPOCH, ScriptedNode, ScriptedTask


class CopiesContract(AdapterContract):
    """What one side changes in an object after handing it over does not reach the other."""

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

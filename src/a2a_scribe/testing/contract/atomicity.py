"""Groups that fail."""

from dataclasses import replace

import pytest

from a2a_scribe.errors import JournalRefusedError
from a2a_scribe.journal.port import Journal
from a2a_scribe.journal.results import Claimed, Released
from a2a_scribe.journal.writes import DropConfig
from a2a_scribe.testing.contract.adapter import AdapterContract, Point, needs
from a2a_scribe.testing.contract.checks import all_records, check, check_absent, read
from a2a_scribe.testing.contract.scenes import born, config_of, put, write
from a2a_scribe.testing.journal_driver import ScriptedNode, ScriptedTask


class AtomicityContract(AdapterContract):
    """A group is written as a whole or not at all."""

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

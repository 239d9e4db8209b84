"""Texts, ids and sizes."""

from typing import Final

import pytest

from a2a_scribe.journal.port import Journal
from a2a_scribe.protocol.states import WORKING
from a2a_scribe.protocol.types import ListTasksRequest
from a2a_scribe.testing.contract.adapter import AdapterContract
from a2a_scribe.testing.contract.checks import check
from a2a_scribe.testing.contract.scenes import born
from a2a_scribe.testing.journal_driver import ALICE, ScriptedNode, ScriptedTask

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


class ContentContract(AdapterContract):
    """Whatever is in a body or an id comes back unchanged."""

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

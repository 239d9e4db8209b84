"""Groups whose answer is lost."""

from dataclasses import replace
from typing import Final

from a2a_scribe.journal.writes import DropConfig, Group, Write
from a2a_scribe.protocol.states import COMPLETED, FAILED, INPUT_REQUIRED, WORKING
from a2a_scribe.testing.contract.asked_cancels import OVER
from a2a_scribe.testing.contract.keys import key
from a2a_scribe.testing.contract.scenes import born, bury, config_of, put
from a2a_scribe.testing.journal_driver import ScriptedNode, ScriptedTask

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


async def lose_take_overs(node: ScriptedNode, other: ScriptedNode) -> Group:
    ended, again = await born(other, 'task'), await born(other, 'free')
    await bury(other.journal, other)
    return node.group(writes=[ended.take_over(), again.take_over(again=True), ended.take_over()])


async def lose_claim_of_others(node: ScriptedNode, other: ScriptedNode) -> Group:
    task = await born(other, 'task')
    return node.group(writes=[task.claim()])


async def lose_queued(node: ScriptedNode, other: ScriptedNode) -> Group:
    task = await born(other, 'task')
    return node.group(writes=[task.accept('turn 2')])


async def lose_asked_cancel(node: ScriptedNode, other: ScriptedNode) -> Group:
    task = await born(other, 'task')
    return node.group(writes=[task.ask_cancel('cancel 1'), task.ask_cancel('cancel 2')])


async def lose_cancel_due(node: ScriptedNode, other: ScriptedNode) -> Group:
    task = await born(node, 'task')
    await other.commit(
        writes=[task.accept('turn 2'), task.ask_cancel('late', patience=OVER), task.ask_cancel('cancel')]
    )
    return node.group([task.end()])


async def lose_take_over_of_canceled(node: ScriptedNode, other: ScriptedNode) -> Group:
    task = await born(other, 'task')
    await node.commit(writes=[task.ask_cancel('cancel')])
    await bury(other.journal, other)
    return node.group(writes=[task.take_over(again=True)])


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
        free.ask_cancel('cancel of free'),
        parked.ask_cancel('cancel of parked'),
        stranger.ask_cancel('strange cancel'),
    ]
    return node.group(writes=writes)


async def lose_configs(node: ScriptedNode, other: ScriptedNode) -> Group:
    task = await born(node, 'task')
    return node.group(writes=[put(task, 'a'), DropConfig('task', 'b')])


async def lose_births_with_keys(node: ScriptedNode, other: ScriptedNode) -> Group:
    first, task, free = ScriptedTask(other, 'parked'), ScriptedTask(node, 'task'), ScriptedTask(node, 'free')
    await other.append(replace(first.birth(), key=key('k', 'first')))
    lost, won = replace(task.birth(), key=key('k', 'second')), replace(free.birth(), key=key('q', 'third'))
    return node.group([lost, won])


async def lose_short_births_with_keys(node: ScriptedNode, other: ScriptedNode) -> Group:
    first, task, free = ScriptedTask(other, 'parked'), ScriptedTask(node, 'task'), ScriptedTask(node, 'free')
    await other.append(replace(first.birth(), key=key('k', 'first')))
    births = [each.birth(each.status(COMPLETED), ends_turn=True) for each in (task, free)]
    return node.group([replace(births[0], key=key('k', 'second')), replace(births[1], key=key('q', 'third'))])


async def lose_follow_ups_with_keys(node: ScriptedNode, other: ScriptedNode) -> Group:
    task, parked, free = await born(other, 'task'), await born(node, 'parked', parked=True), await born(node, 'free')
    await other.commit(writes=[replace(task.accept('turn 2'), key=key('k', 'turn 2'))])
    writes: list[Write] = [
        replace(task.accept('turn 3'), key=key('k', 'turn 3')),
        replace(task.accept('turn 4'), key=key('q', 'turn 4')),
        replace(parked.accept('turn of parked'), key=key('b', 'turn of parked')),
        replace(parked.accept('another'), key=key('b', 'another')),
        free.accept('of free'),
    ]
    return node.group(writes=writes)


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
        lose_take_overs,
        lose_asked_cancel,
        lose_cancel_due,
        lose_take_over_of_canceled,
        lose_queued,
        lose_refusals,
        lose_configs,
        lose_births_with_keys,
        lose_short_births_with_keys,
        lose_follow_ups_with_keys,
        lose_everything,
        lose_nothing,
    )
}
"""Makers of a group that is written and of whose answer nobody hears."""

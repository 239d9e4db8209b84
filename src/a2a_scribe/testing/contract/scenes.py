"""What tests set up and write, said shortly."""

from typing import Final

from a2a_scribe.core.records import Change, decode_turn_started
from a2a_scribe.journal.port import Journal
from a2a_scribe.journal.results import NextTurn, WriteResult
from a2a_scribe.journal.writes import Append, PutConfig, Write
from a2a_scribe.protocol.states import INPUT_REQUIRED, WORKING
from a2a_scribe.protocol.types import Task, TaskPushNotificationConfig, TaskState, TaskStatus
from a2a_scribe.testing.journal_driver import EPOCH, ScriptedNode, ScriptedTask, caller, timestamp

BOB: Final = caller('bob')
OTHER_TENANT: Final = caller('alice', tenant='tenant')
OTHER_AGENT: Final = caller('alice', agent='another agent')
ANY_AGENT: Final = caller('alice', agent='', any_agent=True)


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


async def bury(journal: Journal, node: ScriptedNode) -> None:
    """Declares a node dead, as another node does that finds it silent."""
    (number,) = [each.number for each in await journal.living_nodes('agent') if each.node_id == node.id]
    assert await journal.declare_dead(node.id, number)


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

"""Cancelling a task (A2A 1.0, section 3.1.5): one terminal record, whoever wins.

First the executor's own `cancel`, with everything open so that it can flush and report; then both queues are revoked,
the turn is cancelled, and CANCELED is recorded unless the task has ended otherwise. A parked task is claimed for it;
the process is asked that works on any other.
"""

import asyncio
import logging

from a2a.server.agent_execution import RequestContext
from a2a.utils.errors import TaskNotCancelableError, TaskNotFoundError

from a2a_scribe.core.records import CallerRecord, TurnStarted
from a2a_scribe.core.statuses import TurnFacts
from a2a_scribe.engine.asking import ask_owner
from a2a_scribe.engine.latch import Latch
from a2a_scribe.engine.orders import CancelOrder
from a2a_scribe.engine.registry import LiveTask
from a2a_scribe.engine.session import Session
from a2a_scribe.engine.turn import Turn, TurnQueue
from a2a_scribe.engine.writer import Writer
from a2a_scribe.errors import AgentFault, JournalUnavailableError
from a2a_scribe.journal.port import WaitingAsk
from a2a_scribe.journal.results import Claimed, Refused, WriteResult
from a2a_scribe.journal.tasks import StoredTask
from a2a_scribe.journal.writes import Claim
from a2a_scribe.protocol.ids import is_usable
from a2a_scribe.protocol.states import CANCELED, TERMINAL, name_of
from a2a_scribe.protocol.types import Message, SendMessageRequest, Task, TaskState, TurnId

logger = logging.getLogger(__name__)

ATTEMPTS = 20


async def cancel(session: Session, order: CancelOrder) -> Task:
    """Cancels a task and returns it.

    Raises:
        TaskNotFoundError: The task does not exist for this caller.
        TaskNotCancelableError: The task has ended, or ended otherwise before the cancel.
        JournalUnavailableError: The cancel could not be recorded.
    """
    task_id = order.task_id
    if not is_usable(task_id):
        raise TaskNotFoundError
    asked = False
    for _ in range(ATTEMPTS):
        stored = await _read(session, order)
        if stored.row.state == CANCELED and asked:
            return stored.projection.to_task()
        if stored.row.state in TERMINAL:
            raise TaskNotCancelableError(f'Task {task_id} has ended as {name_of(stored.row.state)}')
        live = session.registry.get(task_id)
        if live is None and stored.row.node is None:
            live = await _claim(session, stored, order)
        if live is not None and (live.turn is None or live.turn.ended) and live.cancelling is None:
            await live.writer.wait_for_room()
        elif live is not None and live.turn is not None:
            task = await _join(session, live, live.turn, order)
            if task is not None:
                return task
        elif stored.row.node is not None and live is None:
            await ask_owner(session, stored, order)
            asked = True
    raise JournalUnavailableError('the task changes too fast; try again')


async def _read(session: Session, order: CancelOrder) -> StoredTask:
    stored = await session.parts.journal.read_task(order.task_id, order.caller)
    if stored is None:
        raise TaskNotFoundError
    return stored


def carry_out(session: Session, waiting: WaitingAsk) -> None:
    """Begins a cancel that another process has asked for, of a task that works on a turn here.

    Where the turn has ended already, its end is about to be recorded, and finds the cancel.
    """
    live = session.registry.get(waiting.task_id)
    if live is not None and live.turn is not None and not live.turn.ended and live.cancelling is None:
        _begin(session, live, live.turn, CancelOrder.decode(waiting.task_id, live.writer.caller, waiting.body))


def cancel_ended(session: Session, writer: Writer, body: bytes) -> None:
    """Begins a cancel of a task whose turn has ended, and which is still ours because of the cancel."""
    writer.go_on_without_turn()
    turn = _turnless(session, writer)
    order = CancelOrder.decode(writer.task_id, writer.caller, body)
    _begin(session, session.registry.add(writer, turn), turn, order)
    session.parts.on_turn(writer.task_id, writer.durable_seq)


async def _claim(session: Session, stored: StoredTask, order: CancelOrder) -> LiveTask | None:
    """Takes a parked task, and cancels it whether or not the caller still waits; `None` if it has moved on."""

    def settle(result: WriteResult) -> None:
        if isinstance(result, Claimed) and session.registry.get(stored.row.task_id) is None:
            writer = Writer(stored.row.task_id, order.caller, session.tools, stored, result.row)
            turn = _turnless(session, writer)
            _begin(session, session.registry.add(writer, turn), turn, order)
            session.parts.on_turn(writer.task_id, stored.row.seq)

    result = await session.commits.write(Claim(stored.row.task_id, order.caller, stored.row.seq), settle)
    return session.registry.get(stored.row.task_id) if isinstance(result, Claimed | Refused) else None


def _turnless(session: Session, writer: Writer) -> Turn:
    """Makes what stands for the turn of a parked task: nothing runs, but an executor's `cancel` may report."""
    assert writer.projection is not None
    started = TurnStarted(TurnId(''), CallerRecord('', ''), SendMessageRequest())
    facts = TurnFacts(writer.task_id, writer.projection.context_id, Message(), session.parts.ids.new)
    turn = Turn(started, facts, writer, _nothing_to_run)
    turn.cancelling = True
    return turn


async def _nothing_to_run() -> RequestContext:
    raise AssertionError('a parked task has no turn to run')


async def _join(session: Session, live: LiveTask, turn: Turn, order: CancelOrder) -> Task | None:
    """Cancels, together with whoever else cancels the task now; `None` if the turn ended without ending the task."""
    errand = live.cancelling or _begin(session, live, turn, order)
    try:
        state, task = await asyncio.shield(errand)
    except asyncio.CancelledError:
        if errand.cancelled():
            raise JournalUnavailableError('the server is closed; try again') from None
        raise
    if state in TERMINAL and state != CANCELED:
        raise TaskNotCancelableError(f'Task {live.writer.task_id} has ended as {name_of(state)}')
    return _copy(task) if state == CANCELED else None


def _begin(session: Session, live: LiveTask, turn: Turn, order: CancelOrder) -> 'asyncio.Task[tuple[TaskState, Task]]':
    """Starts the cancel of a live task; from here on, its turn does not end by itself."""
    turn.cancelling = True
    if turn.task is None and turn.place is not None:
        turn.place.leave()  # it is not to begin any more
    errand = _cancel(session, live, turn, order)
    live.cancelling = session.background.spawn(errand, f'cancel of {live.writer.task_id}')
    return live.cancelling


async def _cancel(session: Session, live: LiveTask, turn: Turn, order: CancelOrder) -> tuple[TaskState, Task]:
    writer = live.writer
    queue = TurnQueue(turn)
    await _ask_executor(session, turn, queue, order)
    queue.revoke()
    if not turn.ended:
        turn.revoke()
        await stop_agent(session, turn)
        session.runner.stop(turn, 'canceled', CANCELED, '')
    await writer.wait_for_room()
    assert writer.projection is not None
    return writer.projection.state, await session.task_of(writer)


async def _ask_executor(session: Session, turn: Turn, queue: TurnQueue, order: CancelOrder) -> None:
    writer = turn.writer
    assert writer.projection is not None
    request = RequestContext(
        call_context=order.context,
        request=SendMessageRequest(metadata=order.metadata) if order.metadata.fields else None,
        task_id=writer.task_id,
        context_id=writer.projection.context_id,
        task=await _task_or_none(session, writer),
    )
    asking = session.background.spawn(_call_cancel(session, request, queue), f'cancel {writer.task_id}')
    await _wait(session, turn, asking, session.parts.settings.cancel_deadline)
    if not asking.done():
        logger.warning('The cancel of the agent took too long at task %s', writer.task_id)
        asking.cancel()
    elif not asking.cancelled() and asking.exception() is not None:
        logger.error('The cancel of the agent failed at task %s', writer.task_id, exc_info=asking.exception())


async def _task_or_none(session: Session, writer: Writer) -> Task | None:
    """Returns the task for the executor to look at; without a journal to read it from, it has to do without."""
    try:
        return await session.task_of(writer)
    except JournalUnavailableError:
        return None


async def _call_cancel(session: Session, request: RequestContext, queue: TurnQueue) -> None:
    try:
        await session.parts.agent.executor.cancel(request, queue)
    except SystemExit as error:
        raise AgentFault('the cancel of the agent wanted to end the process') from error


async def stop_agent(session: Session, turn: Turn) -> None:
    """Interrupts the agent at a turn that is revoked, and waits until it has stopped, or not any longer."""
    if turn.task is None or turn.task.done():
        return
    turn.task.cancel()
    await _wait(session, turn, turn.task, session.parts.settings.cancel_grace)
    if not turn.task.done():
        logger.warning('The agent ignores that task %s is cancelled; it is left behind', turn.writer.task_id)


async def _wait(session: Session, turn: Turn, task: 'asyncio.Task[None]', seconds: float) -> None:
    """Waits for a task, whatever its outcome; `seconds` at most, and no longer than the turn lives."""
    over = Latch()
    task.add_done_callback(over.open)
    turn.on_revoke = over.open
    await over.wait(session.parts.clock, seconds)


def _copy(task: Task) -> Task:
    copy = Task()
    copy.CopyFrom(task)
    return copy

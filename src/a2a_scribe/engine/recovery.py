"""Closes turns whose records were lost: a task's row says that somebody works on it, and nobody does.

A task that the journal refused is rebuilt from what is durable and ends as FAILED at once; one that was given up
because the journal was away, as soon as the journal writes again. A task that was claimed for nobody is given back, and
one that was taken over from a dead node for nobody is taken over again.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from a2a_scribe.core.records import TurnEnded
from a2a_scribe.core.statuses import TurnFacts, change_status
from a2a_scribe.engine.hub import Hub
from a2a_scribe.engine.registry import Registry
from a2a_scribe.engine.turn import Turn
from a2a_scribe.engine.writer import Writer, WriterTools
from a2a_scribe.errors import JournalRefusedError, JournalUnavailableError
from a2a_scribe.journal.port import Journal
from a2a_scribe.journal.tasks import Caller, StoredTask, TaskRow
from a2a_scribe.journal.writes import Accept, Claim, TakeOver, Write
from a2a_scribe.protocol.states import FAILED, TERMINAL
from a2a_scribe.protocol.types import Message, NodeId, TurnId
from a2a_scribe.services import Background

logger = logging.getLogger(__name__)

REFUSED_TEXT = 'The server could not record what the agent did.'
AWAY_TEXT = 'The server could not reach its storage while the agent was working.'

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds between two attempts to end a task whose end the journal refuses."""


@dataclass(slots=True)
class Loss:
    """A task that the node may own without a writer."""

    task_id: str
    caller: Caller
    node: NodeId | None
    """The id under which the node would own it."""
    error: Exception
    text: str = ''
    """What clients are told; empty where no agent of this process has been at work."""
    turn: Turn | None = None
    is_birth: bool = False
    """The task was to be born with what was lost: one that is there under its id is another's."""
    accepted: set[TurnId] = field(default_factory=set)
    """Turns that no agent has begun: whoever sent their messages has been told to try again."""
    pause: float = FIRST_PAUSE

    def tell(self, error: Exception) -> None:
        """Lets those who wait for the turn know that nothing more will be recorded of it."""
        if self.turn is not None:
            self.turn.lost = error


class Recovery:
    """The lost turns of one session."""

    def __init__(
        self,
        journal: Journal,
        registry: Registry,
        tools: WriterTools,
        hub: Hub,
        background: Background,
        own_id: Callable[[], NodeId],
        is_deciding: Callable[[str], bool],
        take_over: Callable[[Sequence[TaskRow]], Awaitable[None]],
    ) -> None:
        """Starts with nothing lost; `own_id` tells under which id the node writes now.

        `is_deciding` says of a task whether the journal is being asked for it, by somebody who goes on with it;
        `take_over` has tasks go on that nobody works on.
        """
        self._journal = journal
        self._registry = registry
        self._tools = tools
        self._hub = hub
        self._background = background
        self._own_id = own_id
        self._is_deciding = is_deciding
        self._take_over = take_over
        self._lost: dict[str, Loss] = {}
        self._closing: dict[str, Loss] = {}

    def note(self, writer: Writer, turn: Turn | None, error: Exception, *, at_once: bool) -> None:
        """Remembers a lost turn, to be closed at once or when the journal writes again."""
        loss = self._closing.pop(writer.task_id, None)
        if loss is not None:
            self._note_again(loss, error, at_once=at_once)
            return
        text = REFUSED_TEXT if at_once else AWAY_TEXT
        born = writer.durable_seq == 0
        loss = Loss(writer.task_id, writer.caller, writer.node, error, text, turn, born)
        if at_once:
            logger.error('The journal refused records of task %s: %s', writer.task_id, error)
            self._spawn(loss)
        else:
            loss.tell(error)
            self._lost[writer.task_id] = loss

    def note_unclear(self, write: Write, node: NodeId, error: Exception) -> None:
        """Remembers a claim that may have been made, for nobody."""
        if not isinstance(write, Accept | Claim | TakeOver):
            return
        loss = self._lost.setdefault(write.task_id, Loss(write.task_id, write.caller, node, error))
        if isinstance(write, Accept):
            loss.accepted.add(write.turn_id)

    def _note_again(self, loss: Loss, error: Exception, *, at_once: bool) -> None:
        """Even the end of the task was lost: its callers need not wait, and it is tried again, ever more rarely."""
        loss.tell(error)
        if not at_once:
            self._lost[loss.task_id] = loss
            return
        logger.error('The journal refuses even the end of task %s: %s', loss.task_id, error)
        self._try_later(loss)

    def _try_later(self, loss: Loss) -> None:
        """Tries again by the clock: whether the journal reads, and what it refuses, no transaction of others tells."""
        newer = self._lost.setdefault(loss.task_id, loss)
        if newer is not loss:
            newer.accepted |= loss.accepted
            newer.text = newer.text or loss.text
            loss.tell(loss.error)
            return
        self._tools.clock.call_later(loss.pause, lambda: self._try_again(loss))
        loss.pause = min(loss.pause * 2, LONGEST_PAUSE)

    def _try_again(self, loss: Loss) -> None:
        if self._lost.get(loss.task_id) is loss:
            del self._lost[loss.task_id]
            self._spawn(loss)

    def give_up(self, error: Exception) -> None:
        """Forgets all tasks: under its new id this node owns none of them, and a closed one writes nothing."""
        for loss in (*self._lost.values(), *self._closing.values()):
            loss.tell(error)
        self._lost.clear()
        self._closing.clear()

    def resume(self) -> None:
        """Closes what was given up while the journal was away."""
        lost, self._lost = self._lost, {}
        for loss in lost.values():
            self._spawn(loss)

    def _spawn(self, loss: Loss) -> None:
        self._background.spawn(self._close(loss), f'recovery of {loss.task_id}')

    async def _close(self, loss: Loss) -> None:
        try:
            if not await self._end(loss):
                loss.tell(loss.error)
        except (JournalUnavailableError, JournalRefusedError) as error:
            loss.tell(error)
            self._try_later(loss)
        self._hub.ring(loss.task_id)

    async def _end(self, loss: Loss) -> bool:
        """Ends the turn from the task's durable state; returns whether there is a task to tell its callers of."""
        with self._registry.watched(loss.task_id) as watch:
            stored = await self._journal.read_task(loss.task_id, loss.caller)
        if loss.node != self._own_id():
            return False
        if stored is None or stored.row.node != loss.node or self._registry.get(loss.task_id) is not None:
            return stored is not None and not loss.is_birth
        if watch.was_live or self._is_deciding(loss.task_id):
            self._try_later(loss)
            return True
        if self._was_taken_over(loss, stored.row):
            await self._take_over([stored.row])
            if self._registry.get(loss.task_id) is None:
                self._try_later(loss)
            return True
        await self._close_turn(loss, stored)
        return True

    def _was_taken_over(self, loss: Loss, row: TaskRow) -> bool:
        """Whether the turn that is open is one of a dead node, which its policy decides upon."""
        return not loss.text and row.open_turn is not None and row.open_turn not in loss.accepted

    async def _close_turn(self, loss: Loss, stored: StoredTask) -> None:
        writer = Writer(stored.row.task_id, loss.caller, self._tools, stored, stored.row)
        self._registry.add(writer)
        self._closing[writer.task_id] = loss
        if loss.text and stored.row.state not in TERMINAL:
            facts = TurnFacts(writer.task_id, stored.row.context_id, Message(), self._tools.new_id)
            writer.record(change_status(stored.projection, facts, FAILED, loss.text, writer.now()))
        if stored.row.open_turn is not None:
            writer.end_turn(TurnEnded(stored.row.open_turn, 'interrupted'))
        else:
            writer.release()
        await self._until_durable(writer)

    async def _until_durable(self, writer: Writer) -> None:
        try:
            await writer.wait_for_room()
        except (JournalUnavailableError, JournalRefusedError):
            return  # the commit loop has reported the loss, and `note` has decided what follows
        self._closing.pop(writer.task_id, None)

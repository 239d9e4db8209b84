"""Who may write a task: claims, inbox, releases, the fence, take-overs and cancels, in every possible order.

One task, a few messages and a cancel, processes that crash, pause, wake as zombies and start again between any two
transactions, and a transaction whose answer is lost: its process tries again or gives up, and the abandoned attempt may
still reach the database at any later time. Each transaction locks the task's row first and looks at it second, so it is
one step here; `Rules.breach` names one rule that is left out.

Who takes a task over from a dead node does so in one transaction, with the start of another attempt if there is to be
one, and ends it in the next. The cancel of a free task claims it and ends it in the next transaction, too.

In every state:

* one writer: who appends to the task owns it, and nobody claims a task that is owned;
* one place: what was recorded is where its writer thinks it is (an old attempt does not land after a newer one);
* final: after a terminal record comes only the end of its turn;
* one turn: a turn starts when the one before has ended, and never while a cancel waits;
* once: a message starts at most once, is never both started and refused, and never forgotten;
* bounded: a turn that is interrupted again and again is given up.

Where nothing but the environment can act and a process lives: nobody owns the task, nothing waits in its inbox, and an
accepted cancel has ended it.
"""

import gc
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Literal, NamedTuple

CANCEL = -1
"""The inbox row that asks for the end; all others are numbers of messages."""

Node = tuple[int, int]
"""A process, and how often it has registered."""


class Breach(Enum):
    """A rule that is left out, and what happens in its place."""

    NO_FENCE = 'a node that was declared dead goes on writing'
    NO_NUMBERS = 'the fence looks only whether the node is alive'
    NUMBERS_AGAIN = 'the number of a group that was given up is given to the next one'
    RECEIPT_MISREAD = 'a group that is found committed counts as failed'
    GOES_ON = 'a writer goes on after its group was given up'
    BLIND_RELEASE = 'the end of a turn does not look into the inbox'
    BLIND_INSERT = 'who writes to the inbox looks in a transaction of its own'
    BLIND_CLAIM = 'who claims looks in a transaction of its own, and does not count rows'
    BLIND_CANCEL = 'who cancels a free task looks in a transaction of its own'
    BLIND_TAKE_OVER = 'who takes over does not check whose the task is by then'
    EAGER_TAKE_OVER = 'who takes over does not wait until the node is declared dead'
    NO_NEW_OWNER = 'who takes over does not become the owner'
    ENDED_AGAIN = 'who takes over a task that has ended treats it as one at work'
    BLIND_RETURN = 'who gives back the task of a cancel that died does not look into the inbox'
    INBOX_KEPT = 'a terminal record leaves the inbox as it is'
    INBOX_OPEN = 'a message may wait although a terminal state is recorded'
    TURN_ON_TURN = 'the owner starts a message at once'
    CANCEL_WAITS = 'messages are started before a cancel'
    CANCEL_MISSED = 'a turn is executed again although a cancel waits'
    NEVER_ENOUGH = 'a turn is executed again without a bound'
    QUEUE_DROPPED = 'who executes a turn again empties the inbox'


@dataclass(frozen=True, slots=True)
class Rules:
    """One thing to explore."""

    policy: Literal['fail', 'rerun'] = 'fail'
    breach: Breach | None = None
    messages: int = 2
    cancels: bool = True
    processes: int = 2
    starts: int = 2
    lost_answers: int = 1
    attempts: int = 2


class BrokenError(Exception):
    """An invariant does not hold."""


class Row(NamedTuple):
    """The task as the database has it; of its journal, what later steps depend on."""

    owner: Node | None = None
    open_turn: int | None = None
    attempt: int = 0
    terminal: bool = False
    started: frozenset[int] = frozenset()
    inbox: tuple[int, ...] = ()

    @property
    def waiting(self) -> tuple[int, ...]:
        """The messages in the inbox."""
        return tuple(item for item in self.inbox if item != CANCEL)

    @property
    def recorded(self) -> 'Row':
        """What the journal says; who owns the task and who waits for it is no record."""
        return self._replace(owner=None, inbox=())

    def claim(self, node: Node) -> 'Row':
        """Takes a free task."""
        if self.owner is not None:
            raise BrokenError(f'one writer: {node} claims a task of {self.owner}')
        return self._replace(owner=node)

    def start(self, node: Node, message: int) -> 'Row':
        """Records the start of a turn."""
        self._check(node, f'start {message}')
        if self.open_turn is not None or CANCEL in self.inbox:
            raise BrokenError(f'one turn: {message} starts, {self.open_turn} is open, the inbox holds {self.inbox}')
        if message in self.started:
            raise BrokenError(f'once: {message} starts again')
        return self._replace(open_turn=message, attempt=1, started=self.started | {message})

    def restart(self, node: Node, most: int) -> 'Row':
        """Records that the open turn is executed once more."""
        self._check(node, f'restart {self.open_turn}')
        if CANCEL in self.inbox:
            raise BrokenError('one turn: a turn is executed again although a cancel waits')
        if self.attempt >= most:
            raise BrokenError(f'bounded: attempt {self.attempt + 1} of {most}')
        return self._replace(attempt=self.attempt + 1)

    def record(self, node: Node) -> 'Row':
        """Records something that the agent emitted."""
        self._check(node, 'a record')
        return self

    def finish(self, node: Node) -> 'Row':
        """Records a terminal state."""
        self._check(node, 'a terminal state')
        return self._replace(terminal=True)

    def end(self, node: Node) -> 'Row':
        """Records the end of the open turn."""
        if self.owner != node:
            raise BrokenError(f'one writer: {node} ends a turn of {self.owner}')
        return self._replace(open_turn=None, attempt=0)

    def release(self) -> 'Row':
        """Lets go of the task."""
        return self._replace(owner=None)

    def _check(self, node: Node, what: str) -> None:
        if self.owner != node:
            raise BrokenError(f'one writer: {node} records {what} of a task of {self.owner}')
        if self.terminal:
            raise BrokenError(f'final: {what} after a terminal state')


class Group(NamedTuple):
    """What one transaction is to do; where it depends on the row, it looks when it holds the lock."""

    kind: Literal['send', 'cancel', 'stop', 'record', 'finish', 'end', 'take', 'close', 'insert', 'seize', 'kill']
    message: int = CANCEL
    owner: Node | None = None
    """Whose task it is thought to be, by who takes over."""
    attempt: int = 0
    """Of the turn that died, by who takes over."""

    @property
    def is_placed(self) -> bool:
        """Whether its records were numbered before the row was locked."""
        return self.kind in ('record', 'finish', 'end', 'stop', 'close')

    def __str__(self) -> str:
        return self.kind if self.message == CANCEL else f'{self.kind} {self.message}'


class Attempt(NamedTuple):
    """A group under its number, which counts from the node's commit number."""

    number: int
    group: Group


class Stray(NamedTuple):
    """An abandoned attempt that may still be on its way."""

    node: Node
    number: int
    group: Group
    is_late: bool = False
    """Whether something was recorded since it was put together."""


class Process(NamedTuple):
    """What a process knows; the database may know better."""

    state: Literal['up', 'paused', 'crashed'] = 'up'
    start: int = 1
    turn: int | None = None
    has_emitted: bool = False
    cancels: bool = False
    """Whether it has claimed the task to cancel it."""
    next_number: int = 1
    retry: Attempt | None = None
    looked: Group | None = None
    """What it will do because of what it saw in a transaction of its own."""
    is_behind: bool = False
    """Whether something of its own was recorded without its knowledge."""


class State(NamedTuple):
    """Everything."""

    row: Row
    processes: tuple[Process, ...]
    unsent: tuple[int, ...]
    dead: frozenset[Node] = frozenset()
    refused: frozenset[int] = frozenset()
    unknown: frozenset[int] = frozenset()
    """Messages whose senders were told that nobody knows."""
    cancel: Literal['unsent', 'sent', 'accepted', 'refused'] = 'unsent'
    stray: Stray | None = None
    answers_to_lose: int = 0

    def put(self, index: int, process: Process) -> 'State':
        """Replaces one process."""
        return self._replace(processes=(*self.processes[:index], process, *self.processes[index + 1 :]))


class Move(NamedTuple):
    """A step, and whether the system takes it by itself."""

    name: str
    after: State
    is_own: bool = True


class Model:
    """The steps that are possible under some rules."""

    def __init__(self, rules: Rules) -> None:
        """Prepares to explore."""
        self.rules = rules
        self.breach = rules.breach

    def first(self) -> State:
        """Returns the state in which nothing has happened."""
        rules = self.rules
        return State(
            Row(),
            (Process(),) * rules.processes,
            tuple(range(rules.messages)),
            cancel='unsent' if rules.cancels else 'refused',
            answers_to_lose=rules.lost_answers,
        )

    def moves(self, state: State) -> Iterator[Move]:
        """Yields every possible next step."""
        for index, process in enumerate(state.processes):
            yield from self._life(state, index, process)
            if process.state == 'up':
                yield from self._work(state, index, process)
        yield from self._stray(state)

    # What happens to processes

    def _life(self, state: State, index: int, process: Process) -> Iterator[Move]:
        node = (index, process.start)
        again = Process(start=process.start + 1)
        may_start = process.start < self.rules.starts
        if process.state == 'up':
            crashed = Process('crashed', process.start)
            yield Move(f'{node} crashes', forget(state, process).put(index, crashed), is_own=False)
            yield Move(f'{node} pauses', state.put(index, process._replace(state='paused')), is_own=False)
            if node in state.dead and may_start and self.breach is not Breach.NO_FENCE:
                yield Move(f'{node} finds itself dead', forget(state, process).put(index, again))
        elif process.state == 'paused':
            yield Move(f'{node} wakes', state.put(index, process._replace(state='up')), is_own=False)
        elif may_start:
            yield Move(f'{node} starts again', state.put(index, again), is_own=False)
        for start in range(1, process.start + 1):
            gone = (index, start)
            is_gone = start < process.start or process.state != 'up'
            if is_gone and gone not in state.dead and any(other != gone for other in living(state)):
                yield Move(f'{gone} is declared dead', state._replace(dead=state.dead | {gone}))

    # What a process does

    def _work(self, state: State, index: int, process: Process) -> Iterator[Move]:
        node = (index, process.start)
        if node in state.dead and self.breach is not Breach.NO_FENCE:
            return
        if process.retry is not None:
            yield from self._retry(state, index, process, process.retry)
            return
        for group, is_own in self._groups(state, node, process):
            before = sent(state, group)
            attempt = Attempt(process.next_number, group)
            yield Move(f'{node}: {group}', self._try(before, index, process, attempt), is_own)
            if state.answers_to_lose and state.stray is None:
                waiting = process._replace(retry=attempt, next_number=attempt.number + 1)
                lost = before._replace(stray=Stray(node, *attempt), answers_to_lose=state.answers_to_lose - 1)
                yield Move(f'{node}: {group}, no answer', lost.put(index, waiting), is_own=False)
        yield from self._look(state, index, process)

    def _groups(self, state: State, node: Node, process: Process) -> Iterator[tuple[Group, bool]]:
        """Yields what a process may put into its next transaction, and whether it does so by itself."""
        row = state.row
        if process.turn is not None:
            if not process.has_emitted and not row.terminal:
                yield Group('record'), True
            if not row.terminal:
                yield Group('finish'), True
            yield Group('end'), True
        elif process.cancels:
            yield Group('stop'), True
        elif row.owner == node:
            yield Group('close'), True
        elif row.owner is not None and (row.owner in state.dead or self.breach is Breach.EAGER_TAKE_OVER):
            yield Group('take', owner=row.owner, attempt=row.attempt), True
        if process.looked is not None:
            yield process.looked, True
        if state.unsent and not self._looks_first(row):
            yield Group('send', state.unsent[0]), False
        if state.cancel == 'unsent' and not (self.breach is Breach.BLIND_CANCEL and row.owner is None):
            yield Group('cancel'), False

    def _looks_first(self, row: Row) -> bool:
        if row.terminal:
            return False
        return self.breach is (Breach.BLIND_CLAIM if row.owner is None else Breach.BLIND_INSERT)

    def _look(self, state: State, index: int, process: Process) -> Iterator[Move]:
        """With some rules left out, a look and what follows from it are two transactions."""
        if process.looked is not None:
            return
        row = state.row
        if state.unsent and self._looks_first(row):
            message, *rest = state.unsent
            group = Group('seize' if row.owner is None else 'insert', message)
            after = state._replace(unsent=tuple(rest), unknown=state.unknown | {message})
            yield Move(
                f'process {index} looks: {group}', after.put(index, process._replace(looked=group)), is_own=False
            )
        if self.breach is Breach.BLIND_CANCEL and state.cancel == 'unsent' and row.owner is None and not row.terminal:
            after = state._replace(cancel='sent')
            looked = process._replace(looked=Group('kill'))
            yield Move(f'process {index} looks: kill', after.put(index, looked), is_own=False)

    def _retry(self, state: State, index: int, process: Process, attempt: Attempt) -> Iterator[Move]:
        node = (index, process.start)
        again = process._replace(retry=None)
        yield Move(f'{node}: {attempt.group}, again', self._try(state, index, again, attempt))
        given_up = (
            again if self.breach is Breach.GOES_ON else again._replace(turn=None, has_emitted=False, cancels=False)
        )
        if self.breach is Breach.NUMBERS_AGAIN:
            given_up = given_up._replace(next_number=attempt.number)
        after = forget(state, process).put(index, given_up)
        yield Move(f'{node}: {attempt.group}, given up', after, is_own=False)

    def _stray(self, state: State) -> Iterator[Move]:
        stray = state.stray
        if stray is None:
            return
        gone = state._replace(stray=None)
        yield Move('the abandoned attempt is rolled back', self._calm(gone), is_own=False)
        if self._passes(state, stray.node, stray.number):
            if stray.is_late:
                raise BrokenError(f'one place: {stray.group} lands after something newer')
            after = self._advance(self._apply(gone, stray.node, stray.group), stray.node, stray.number)
            yield Move('the abandoned attempt lands', self._fall_behind(after, stray), is_own=False)

    def _fall_behind(self, state: State, stray: Stray) -> State:
        index, start = stray.node
        process = state.processes[index]
        is_idle = process.turn is None and not process.cancels
        if not stray.group.is_placed or process.start != start or is_idle or process.retry is not None:
            return state
        return state.put(index, process._replace(is_behind=True))

    # What a transaction does

    def _passes(self, state: State, node: Node, number: int) -> bool:
        """The fence: the node is alive, and its commit number is smaller than this one."""
        is_alive = node not in state.dead or self.breach is Breach.NO_FENCE
        return is_alive and (number > 0 or self.breach is Breach.NO_NUMBERS)

    def _try(self, state: State, index: int, process: Process, attempt: Attempt) -> State:
        node = (index, process.start)
        if self._passes(state, node, attempt.number):
            if process.is_behind and attempt.group.is_placed:
                raise BrokenError(f'one place: {node} records where something is recorded')
            state = self._apply(state, node, attempt.group)
            process = process._replace(next_number=max(process.next_number, attempt.number + 1))
            state = self._advance(state.put(index, process), node, attempt.number)
            return self._calm(self._answer(state, index, attempt.group))
        if self.breach is Breach.RECEIPT_MISREAD:
            refused = {attempt.group.message} - {CANCEL}
            return state._replace(refused=state.refused | refused).put(index, process._replace(turn=None))
        process = process._replace(next_number=max(process.next_number, attempt.number + 1))
        return self._calm(self._answer(state.put(index, process), index, attempt.group))

    def _apply(self, state: State, node: Node, group: Group) -> State:
        row, told = self._write(state.row, node, group)
        refused = state.refused | told
        if group.kind in ('cancel', 'kill'):
            state = state._replace(cancel=self._answer_to_cancel(state.row, group))
        if state.stray is not None and (group.kind == 'record' or row.recorded != state.row.recorded):
            state = state._replace(stray=state.stray._replace(is_late=state.stray.group.is_placed))
        return state._replace(row=row, refused=refused)

    def _answer_to_cancel(self, before: Row, group: Group) -> Literal['sent', 'accepted', 'refused']:
        """Who has claimed the task to cancel it promises nothing before it is done."""
        if before.terminal:
            return 'refused'
        return 'sent' if group.kind == 'cancel' and before.owner is None else 'accepted'

    def _advance(self, state: State, node: Node, number: int) -> State:
        """Counts from the node's new commit number."""
        if number <= 0:
            return state
        if state.stray is not None and state.stray.node == node:
            state = state._replace(stray=state.stray._replace(number=state.stray.number - number))
        index, start = node
        process = state.processes[index]
        if process.start != start:
            return state
        retry = process.retry and process.retry._replace(number=process.retry.number - number)
        return state.put(index, process._replace(next_number=process.next_number - number, retry=retry))

    def _calm(self, state: State) -> State:
        """Drops what cannot matter any more: an attempt that the fence will refuse, and gaps between numbers."""
        stray = state.stray
        if stray is not None and not self._passes(state, stray.node, stray.number):
            state = state._replace(stray=None)
        if state.stray is None:
            calm = tuple(p if p.retry else p._replace(next_number=1) for p in state.processes)
            state = state._replace(processes=calm)
        return state

    def _answer(self, state: State, index: int, group: Group) -> State:
        """The process hears that its group is committed, and looks at what came of it."""
        process, row = state.processes[index], state.row
        is_mine = row.owner == (index, process.start)
        match group.kind:
            case 'record':
                process = process._replace(has_emitted=True)
            case 'end' | 'close':
                process = process._replace(turn=row.open_turn if is_mine else None, has_emitted=False)
            case 'take' if is_mine and row.attempt > group.attempt:
                process = process._replace(turn=row.open_turn, has_emitted=False)
            case 'cancel' if is_mine and row.open_turn is None:
                process = process._replace(cancels=True)
            case 'stop':
                process = process._replace(cancels=False)
            case 'send' | 'seize' if is_mine and row.open_turn == group.message:
                process = process._replace(turn=group.message, has_emitted=False)
        return state.put(index, process._replace(looked=None if process.looked == group else process.looked))

    def _write(self, row: Row, node: Node, group: Group) -> tuple[Row, frozenset[int]]:
        """Returns the row afterwards, and whose message was refused."""
        match group.kind:
            case 'send':
                return self._send(row, node, group.message)
            case 'finish':
                return self._empty(row.finish(node))
            case 'end':
                return self._end(row, node)
            case 'stop':
                row, refused = self._empty(row.finish(node))
                return row.release(), refused
            case 'close':
                return self._close(row, node)
            case _:
                return self._write_alone(row, node, group), frozenset()

    def _write_alone(self, row: Row, node: Node, group: Group) -> Row:
        """Returns the row after what refuses nobody's message."""
        match group.kind:
            case 'record':
                return row.record(node)
            case 'cancel':
                return self._cancel(row, node)
            case 'take':
                return self._take(row, node, group.owner)
            case 'insert':
                return row._replace(inbox=(*row.inbox, group.message))
            case 'seize':
                return row._replace(owner=node).start(node, group.message)
            case _:
                return row._replace(owner=node).finish(node).release()

    def _send(self, row: Row, node: Node, message: int) -> tuple[Row, frozenset[int]]:
        if row.terminal and not (self.breach is Breach.INBOX_OPEN and row.owner is not None):
            return row, frozenset({message})
        if row.owner is None:
            return row.claim(node).start(node, message), frozenset()
        if self.breach is Breach.TURN_ON_TURN and row.owner == node:
            return row.start(node, message), frozenset()
        return row._replace(inbox=(*row.inbox, message)), frozenset()

    def _cancel(self, row: Row, node: Node) -> Row:
        if row.terminal:
            return row
        if row.owner is None:
            return row.claim(node)
        return row._replace(inbox=(*row.inbox, CANCEL))

    def _end(self, row: Row, node: Node) -> tuple[Row, frozenset[int]]:
        row = row.end(node)
        if CANCEL in row.inbox and not row.terminal and self.breach is not Breach.CANCEL_WAITS:
            return row, frozenset()  # still owned, so that the owner closes it
        if self.breach is Breach.BLIND_RELEASE:
            return row.release(), frozenset()
        return self._hand_over(row, node), frozenset()

    def _hand_over(self, row: Row, node: Node) -> Row:
        """Starts the next message, or lets go of the task."""
        if not row.waiting:
            return row.release()
        following = row.waiting[0]
        rest = tuple(item for item in row.inbox if item != following)
        return row._replace(inbox=rest).start(node, following)

    def _take(self, row: Row, node: Node, owner: Node | None) -> Row:
        """Becomes the owner in a dead node's place, and has its turn executed again if that is the policy."""
        if row.owner != owner and self.breach is not Breach.BLIND_TAKE_OVER:
            return row
        if self.breach is not Breach.NO_NEW_OWNER:
            row = row._replace(owner=node)
        is_canceled = CANCEL in row.inbox and self.breach is not Breach.CANCEL_MISSED
        is_worth = row.attempt < self.rules.attempts or self.breach is Breach.NEVER_ENOUGH
        is_over = row.open_turn is None or self._has_ended(row)
        if self.rules.policy == 'fail' or is_over or is_canceled or not is_worth:
            return row
        row = row.restart(node, self.rules.attempts)
        return row._replace(inbox=()) if self.breach is Breach.QUEUE_DROPPED else row

    def _has_ended(self, row: Row) -> bool:
        return row.terminal and self.breach is not Breach.ENDED_AGAIN

    def _close(self, row: Row, node: Node) -> tuple[Row, frozenset[int]]:
        """Ends what nobody executes any more; a task without a turn was to be cancelled, and is given back."""
        if row.open_turn is None and CANCEL in row.inbox and self.breach is not Breach.CANCEL_MISSED:
            row, refused = self._empty(row.finish(node))
            return row.release(), refused
        if row.open_turn is None:
            return (row.release() if self.breach is Breach.BLIND_RETURN else self._hand_over(row, node)), frozenset()
        if self._has_ended(row):
            return row.end(node).release(), frozenset()
        row, refused = self._empty(row.finish(node))
        return row.end(node).release(), refused

    def _empty(self, row: Row) -> tuple[Row, frozenset[int]]:
        """A terminal state answers whoever waits."""
        if self.breach is Breach.INBOX_KEPT:
            return row, frozenset()
        return row._replace(inbox=()), frozenset(row.waiting)


def sent(state: State, group: Group) -> State:
    """Each message and the cancel are sent once."""
    match group.kind:
        case 'send':
            return state._replace(unsent=tuple(message for message in state.unsent if message != group.message))
        case 'cancel':
            return state._replace(cancel='sent')
    return state


def forget(state: State, process: Process) -> State:
    """The sender of a message that is in an attempt without an answer is told that nobody knows."""
    if process.retry is None or process.retry.group.kind != 'send':
        return state
    return state._replace(unknown=state.unknown | {process.retry.group.message})


def living(state: State) -> Iterator[Node]:
    """Yields the nodes that run and may write."""
    for index, process in enumerate(state.processes):
        node = (index, process.start)
        if process.state == 'up' and node not in state.dead:
            yield node


def check(state: State, rules: Rules, *, is_quiet: bool) -> None:
    """Raises `BrokenError` where a state must not be."""
    row = state.row
    if twice := row.started & (state.refused | set(row.waiting)):
        raise BrokenError(f'once: {set(twice)} started, and refused or waiting')
    if len(set(row.inbox)) < len(row.inbox):
        raise BrokenError(f'once: the inbox holds {row.inbox}')
    tried = {process.retry.group.message for process in state.processes if process.retry}
    known = {*state.unsent, *row.started, *row.inbox, *state.refused, *state.unknown, *tried}
    if lost := set(range(rules.messages)) - known:
        raise BrokenError(f'once: {lost} forgotten')
    if is_quiet and any(living(state)):
        if row.owner is not None or row.inbox or row.open_turn is not None:
            raise BrokenError(f'stuck: {row}')
        if state.cancel == 'accepted' and not row.terminal:
            raise BrokenError('stuck: an accepted cancel has not ended the task')


class Exploration(NamedTuple):
    """What was seen."""

    states: int
    steps: frozenset[str]
    """Every kind of step that was possible somewhere."""
    trail: tuple[str, ...] | None
    """The shortest way to a state that must not be, and what is wrong with it."""


@contextmanager
def no_collection() -> Iterator[None]:
    """Millions of tuples without a cycle among them: looking for garbage would take a third of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def explore(rules: Rules) -> Exploration:
    """Tries every order of steps."""
    with no_collection():
        return _explore(Model(rules))


def _explore(model: Model) -> Exploration:
    came: dict[State, tuple[State, str] | None] = {model.first(): None}
    frontier = deque(came)
    steps: set[str] = set()
    while frontier:
        state = frontier.popleft()
        try:
            moves = list(model.moves(state))
            check(state, model.rules, is_quiet=not any(move.is_own for move in moves))
        except BrokenError as broken:
            return Exploration(len(came), frozenset(steps), (*trail(came, state), str(broken)))
        for move in moves:
            steps.add(move.name)
            if move.after not in came:
                came[move.after] = (state, move.name)
                frontier.append(move.after)
    return Exploration(len(came), frozenset(steps), None)


def trail(came: dict[State, tuple[State, str] | None], state: State) -> tuple[str, ...]:
    """Returns the steps that led to a state."""
    steps = []
    while (before := came[state]) is not None:
        state, step = before
        steps.append(step)
    return tuple(reversed(steps))

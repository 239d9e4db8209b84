"""What must hold of every run, whatever went wrong in it.

Of the journal: no gaps, turns that start and end, one terminal record and nothing after it, a snapshot equal to the
fold of its records, no owner and no waiting message where nobody works. Of what clients were told: it was durable
then, it is a gap-free run, and it is about their own message. Of messages: executed once at most, never both started
and refused, and never neither. Of memory: as before.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from a2a.utils.errors import (
    A2AError,
    InternalError,
    InvalidParamsError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)

from a2a_scribe.core.projection import Projection
from a2a_scribe.core.records import SHOWN, TURN_ENDED, Change, Record, Shown, TaskCreated, TurnEnded, TurnStarted
from a2a_scribe.core.records import decode as decode_record
from a2a_scribe.engine.commits import CommitLoop
from a2a_scribe.journal.rows import status_micros
from a2a_scribe.journal.tasks import TaskRow
from a2a_scribe.protocol.faults import TemporaryError
from a2a_scribe.protocol.states import FAILED, INTERRUPTED, TERMINAL, name_of
from a2a_scribe.protocol.types import Task, TaskState
from tests.simulation import switches
from tests.simulation.agents import AgentError
from tests.simulation.database import Database
from tests.simulation.ledger import Emission, Ledger, Report, Sent, Told
from tests.simulation.process import Process

MOST_RECORDS = 1_000
"""No task has so many, unless something goes on for ever."""
TAG = re.compile(rb'<[^<>]+>')


class History:
    """One task's journal, folded step by step."""

    def __init__(self, records: Sequence[Record], row: TaskRow) -> None:
        """Folds the records."""
        self.records = records[:MOST_RECORDS]
        self.row = row
        self.tasks: dict[bytes, list[int]] = {}
        """Each task that the journal ever stood for, and after which records."""
        self.states: list[TaskState | None] = [None]
        """The state after so many records."""
        self.turns: dict[str, tuple[int, int | None]] = {}
        """Each message's turn: the records that start and end it."""
        self.tags: dict[str, int] = {}
        """The texts of agents, in the order in which they were recorded first."""
        self.final: Task | None = None
        self.faults: list[str] = []
        if len(records) > MOST_RECORDS:
            self.faults.append(f'there are {len(records)} records')
        self._open: TurnStarted | None = None
        self._fold()

    def _fold(self) -> None:
        projection: Projection | None = None
        for number, record in enumerate(self.records, 1):
            change = decode_record(record)
            ended = projection is not None and projection.state in TERMINAL
            if record.seq != number:
                self.faults.append(f'record {number} has the number {record.seq}')
            if ended and record.kind != TURN_ENDED:
                self.faults.append(f'record {number} ({record.kind}) comes after the end of the task')
            self._note_turn(number, change)
            self._note_tags(number, record)
            if projection is not None and change is not None:
                projection.apply(change)
            elif isinstance(change, TaskCreated):
                projection = Projection(change.task)
            self._note(projection, number)

    def _note_turn(self, number: int, change: Change | None) -> None:
        if isinstance(change, TurnStarted):
            if self._open is not None:
                self.faults.append(f'record {number} starts a turn within turn {self._open.turn_id}')
            self._open, message_id = change, change.request.message.message_id
            if message_id in self.turns and change.attempt == 1:
                self.faults.append(f'{message_id} starts twice')
            self.turns[message_id] = (number, None)
        elif isinstance(change, TurnEnded):
            if self._open is None or change.turn_id != self._open.turn_id:
                self.faults.append(f'record {number} ends turn {change.turn_id}, which is not open')
            else:
                message_id = self._open.request.message.message_id
                self.turns[message_id] = (self.turns[message_id][0], number)
            self._open = None

    def _note_tags(self, number: int, record: Record) -> None:
        for tag in TAG.findall(record.body) if record.kind in SHOWN else ():
            self.tags.setdefault(tag.decode(), number)

    def _note(self, projection: Projection | None, number: int) -> None:
        if projection is None:
            self.states.append(None)
            return
        self.final = projection.to_task()
        self.states.append(projection.state)
        self.tasks.setdefault(_bytes(self.final), []).append(number)

    def cuts(self, task: Task) -> list[int]:
        """Returns after which records the journal stood for this task."""
        return self.tasks.get(_bytes(task), [])

    def shown_between(self, after: int, until: int) -> list[int]:
        """Returns which records after `after` up to `until` clients see."""
        return [record.seq for record in self.records[after:until] if record.kind in SHOWN]

    def has_ended(self, seq: int) -> bool:
        """Whether the task has ended with so many records."""
        return self.states[min(seq, len(self.records))] in TERMINAL


def _bytes(task: Task) -> bytes:
    return task.SerializeToString(deterministic=True)


class Checks:
    """All checks of one run."""

    def __init__(self, ledger: Ledger, database: Database, dead: set[str]) -> None:
        """Folds all journals."""
        self._ledger = ledger
        self._database = database
        self._dead = dead
        self._histories = {row.task_id: History(database.records_of(row.task_id), row) for row in database.rows()}
        self._check = ledger.check

    def is_abandoned(self, task_id: str) -> bool:
        """Whether a task is owned by a dead node, and nobody takes it over."""
        history = self._histories.get(task_id)
        return not switches.TAKE_OVER and history is not None and history.row.node in self._dead

    # -- the journal

    def journals(self) -> None:
        """Each task's records, row, snapshot and inbox."""
        for task_id, history in self._histories.items():
            for fault in history.faults:
                self._check(False, f'{task_id}: {fault}')
            self._row(task_id, history)
            waiting = self._database.inbox(task_id)
            if waiting and not self.is_abandoned(task_id):
                self._check(False, f'{task_id}: {waiting} wait for nobody')

    def _row(self, task_id: str, history: History) -> None:
        row, task, length = history.row, history.final, len(history.records)
        self._check(row.seq == length, f'{task_id}: the row is at {row.seq}, the last record is {length}')
        if task is None:
            self._check(False, f'{task_id}: no record creates the task')
            return
        self._check(row.state == task.status.state, f'{task_id}: the row is {row.state}, the task {task.status.state}')
        self._check(row.status_time == status_micros(task.status.timestamp), f'{task_id}: the row has another time')
        stored = self._database.folded(task_id)
        self._check(stored == task, f'{task_id}: snapshot and rest differ from the fold of all records')
        if self.is_abandoned(task_id):
            return
        self._check(row.node is None, f'{task_id} is still owned by {row.node}')
        self._check(row.open_turn is None, f'{task_id} has still the open turn {row.open_turn}')
        rests = row.state in TERMINAL | INTERRUPTED
        self._check(rests, f'{task_id} is left as {name_of(row.state)}: it neither ended nor waits')

    # -- messages

    def messages(self) -> None:
        """Each message is started once at most, or refused; and is in the history once if it was started."""
        for sent in self._ledger.messages.values():
            self._message(sent)

    def _message(self, sent: Sent) -> None:
        name, runs = sent.message_id, len(sent.executions)
        self._check(runs <= switches.MESSAGE_RUNS, f'{name} is executed {runs} times')
        turns = [task_id for task_id, history in self._histories.items() if name in history.turns]
        self._check(len(turns) <= 1, f'{name} is started in {turns}')
        if turns:
            final = self._histories[turns[0]].final
            times = 0 if final is None else sum(message.message_id == name for message in final.history)
            self._check(times == 1, f'{name} is {times} times in the history of {turns[0]}')
        refused = [report for report in self._reports(name) if _is_refusal(report)]
        if refused and sent.task_id:
            self._check(not turns and not runs, f'{name} is refused, and started: {refused[0].error!r}')
        queued = self._database.queued.get(name)
        if queued is not None and not turns and not self.is_abandoned(queued):
            ended = self._histories[queued].has_ended(len(self._histories[queued].records))
            self._check(ended, f'{name} waited for {queued}, and was neither started nor refused')

    def _reports(self, message_id: str) -> Iterator[Report]:
        for report in self._ledger.reports:
            if report.message is not None and report.message.message_id == message_id:
                yield report

    # -- what agents emitted

    def emissions(self) -> None:
        """What was admitted is recorded, in order and in its turn; what was refused is not."""
        for sent in self._ledger.messages.values():
            for execution in sent.executions:
                history = self._histories.get(execution.task_id)
                recorded = [] if history is None else [tag for tag in history.tags.items() if _is_of(tag[0], sent)]
                lossy = execution.process in self._ledger.doomed_processes
                lossy = lossy or execution.task_id in self._ledger.lossy_tasks
                self._fates(execution.emissions, dict(recorded), lossy=lossy)
                self._order(sent, execution.emissions, recorded, history)
        for task_id, emission in self._ledger.cancel_emissions:
            history = self._histories.get(task_id)
            self._fates([emission], {} if history is None else history.tags, lossy=True)

    def _fates(self, emissions: Sequence[Emission], recorded: dict[str, int], *, lossy: bool) -> None:
        for emission in emissions:
            is_recorded = emission.tag in recorded
            if emission.after_cancel:
                self._check(not is_recorded, f'{emission.tag} is recorded, of an agent that had been cancelled')
            if emission.fate in ('refused', 'ended'):
                self._check(not is_recorded, f'{emission.tag} was refused, and is recorded')
            elif emission.fate == 'admitted' and not lossy and 'message>' not in emission.tag:
                self._check(is_recorded, f'{emission.tag} was admitted, and is not recorded')

    def _order(
        self, sent: Sent, emissions: Sequence[Emission], recorded: list[tuple[str, int]], history: History | None
    ) -> None:
        order = [tag for tag, _ in recorded]
        wanted = [emission.tag for emission in emissions if emission.tag in order]
        self._check(order == wanted, f'{order} were emitted as {wanted}')
        if history is not None and recorded:
            start, end = history.turns.get(sent.message_id, (0, None))
            inside = start and all(start < seq and (end is None or seq < end) for _, seq in recorded)
            self._check(inside, f'{order} are recorded outside of the turn of {sent.message_id}')

    # -- what clients were told

    def reports(self) -> None:
        """Each call."""
        for report in self._ledger.reports:
            self._error(report)
            if report.kind in ('stream', 'subscribe'):
                self._stream(report)
            else:
                for told in report.told:
                    self._told_task(report, told)
            if report.ending == 'answered' and report.message is not None and report.told:
                self._answer(report, report.message, report.told[0])

    def _told_task(self, report: Report, told: Told) -> None:
        if not isinstance(told.what, Task):
            return
        history = self._histories.get(told.what.id)
        cuts = [] if history is None else [cut for cut in history.cuts(told.what) if cut <= told.durable]
        self._check(cuts, lambda: f'{report} is told what was not durable: {_short(told.what)}')
        if history is None or not cuts:
            return
        self._check(history.row.scope.owner == report.owner, f'{report} is told of a task of another owner')
        self._check(cuts[-1] >= report.begun or report.kind == 'list', f'{report} is told what was old when it began')
        if report.kind == 'cancel':
            self._check(name_of(told.what.status.state) == 'TASK_STATE_CANCELED', f'{report} returns another state')

    def _answer(self, report: Report, sent: Sent, told: Told) -> None:
        """An answer is about the message: its turn had begun, and had come to an end if the sender waited for that."""
        if not isinstance(told.what, Task):
            replied = any(execution.replied for execution in sent.executions)
            self._check(replied, f'{report} is answered with a Message that nobody emitted')
            return
        history = self._histories.get(told.what.id)
        if history is None:
            return
        cuts = [cut for cut in history.cuts(told.what) if cut <= told.durable]
        start, end = history.turns.get(sent.message_id, (0, None))
        if report.kind == 'immediately' and sent.task_id:
            return
        self._check(start, f'{report} is answered, and {sent.message_id} was never started')
        self._check(any(cut >= start for cut in cuts), f'{report} is answered with the task before its turn')
        if report.kind == 'immediately' or not start:
            return
        state = told.what.status.state
        over = state in TERMINAL | INTERRUPTED or (end is not None and any(cut >= end for cut in cuts))
        self._check(over, f'{report} is answered in the middle of its turn')
        later = min((other for other, _ in history.turns.values() if other > start), default=len(history.records) + 1)
        self._check(any(cut < later for cut in cuts), f'{report} is answered with what a later turn did')

    def _stream(self, report: Report) -> None:
        items = [told.what for told in report.told if isinstance(told.what, Shown)]
        if not items or items[0].kind == 'message':
            self._end_of_empty_stream(report, items)
            return
        history = self._histories.get(report.task_id)
        if history is None:
            self._check(False, f'{report} shows a task that is not in the journal')
            return
        self._check(history.row.scope.owner == report.owner, f'{report} is told of a task of another owner')
        seqs = [item.seq or 0 for item in items]
        for told in report.told:
            seq = told.what.seq if isinstance(told.what, Shown) else None
            self._check(seq is not None and seq <= told.durable, f'{report} is shown {seq}, durable was {told.durable}')
        first = report.after if report.after is not None and items[0].kind != 'task' else seqs[0]
        start = items if items[0].kind != 'task' else items[1:]
        if items[0].kind == 'task':
            cuts = history.cuts(Task.FromString(items[0].body))
            self._check(seqs[0] in cuts, f'{report} begins with a task that is not that of record {seqs[0]}')
        self._gaps(report, history, first, start)
        if report.ending == 'ended':
            self._end_of_stream(report, history, seqs[-1])

    def _gaps(self, report: Report, history: History, after: int, items: Sequence[Shown]) -> None:
        seqs = [item.seq or 0 for item in items]
        wanted = history.shown_between(after, seqs[-1] if seqs else after)
        self._check(seqs == wanted, f'{report} is shown {seqs} after {after}, the journal has {wanted}')
        for item in items:
            if item.seq is not None and 0 < item.seq <= len(history.records):
                same = history.records[item.seq - 1].body[1:] == item.body
                self._check(same, f'{report} is shown something else than record {item.seq}')
        self._check(all(one < next_one for one, next_one in pairwise(seqs)), f'{report} is shown {seqs}')

    def _end_of_empty_stream(self, report: Report, items: Sequence[Shown]) -> None:
        if report.ending != 'ended' or items:
            return
        history = self._histories.get(report.task_id)
        allowed = report.after is not None and history is not None and history.has_ended(report.ended_with)
        self._check(allowed or report.was_closing, f'{report} ends without having shown anything')

    def _end_of_stream(self, report: Report, history: History, last: int) -> None:
        """A stream that ended by itself has shown all that there is: up to the turn's end, or the task's."""
        if report.kind == 'subscribe':
            complete = history.has_ended(last) and not history.shown_between(last, len(history.records))
            self._check(complete or report.was_closing, f'{report} ends at {last}, before the end of the task')
            return
        assert report.message is not None
        _, end = history.turns.get(report.message.message_id, (0, None))
        complete = history.has_ended(last) or (end is not None and not history.shown_between(last, end))
        self._check(complete, f'{report} ends at {last}, before the end of its turn')

    # -- errors

    def _error(self, report: Report) -> None:
        error = report.error
        if error is None:
            return
        self._check(isinstance(error, A2AError | AgentError), f'{report} fails with {error!r}')
        if isinstance(error, InternalError):
            excused = self._ledger.troubled or self._was_interrupted(report)
            self._check(excused, f'{report} fails without trouble: {error!r}')
            return
        if '<' in str(error) or (report.message is not None and report.message.message_id in str(error)):
            self._agents_error(report)
            return
        self._wrong_refusal(report, error)

    def _was_interrupted(self, report: Report) -> bool:
        return not isinstance(report.error, TemporaryError) and report.message is not None

    def _agents_error(self, report: Report) -> None:
        """An executor's own error reaches the sender when its failure is durable."""
        if report.message is None or report.kind == 'stream':
            return
        task_id = report.task_id or next(
            (task_id for task_id, history in self._histories.items() if report.message.message_id in history.turns), ''
        )
        history = self._histories.get(task_id)
        if history is not None and report.kind == 'blocking' and isinstance(report.error, AgentError):
            failed = FAILED in history.states[: self._known_at_end(report, task_id) + 1]
            self._check(failed, f'{report} raises {report.error!r} before FAILED is durable')

    def _known_at_end(self, report: Report, task_id: str) -> int:
        return report.ended_with if report.task_id else len(self._histories[task_id].records)

    def _wrong_refusal(self, report: Report, error: BaseException) -> None:
        history = self._histories.get(report.task_id)
        ended = history is not None and history.has_ended(report.ended_with)
        match error:
            case TaskNotFoundError():
                theirs = history is None or history.row.scope.owner != report.owner
                self._check(theirs or not report.begun, f'{report}: not found, and it was there')
            case TaskNotCancelableError() if 'belongs to another process' in str(error):
                self._check(not switches.REMOTE_CANCEL, f'{report}: {error}')
            case TaskNotCancelableError():
                self._check(ended, f'{report}: {error}, but it has not ended')
            case UnsupportedOperationError() if 'Too many messages' in str(error):
                pass
            case UnsupportedOperationError():
                self._check(ended, f'{report}: {error}, but it has not ended')
            case InvalidParamsError():
                self._check(False, f'{report}: {error}')


def _is_of(tag: str, sent: Sent) -> bool:
    return tag.startswith(f'<{sent.message_id} ')


def _is_refusal(report: Report) -> bool:
    """Whether a follow-up was refused for good by the engine, as opposed to the agent."""
    if not isinstance(report.error, UnsupportedOperationError | TaskNotFoundError | InvalidParamsError):
        return False
    return report.message is not None and report.message.message_id not in str(report.error)


def _short(value: object) -> str:
    return ' '.join(str(value).split())[:200]


def check_all(ledger: Ledger, database: Database, dead: set[str]) -> None:
    """Checks a run that is over."""
    checks = Checks(ledger, database, dead)
    checks.journals()
    checks.messages()
    checks.emissions()
    checks.reports()


def note_open_calls(ledger: Ledger, database: Database, dead: set[str]) -> None:
    """Checks that no call waits that could have ended by now."""
    rows = {row.task_id: row for row in database.rows()}
    checks = Checks(ledger, database, dead)
    for report in ledger.reports:
        if report.ending != 'open':
            continue
        task_id = report.task_id or _task_of(report, database)
        row = rows.get(task_id)
        waits = row is not None and row.state not in TERMINAL and report.kind == 'subscribe'
        ledger.check(waits or checks.is_abandoned(task_id), f'{report} to {report.process} never ends')


def _task_of(report: Report, database: Database) -> str:
    """Returns the task that a message has begun."""
    for task_id in database.task_ids:
        if report.message is not None and any(execution.task_id == task_id for execution in report.message.executions):
            return task_id
    return ''


def _only_signs_of_life(commits: CommitLoop) -> bool:
    """Whether all that is being written is that the node lives, which one that watches others says now and then."""
    batch = commits._underway  # noqa: SLF001 - nobody else sees it
    waits = commits._dirty or commits._requests  # noqa: SLF001
    return not waits and batch is not None and not (batch.group.appends or batch.group.writes)


def left_in_memory(process: Process) -> list[str]:
    """Returns what is left of the work of a process, which should be nothing when it rests."""
    session = process.session
    if session is None:
        return []
    left = [f'{live.writer.task_id} in its registry' for live in session.registry]
    if not session.commits.is_idle and not _only_signs_of_life(session.commits):
        left.append('something to write')
    left += [f'a message for {task_id}' for task_id in session.waiting]
    recovery = session.recovery
    left += [f'{task_id} to recover' for task_id in (*recovery._lost, *recovery._closing)]  # noqa: SLF001
    left += [f'the errand {task.get_name()}' for task in session.background.errands]
    return left

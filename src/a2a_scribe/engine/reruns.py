"""Executing a message again because an operator asks for it: what the agent did last stays, and it begins anew.

The process that works on the task gives up the attempt under way and records the next one; where that process has
died, its heir executes the message again instead of what its policy says.
"""

from a2a_scribe.core.records import RerunAsked, decode_rerun
from a2a_scribe.engine.cancels import stop_agent
from a2a_scribe.engine.session import Session
from a2a_scribe.engine.stops import STOPPED_TEXT
from a2a_scribe.engine.turn import Turn
from a2a_scribe.errors import JournalUnavailableError
from a2a_scribe.journal.port import WaitingAsk
from a2a_scribe.protocol.states import FAILED, TERMINAL


def run_again(session: Session, waiting: WaitingAsk) -> None:
    """Begins another attempt at a turn that is at work here; does nothing if that is not the one that was meant."""
    live = session.registry.get(waiting.task_id)
    asked = decode_rerun(waiting.body)
    if live is None or live.turn is None or live.cancelling is not None or asked is None:
        return
    turn = live.turn
    is_at_work = turn.task is not None and not turn.ended and not turn.cancelling
    if is_at_work and _is_meant(turn, asked) and turn.writer.state not in TERMINAL:
        turn.revoke()
        session.background.spawn(_run_again(session, turn), f'rerun of {waiting.task_id}')


def _is_meant(turn: Turn, asked: RerunAsked) -> bool:
    return (turn.turn_id, turn.started.attempt) == (asked.turn_id, asked.attempt)


async def _run_again(session: Session, turn: Turn) -> None:
    await stop_agent(session, turn)
    if not session.accepting:
        session.runner.stop(turn, 'interrupted', FAILED, STOPPED_TEXT)
        return
    try:
        session.starts.again(turn, 'operator')
    except JournalUnavailableError:
        return  # the loss has been reported already

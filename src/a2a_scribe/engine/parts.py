"""What an engine is made of, whatever loop it runs on."""

from collections.abc import Callable
from dataclasses import dataclass

from a2a_scribe.clock import Clock
from a2a_scribe.engine.deliveries import Deliver
from a2a_scribe.engine.orders import AfterCrash, Agent
from a2a_scribe.ids import IdSource
from a2a_scribe.journal.port import Journal
from a2a_scribe.settings import Settings
from a2a_scribe.signals import Signals


@dataclass(frozen=True, slots=True)
class Parts:
    """What an engine is made of, whatever loop it runs on."""

    agent: Agent
    journal: Journal
    agent_name: str
    node_name: str
    settings: Settings
    clock: Clock
    ids: IdSource
    signals: Signals
    on_turn: Callable[[str, int], None]
    """Hears of every turn that starts here: task id, and the record before the turn's first."""
    after_crash: AfterCrash | None = None
    """Decides what becomes of a turn whose server died, in place of the setting."""
    deliver: Deliver | None = None
    """Starts the delivery of webhooks from the journal, if there is to be one."""

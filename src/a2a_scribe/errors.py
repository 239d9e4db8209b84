"""Everything that a2a-scribe raises on its own account, sorted by whose fault it is.

Errors that the A2A specification defines (`TaskNotFoundError`, `InvalidParamsError`, ...) are those of `a2a-sdk`; the
tree here is for what the specification has no word for. The handler turns the second into the first in one place.
"""


class ScribeError(Exception):
    """Something went wrong in a2a-scribe."""

    def __init__(self, message: str | None = None) -> None:
        """Uses the class docstring's first line when no message is given."""
        default = (type(self).__doc__ or '').partition('\n')[0]
        super().__init__(message or default)


class CallerError(ScribeError):
    """The caller asked for something that cannot be done."""


class CallerGoneError(CallerError):
    """Nobody waits for the answer any more."""


class TaskConflictError(CallerError):
    """The task cannot be replaced now: a turn is open, it has ended, or it is another owner's."""


class AgentFault(ScribeError):
    """The agent broke a rule of the protocol."""


class TurnEndedError(AgentFault):
    """The turn of this queue has ended: what is enqueued now is recorded nowhere."""


class DeadlineError(AgentFault):
    """The agent took longer than it may."""


class TurnTimeoutError(DeadlineError):
    """The turn took longer than `turn_timeout`."""


class InactivityTimeoutError(DeadlineError):
    """The agent emitted nothing for `inactivity_timeout`."""


class OperatorError(ScribeError):
    """The server is set up wrongly."""


class SettingsError(OperatorError):
    """A setting has a value that cannot be used."""


class SchemaError(OperatorError):
    """The database has no schema for a2a-scribe, or one made by a newer version."""


class OverloadedError(ScribeError):
    """The server has as much to do as it may; try again later."""


class EnvironmentFault(ScribeError):
    """Something that the server depends on failed."""


class JournalUnavailableError(EnvironmentFault):
    """The journal cannot be written or read now; try again later."""


class JournalBusyError(JournalUnavailableError):
    """Another process holds the lock of the journal; try again."""


class JournalRefusedError(EnvironmentFault):
    """The journal refused these records, and would refuse them again."""


class NodeFencedError(EnvironmentFault):
    """Other nodes declared this node dead; it may not write under its old id any more."""

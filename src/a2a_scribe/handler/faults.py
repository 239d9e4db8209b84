"""Our errors as A2A's: the one place where the handler turns one into the other.

What an operator or the environment did wrong is told to clients as an internal error without details; whether trying
again can help is in its data.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from a2a.utils.errors import A2AError, InternalError, InvalidParamsError, UnsupportedOperationError

from a2a_scribe.errors import (
    AgentFault,
    CallerError,
    CallerGoneError,
    DeadlineError,
    EnvironmentFault,
    JournalUnavailableError,
    OperatorError,
    OverloadedError,
    ScribeError,
    TaskConflictError,
)
from a2a_scribe.protocol.faults import BusyError, TemporaryError

logger = logging.getLogger(__name__)


def as_a2a_error(error: ScribeError) -> A2AError:
    """Returns what clients are told of an error of ours."""
    match error:
        case JournalUnavailableError():
            return TemporaryError()
        case OverloadedError():
            return BusyError()
        case TaskConflictError():
            return UnsupportedOperationError(str(error))
        case CallerError():
            return InvalidParamsError(str(error))
        case DeadlineError():
            return InternalError(str(error))
        case AgentFault():
            return InternalError('The agent broke a rule of the protocol.')
        case _:
            return InternalError('The service cannot do this now.')


@contextmanager
def a2a_errors() -> Iterator[None]:
    """Lets only errors of A2A out, and that the caller has gone away."""
    try:
        yield
    except CallerGoneError:
        raise
    except ScribeError as error:
        if isinstance(error, EnvironmentFault | OperatorError):
            logger.error('A request failed: %s', error)  # noqa: TRY400 - one line for each request is enough
        raise as_a2a_error(error) from error

"""What differs between the versions of the protocol on every binding; the operations themselves differ by tables."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from a2a.utils.errors import (
    A2AError,
    ExtensionSupportRequiredError,
    InvalidRequestError,
    VersionNotSupportedError,
)

from a2a_scribe.protocol.service_parameters import (
    EXTENSIONS,
    OLD_EXTENSIONS,
    SUPPORTED_VERSION,
    UNNAMED_VERSION,
    VERSION,
)
from a2a_scribe.transport.sse import BLOCKS, LINES, Between

LATER: Final = (ExtensionSupportRequiredError, VersionNotSupportedError)
"""Errors that came after version 0.3."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """One version, as a client speaks it."""

    version: str
    extensions: str
    """The header that names extensions."""
    told: Callable[[A2AError], A2AError]
    """Makes of an error one that the version knows."""
    between: Between
    """What streams say that is no event."""
    streams_errors: bool
    """Whether JSON-RPC answers a request for a stream by one, also when all that it says is an error."""

    @property
    def is_old(self) -> bool:
        """Whether this is version 0.3."""
        return self.version == UNNAMED_VERSION

    @property
    def hint(self) -> str:
        """What is said to a client that asks for what there is not, in case that it only forgot its version."""
        return f' in version {self.version}; for {SUPPORTED_VERSION} send {VERSION}' if self.is_old else ''


def as_old_error(error: A2AError) -> A2AError:
    """Returns an error that version 0.3 knows: what came later is about requests that it would not take either."""
    return InvalidRequestError(error.message, error.data) if isinstance(error, LATER) else error


CURRENT: Final = Dialect(SUPPORTED_VERSION, EXTENSIONS, lambda error: error, BLOCKS, streams_errors=False)
OLD: Final = Dialect(UNNAMED_VERSION, OLD_EXTENSIONS, as_old_error, LINES, streams_errors=True)

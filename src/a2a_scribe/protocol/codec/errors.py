"""What the codec raises: one error for each direction."""

from a2a_scribe.errors import AgentFault, CallerError


class InvalidJsonError(CallerError):
    """The JSON is not what the message type asks for."""

    def __init__(self, field: str, reason: str) -> None:
        """Names the member by its path of camelCase names and indices, empty for the whole, and what it must be."""
        super().__init__(f'{field}: {reason}' if field else reason)
        self.field = field
        self.reason = reason

    def within(self, outer: str) -> 'InvalidJsonError':
        """Returns the same error as seen from outside `outer`, a member's name or an index in brackets."""
        joint = '.' if self.field and not self.field.startswith('[') else ''
        return InvalidJsonError(f'{outer}{joint}{self.field}', self.reason)


class UnencodableError(AgentFault, ValueError):
    """The message holds a value that JSON cannot express."""

"""For programs that call agents: a reader of streams that goes on where a connection broke."""

from a2a_scribe.client.backoff import Backoff
from a2a_scribe.client.breaks import NotResumableError, StreamEndedError
from a2a_scribe.client.following import follow
from a2a_scribe.client.reader import Followed

__all__ = ['Backoff', 'Followed', 'NotResumableError', 'StreamEndedError', 'follow']

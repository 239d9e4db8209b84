"""Page tokens of ListTasks (A2A 1.0, section 3.1.4).

A token carries the position of the last task shown, status time and id, so it survives updates and deletions of that
task.
"""

import base64
import binascii
import json
from typing import NamedTuple

from a2a_scribe.protocol.faults import InvalidFieldError

DEFAULT_PAGE_SIZE = 50
MAX_PAGE_SIZE = 100


class PagePosition(NamedTuple):
    """Where a page ended: status time in microseconds, task id."""

    status_time: int
    task_id: str


def encode_token(position: PagePosition) -> str:
    """Returns an opaque token for what follows `position`."""
    text = json.dumps([position.status_time, position.task_id], separators=(',', ':'))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip('=')


def decode_token(token: str) -> PagePosition | None:
    """Returns the position of a token, `None` for the empty token of a first page.

    Raises:
        InvalidParamsError: The token is not one of ours.
    """
    if not token:
        return None
    try:
        padded = token.encode('ascii') + b'=' * (-len(token) % 4)
        value = json.loads(base64.b64decode(padded, altchars=b'-_', validate=True))
        status_time, task_id = value
    except (binascii.Error, ValueError, TypeError, RecursionError):
        raise InvalidFieldError('pageToken', 'is not valid') from None
    if type(status_time) is not int or not -(2**63) <= status_time < 2**63:
        raise InvalidFieldError('pageToken', 'is not valid')
    if not isinstance(task_id, str) or not _can_be_asked_for(task_id):
        raise InvalidFieldError('pageToken', 'is not valid')
    return PagePosition(status_time, task_id)


def _can_be_asked_for(task_id: str) -> bool:
    """Whether every database takes the text as a parameter."""
    return '\0' not in task_id and task_id.encode('utf-8', 'ignore').decode() == task_id

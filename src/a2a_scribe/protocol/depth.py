"""How deep messages may be nested: what is taken in has to be readable wherever it lies in an answer later.

Protobuf reads a hundred levels and no more, and an answer adds some to those of an event.
"""

from typing import Final

from a2a.types.a2a_pb2 import ListTasksResponse, StreamResponse, Task, TaskStatus
from google.protobuf.message import DecodeError

from a2a_scribe.protocol.codec.errors import UnencodableError
from a2a_scribe.protocol.codec.wire import DELIMITED, delimited, tag, varint

FLAT: Final = 180
"""Bytes that cannot be nested too deeply: each level takes two."""


def _within(name: str, kind: type[StreamResponse | ListTasksResponse | Task | TaskStatus]) -> bytes:
    return varint(tag(kind.DESCRIPTOR.fields_by_name[name].number, DELIMITED))


IN_TASKS: Final = _within('tasks', ListTasksResponse)
IN_STATUS: Final = _within('status', Task)
IN_MESSAGE: Final = _within('message', TaskStatus)
IN_STREAM: Final = {kind: _within(kind, StreamResponse) for kind in ('task', 'status_update', 'artifact_update')}


def check_depth(data: bytes, kind: str) -> None:
    """Refuses an event in binary form, named by its member of a `StreamResponse`, that is nested too deeply.

    Raises:
        UnencodableError: It is.
    """
    if len(data) <= FLAT:
        return
    try:
        if kind == 'message':
            ListTasksResponse.FromString(delimited(IN_TASKS, delimited(IN_STATUS, delimited(IN_MESSAGE, data))))
        else:
            StreamResponse.FromString(delimited(IN_STREAM[kind], data))
    except DecodeError:
        raise UnencodableError('The message is nested too deeply.') from None

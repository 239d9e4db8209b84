"""How large the parts of a request may be, and what of a task an answer shows: the settings that bound both.

Called by the operations of the handler, before anything is looked up or done.
"""

from typing import Any

from a2a.types.a2a_pb2 import CancelTaskRequest

from a2a_scribe.core.records import Shown
from a2a_scribe.core.views import limit_history
from a2a_scribe.protocol.faults import InvalidFieldError, TooLargeFieldError
from a2a_scribe.protocol.paging import DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE
from a2a_scribe.protocol.types import ListTasksRequest, SendMessageRequest, Task
from a2a_scribe.settings import Settings


def check_message(params: SendMessageRequest, settings: Settings) -> None:
    """Refuses a message with too many parts, or a request with too much metadata. Raises: TooLargeFieldError."""
    message = params.message
    if len(message.parts) > settings.message_parts:
        raise TooLargeFieldError(
            'message.parts', f'are {len(message.parts)}, the limit is {settings.message_parts} (message_parts)'
        )
    size = _metadata_bytes(params) + _metadata_bytes(message) + sum(map(_metadata_bytes, message.parts))
    _check_metadata('message.metadata' if message.HasField('metadata') else 'metadata', size, settings)


def check_cancel(params: CancelTaskRequest, settings: Settings) -> None:
    """Refuses a cancel with too much metadata. Raises: TooLargeFieldError."""
    _check_metadata('metadata', _metadata_bytes(params), settings)


def bounded_page(params: ListTasksRequest, settings: Settings) -> ListTasksRequest:
    """Returns the query with the size of its page.

    Raises:
        InvalidFieldError: The client asks for a larger page than it may.
    """
    most = min(settings.page_size, MAX_PAGE_SIZE)
    if params.page_size > most:
        raise InvalidFieldError('pageSize', f'must be 1 to {most} (page_size)')
    bounded = ListTasksRequest()
    bounded.CopyFrom(params)
    bounded.page_size = params.page_size or min(DEFAULT_PAGE_SIZE, most)
    return bounded


def history_length(asked: int | None, settings: Settings) -> int | None:
    """Returns how many messages of a history are shown to who asked for `asked`; `None` stands for all."""
    if settings.history_messages is None:
        return asked
    return settings.history_messages if asked is None else min(asked, settings.history_messages)


def shown(task: Task, settings: Settings, asked: int | None = None) -> Task:
    """Keeps of a task's history what is shown. Changes and returns `task`."""
    return limit_history(task, history_length(asked, settings))


def shown_event(item: Shown, length: int | None) -> Shown:
    """Returns an event with no more of a history than `length` messages."""
    if item.kind != 'task' or length is None:
        return item
    return item._replace(body=limit_history(Task.FromString(item.body), length).SerializeToString())


def _metadata_bytes(holder: Any) -> int:
    size: int = holder.metadata.ByteSize() if holder.HasField('metadata') else 0
    return size


def _check_metadata(field: str, size: int, settings: Settings) -> None:
    if size > settings.metadata_bytes:
        raise TooLargeFieldError(field, f'has {size} bytes, the limit is {settings.metadata_bytes} (metadata_bytes)')

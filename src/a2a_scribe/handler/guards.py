"""Checks of requests, before anything is looked up or done (A2A 1.0, sections 3.3.2, 3.3.4 and 5.7).

Each raises the error of the specification and names the field; a request that passes has been changed in nothing.
"""

from collections.abc import Awaitable, Callable

from a2a.types.a2a_pb2 import AgentCard
from a2a.utils.errors import (
    ContentTypeNotSupportedError,
    PushNotificationNotSupportedError,
    UnsupportedOperationError,
)
from google.protobuf.message import Message as ProtoMessage

from a2a_scribe.protocol.depth import check_depth
from a2a_scribe.protocol.faults import InvalidFieldError, InvalidFieldsError, TooLargeFieldError, Violation
from a2a_scribe.protocol.ids import MAX_ID_LENGTH, has_unusable_characters
from a2a_scribe.protocol.json import UnencodableError, check_numbers
from a2a_scribe.protocol.paging import MAX_PAGE_SIZE
from a2a_scribe.protocol.required import MISSING, missing_fields
from a2a_scribe.protocol.states import KNOWN
from a2a_scribe.protocol.types import (
    ListTasksRequest,
    Message,
    Role,
    SendMessageRequest,
    TaskPushNotificationConfig,
)
from a2a_scribe.push.targets import TargetRefusedError, Targets

LAST_SECOND = 253_402_300_799
"""The end of the year 9999, the last moment of a protobuf timestamp."""

MAX_REFERENCES = 100
"""Tasks that one message may refer to: each is read for the agent."""

UrlValidator = Callable[[str], Awaitable[bool]]


def check_required(params: ProtoMessage) -> None:
    """Refuses a request that lacks required fields. Raises: InvalidFieldsError."""
    if missing := missing_fields(params):
        raise InvalidFieldsError([Violation(path, MISSING) for path in missing])


def check_send(params: SendMessageRequest) -> None:
    """Refuses a message that lacks a required field, or whose ids or numbers are out of bounds.

    Raises:
        InvalidParamsError: Names the field.
    """
    message, configuration = params.message, params.configuration
    check_required(params)
    if message.role != Role.ROLE_USER:
        raise InvalidFieldError('message.role', 'must be ROLE_USER')
    for index, part in enumerate(message.parts):
        if part.WhichOneof('content') is None:
            raise InvalidFieldError(f'message.parts[{index}]', 'has no content: one of text, raw, url, data')
    check_writable('message', message)
    check_id('message.messageId', message.message_id)
    if message.task_id:
        check_id('message.taskId', message.task_id)
    if message.context_id:
        check_id('message.contextId', message.context_id)
    if configuration.HasField('history_length'):
        check_history_length('configuration.historyLength', configuration.history_length)
    if len(message.reference_task_ids) > MAX_REFERENCES:
        raise InvalidFieldError('message.referenceTaskIds', f'must not name more than {MAX_REFERENCES} tasks')


def check_size(field: str, value: ProtoMessage, limit: int) -> None:
    """Refuses what has more than `limit` bytes, the setting `event_bytes`. Raises: InvalidParamsError."""
    size = value.ByteSize()
    if size > limit:
        raise TooLargeFieldError(field, f'has {size} bytes, the limit is {limit} (event_bytes)')


def check_writable(field: str, value: ProtoMessage) -> None:
    """Refuses numbers that only protobuf can hold, and what is nested too deeply. Raises: InvalidParamsError."""
    data = value.SerializeToString()
    try:
        check_numbers(data, type(value))
    except UnencodableError:
        raise InvalidFieldError(field, 'must not have numbers that are not finite') from None
    try:
        check_depth(data, 'message')
    except UnencodableError:
        raise InvalidFieldError(field, 'is nested too deeply') from None


def check_id(field: str, value: str) -> None:
    """Refuses an id that is empty, too long, or has characters that cannot be stored. Raises: InvalidParamsError."""
    if not value or len(value) > MAX_ID_LENGTH:
        raise InvalidFieldError(field, f'must have 1 to {MAX_ID_LENGTH} characters')
    if has_unusable_characters(value):
        raise InvalidFieldError(field, 'must not have control characters or halves of characters')


def check_history_length(field: str, value: int) -> None:
    """Refuses a negative history length (section 3.2.4). Raises: InvalidParamsError."""
    if value < 0:
        raise InvalidFieldError(field, 'must not be negative')


def check_list(params: ListTasksRequest) -> None:
    """Refuses a page size or history length out of bounds (section 3.1.4). Raises: InvalidParamsError."""
    if params.HasField('history_length'):
        check_history_length('historyLength', params.history_length)
    if params.HasField('page_size'):
        check_page_size(params.page_size)
    if params.context_id:
        check_id('contextId', params.context_id)
    if params.status and params.status not in KNOWN:
        raise InvalidFieldError('status', 'is not a state of a task')
    if abs(params.status_timestamp_after.seconds) > LAST_SECOND:
        raise InvalidFieldError('statusTimestampAfter', 'is out of range')


def check_page_size(value: int) -> None:
    """Refuses a page size out of bounds (section 3.1.4). Raises: InvalidParamsError."""
    if not 1 <= value <= MAX_PAGE_SIZE:
        raise InvalidFieldError('pageSize', f'must be 1 to {MAX_PAGE_SIZE}')


def check_streaming(card: AgentCard) -> None:
    """Refuses streams that the card does not declare. Raises: UnsupportedOperationError."""
    if not card.capabilities.streaming:
        raise UnsupportedOperationError('Streaming is not supported by the agent')


def check_push(card: AgentCard) -> None:
    """Refuses push configs that the card does not declare. Raises: PushNotificationNotSupportedError."""
    if not card.capabilities.push_notifications:
        raise PushNotificationNotSupportedError('Push notifications are not supported by the agent')


def check_input_modes(message: Message, card: AgentCard) -> None:
    """Refuses media types that neither the card nor any of its skills declares (section 3.1.1).

    A card that declares none takes all; so does a part that does not say its type.

    Raises:
        ContentTypeNotSupportedError: Names the media type.
    """
    declared = set(card.default_input_modes).union(*(skill.input_modes for skill in card.skills))
    for part in message.parts:
        if declared and part.media_type and not any(_covers(mode, part.media_type) for mode in declared):
            supported = ', '.join(sorted(declared))
            raise ContentTypeNotSupportedError(
                f'Media type {part.media_type[:80]} is not supported; supported: {supported}'
            )


def _covers(mode: str, media_type: str) -> bool:
    """Whether a declared input mode, a type or a range of them, covers a media type; `text` is short for `text/*`."""
    wanted = media_type.partition(';')[0].strip().lower()
    offered = mode.partition(';')[0].strip().lower()
    kind, _, name = offered.partition('/')
    return offered in (wanted, '*/*', '*') or (name in ('', '*') and wanted.partition('/')[0] == kind)


async def check_config(
    path: str, config: TaskPushNotificationConfig, targets: Targets, validator: UrlValidator | None
) -> None:
    """Refuses a push config, which stands at `path` of its request, that cannot or may not be delivered to.

    Raises:
        InvalidParamsError: Names the field.
    """
    if not config.url:
        raise InvalidFieldError(f'{path}url', 'is empty')
    if config.id:
        check_id(f'{path}id', config.id)
    authentication = config.authentication
    for field, value in (
        ('url', config.url),
        ('token', config.token),
        ('authentication.scheme', authentication.scheme),
        ('authentication.credentials', authentication.credentials),
    ):
        if has_unusable_characters(value):
            raise InvalidFieldError(f'{path}{field}', 'must not have control characters')
        if value != value.strip():
            raise InvalidFieldError(f'{path}{field}', 'must not begin or end with spaces')
    if config.HasField('authentication') and not authentication.scheme:
        raise InvalidFieldError(f'{path}authentication.scheme', 'is empty')
    try:
        targets.check(config.url)
    except TargetRefusedError as refused:
        raise InvalidFieldError(f'{path}url', refused.reason) from None
    if validator is not None and not await validator(config.url):
        raise InvalidFieldError(f'{path}url', 'is not accepted by the server')

"""Keys of messages: what tells that a message is one that was sent before."""

import hashlib
from collections.abc import Mapping

from a2a.server.context import ServerCallContext

from a2a_scribe.engine.orders import MessageKey
from a2a_scribe.protocol.service_parameters import IDEMPOTENCY_KEY, KEY_IN_STATE, check_idempotency_key
from a2a_scribe.protocol.types import SendMessageRequest

LOWER_CASE = IDEMPOTENCY_KEY.lower()


def key_of(params: SendMessageRequest, context: ServerCallContext, *, message_id_is_key: bool) -> MessageKey | None:
    """Returns the key of a message: from our transport, from the headers of any other, or else its id, if that is one.

    Raises:
        InvalidParamsError: The key that the client gives cannot be used.
    """
    given = _given(context)
    if given is not None:
        check_idempotency_key(given)
        return MessageKey(given, digest_of(params), IDEMPOTENCY_KEY)
    if message_id_is_key:
        return MessageKey(params.message.message_id, digest_of(params), 'message.messageId')
    return None


def _given(context: ServerCallContext) -> str | None:
    if KEY_IN_STATE in context.state:
        return str(context.state[KEY_IN_STATE])
    headers = context.state.get('headers')
    if not headers or not isinstance(headers, Mapping):
        return None
    given = headers.get(LOWER_CASE, headers.get(IDEMPOTENCY_KEY))
    return None if given is None else str(given)


def digest_of(params: SendMessageRequest) -> bytes:
    """Returns what is the same for a message that is sent again: of all but how the answer is to be given.

    The tenant is left out too: it is part of what a key belongs to, and not every binding says it in the request.
    """
    same = SendMessageRequest()
    same.CopyFrom(params)
    same.ClearField('tenant')
    if same.HasField('configuration'):
        same.configuration.ClearField('return_immediately')
        same.configuration.ClearField('history_length')
        if not same.configuration.ByteSize():
            same.ClearField('configuration')
    return hashlib.sha256(same.SerializeToString(deterministic=True)).digest()

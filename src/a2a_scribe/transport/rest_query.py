"""Query parameters as the fields of a request (A2A 1.0, section 11.5).

Names are camelCase, or as in protobuf; values are text, and become what the field's type asks for: strictly, because a
filter that is read as none would show what was not asked for.
"""

import re
from collections.abc import Iterable
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from a2a_scribe.protocol.codec.descriptors import TIMESTAMP, is_repeated
from a2a_scribe.protocol.faults import InvalidFieldError

INTEGER: Final = re.compile(r'-?\d{1,10}', re.ASCII)
BOOLEANS: Final = {'true': True, 'false': False}


def read_query(pairs: Iterable[tuple[str, str]], request: type[Message]) -> dict[str, Any]:
    """Returns the request's fields as JSON has them; names that are no fields of it are ignored.

    Raises:
        InvalidParamsError: A value has the wrong form, or is given twice.
    """
    fields: dict[str, Any] = {
        name: field for field in request.DESCRIPTOR.fields for name in (field.name, field.json_name)
    }
    read: dict[str, Any] = {}
    for name, text in pairs:
        field = fields.get(name)
        if field is None or not _is_flat(field):
            continue
        shown = field.json_name
        if is_repeated(field):
            read.setdefault(shown, []).extend(_value(field, part) for part in text.split(','))
            continue
        if shown in read:
            raise InvalidFieldError(shown, 'must not be given twice')
        if text or field.type == FieldDescriptor.TYPE_STRING:
            read[shown] = _value(field, text)
    return read


def _is_flat(field: FieldDescriptor) -> bool:
    return field.message_type is None or field.message_type.full_name == TIMESTAMP


def _value(field: FieldDescriptor, text: str) -> object:
    if field.type == FieldDescriptor.TYPE_BOOL:
        if text not in BOOLEANS:
            raise InvalidFieldError(field.json_name, 'must be true or false')
        return BOOLEANS[text]
    if field.type == FieldDescriptor.TYPE_INT32:
        if not INTEGER.fullmatch(text):
            raise InvalidFieldError(field.json_name, 'must be an integer')
        return int(text)
    return text

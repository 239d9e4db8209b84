"""The canonical form of JSON (RFC 8785): one text for each value, to be signed."""

import json
from decimal import Decimal
from typing import Any, Final

DECIMAL_ENDS: Final = 21
"""Numbers from ten to this power on are written with an exponent."""
DECIMAL_BEGINS: Final = -6
"""And so are those below ten to this power."""


def canonical_json(value: Any) -> bytes:
    """Returns the canonical text of parsed JSON, without numbers that JSON has not."""
    return _text(value).encode()


def _text(value: Any) -> str:
    match value:
        case dict():
            members = sorted(value.items(), key=lambda member: member[0].encode('utf-16-be'))
            return '{' + ','.join(f'{_text(name)}:{_text(held)}' for name, held in members) + '}'
        case list():
            return '[' + ','.join(map(_text, value)) + ']'
        case bool() | None | str():
            return json.dumps(value, ensure_ascii=False)
    return _number(float(value))


def _number(value: float) -> str:
    """Returns a number as ECMAScript writes it: the fewest digits that mean it."""
    if value == 0:
        return '0'
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    text, point = ''.join(map(str, digits)), len(digits) + exponent
    if not DECIMAL_BEGINS < point <= DECIMAL_ENDS:
        fraction = f'.{text[1:]}' if text[1:] else ''
        shown = f'{text[0]}{fraction}e{point - 1:+d}'
    elif point <= 0:
        shown = f'0.{"0" * -point}{text}'
    elif exponent < 0:
        shown = f'{text[:point]}.{text[point:]}'
    else:
        shown = text + '0' * exponent
    return f'-{shown}' if sign else shown

"""What parsers stumble over: texts, numbers, and JSON that is none."""

import random
import struct
from typing import Any, Final


class Raw(str):
    """Stands in JSON text as it is, though it may be no JSON."""

    __slots__ = ()


class Twice(dict[str, Any]):
    """An object that has its first member twice."""

    __slots__ = ()


TEXTS: Final = (
    '', ' ', 'a', '\0', 'nul\0inside', '\r\n', 'line\nbreak', '\t', '\x7f', '\x85', '\u2028', '\ufeff', '\u202e', 'ü',
    '𝄞', 'e\u0301', '\U0010ffff', '\ufffe', "'", '"', '\\', '%', '%s%n', '{}', '{0.__class__}', '${jndi:ldap://x}',
    '../../etc/passwd', '/', '//', ':', 'a:cancel', '?', '#', '&', '=', ';', ',', '*', "' OR 1=1 --", '<script>',
    'null', 'true', 'NaN', 'Infinity', '-1', '0', '1e5', '0x10', '\u0661', '²', '1_000', '9' * 40,
    'x' * 255, 'x' * 256, 'x' * 5000,
    'ü' * 200, '\0' * 50, 'TASK_STATE_WORKING', 'TASK_STATE_RUNNING', 'ROLE_AGENT', '2025-01-01T00:00:00Z',
    '2025-02-30T00:00:00Z', '0000-01-01T00:00:00Z', '9999-12-31T23:59:59.999999999Z', '10000-01-01T00:00:00Z',
    '2025-01-01T00:00:00+99:99', '2025-01-01T00:00:60Z', 'YQ==', 'YQ', '====', '-_-_', 'http://', 'http://[::1',
    'javascript:1', 'file:///etc/passwd', 'http://169.254.169.254/', 'text/plain; charset=utf-16', 'image/*', '*/*',
)  # fmt: skip
NUMBERS: Final = (
    0, 1, -1, 2, 100, 101, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**53 + 1, 2**63, 2**64, 10**30, 0.0,
    -0.0, 0.5, 1.0, 1.5, 1e-320, 1e300, -1e308,
)  # fmt: skip
DEEP: Final = tuple(
    Raw(opening * depth + inner + closing * depth)
    for opening, inner, closing in (('[', '', ']'), ('{"a":', '1', '}'), ('[{"a":', '1', '}]'))
    for depth in (20, 31, 33, 101, 300, 1100)
)
RAW: Final = (
    *map(
        Raw,
        (
            'NaN', 'Infinity', '-Infinity', '1e400', '-1e400', '1e-400', '-0', '-', '01', '+1', '.5', '1.', '1e', '0x1',
            '1_0', '9' * 400, '1' + '0' * 5000, '0.' + '1' * 5000, '1E+2', 'tru', 'TRUE', 'nul', 'None', 'undefined',
            '-1' + '0' * 400, r'"\ud800"', r'"\udc00\ud800"', '"\ud800"', r'"\u0000"', r'"\u12"', r'"\x41"', r'"\"',
            "'a'", '"a', '"a\tb"', '"a\0b"',
            '[1,]', '{"a":1,}', '{"a" 1}', '{,}', '{1:2}', '{"a":1}{"b":2}', '[[[', '{"a":', '// x', '/**/1', '\ufeff1',
            '', ' ',
        ),
    ),
    *DEEP,
    Raw('[' * 100_000),
)  # fmt: skip
NAMES: Final = (
    'id', 'taskId', 'task_id', 'contextId', 'tenant', 'message', 'parts', 'text', 'raw', 'url', 'data', 'metadata',
    'role', 'status', 'configuration', 'historyLength', 'history_length', 'pageSize', 'kind', 'unknown', '__proto__',
    '__class__', '@type', '', '\0', 'ü',
)  # fmt: skip


def text(chance: random.Random) -> str:
    """Returns a text that somebody has stumbled over, or any; never half a character."""
    if chance.random() < 0.7:
        return chance.choice(TEXTS)
    return ''.join(_character(chance) for _ in range(chance.randrange(8)))


def _character(chance: random.Random) -> str:
    found = chance.choice((chance.randrange(128), chance.randrange(0x110000)))
    return chr(found) if not 0xD800 <= found < 0xE000 else '\ufffd'


def scalar(chance: random.Random) -> Any:
    """Returns a value without members."""
    return chance.choice((text, text, number, lambda _: chance.choice((None, True, False))))(chance)


def number(chance: random.Random) -> float:
    """Returns a number; never one that JSON does not know."""
    if chance.random() < 0.7:
        return chance.choice(NUMBERS)
    found: float = struct.unpack('<d', chance.randbytes(8))[0]
    return found if abs(found) < 1e308 else 0.25


def free(chance: random.Random, depth: int = 3) -> Any:
    """Returns any value that JSON can express."""
    if depth == 0 or chance.random() < 0.5:
        return scalar(chance)
    if chance.random() < 0.5:
        return [free(chance, depth - 1) for _ in range(chance.randrange(4))]
    names = [chance.choice((chance.choice(NAMES), text(chance))) for _ in range(chance.randrange(4))]
    return {name: free(chance, depth - 1) for name in names}


def junk(chance: random.Random) -> Any:
    """Returns what does not belong where it is put."""
    return chance.choice(RAW) if chance.random() < 0.25 else free(chance)

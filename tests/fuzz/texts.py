"""Damage: to JSON before and after it becomes text, and to bytes of any kind."""

import json
import random
from collections.abc import Callable
from typing import Any, Final

from tests.fuzz.values import NAMES, Raw, Twice, junk

STRANGE_BYTES: Final = (
    b'\0', b'\xff', b'\x80', b'\xc0\x80', b'\xed\xa0\x80', b'\xf4\x90\x80\x80', b'\xef\xbb\xbf', b'\xff\xfe', b'\r\n',
    b'"', b'\\', b'{', b'}', b'[', b']', b',', b':', b'1', b' ', b'\\u0000', b'\\ud800',
)  # fmt: skip


def damaged(value: Any, chance: random.Random) -> Any:
    """Returns JSON that is changed in one place."""
    if value and isinstance(value, dict) and chance.random() < 0.85:
        return _damaged_object(dict(value), chance)
    if value and isinstance(value, list) and chance.random() < 0.75:
        index = chance.randrange(len(value))
        return [*value[:index], damaged(value[index], chance), *value[index + 1 :]]
    return chance.choice((junk, junk, junk, lambda _: [value], lambda _: {'value': value}, lambda _: str(value)))(
        chance
    )


def _damaged_object(value: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    name = chance.choice(list(value))
    match chance.randrange(10):
        case 0:
            del value[name]
        case 1:
            value[snake(name)] = value.pop(name)
        case 2:
            value[chance.choice(NAMES)] = junk(chance)
        case 3:
            return Twice({name: value.pop(name), **value})
        case 4:
            value[name] = value[name] * chance.choice((2, 300)) if isinstance(value[name], list) else [value[name]] * 2
        case _:
            value[name] = damaged(value[name], chance)
    return value


def snake(name: str) -> str:
    """Returns a camelCase name as the proto file has it."""
    return ''.join(f'_{letter.lower()}' if letter.isupper() else letter for letter in name)


def to_text(value: Any, *, escaped: bool) -> bytes:
    """Writes JSON, or what was made of it; halves of characters as escapes or as bytes that are no UTF-8."""
    return _write(value, escaped=escaped).encode('utf-8', 'surrogatepass')


def _write(value: Any, *, escaped: bool) -> str:
    match value:
        case Raw():
            return str(value)
        case Twice():
            first = next(iter(value))
            return '{' + ','.join(_member(each, value[each], escaped=escaped) for each in (*value, first)) + '}'
        case dict():
            return '{' + ','.join(_member(name, each, escaped=escaped) for name, each in value.items()) + '}'
        case list():
            return '[' + ','.join(_write(each, escaped=escaped) for each in value) + ']'
        case _:
            return json.dumps(value, ensure_ascii=escaped)


def _member(name: str, value: Any, *, escaped: bool) -> str:
    return f'{json.dumps(name, ensure_ascii=escaped)}:{_write(value, escaped=escaped)}'


def garbled(data: bytes, chance: random.Random) -> bytes:
    """Returns bytes that are changed in one place or a few."""
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        data = chance.choice(CHANGES)(data, chance)
    return data


def _place(data: bytes, chance: random.Random) -> int:
    return chance.randrange(len(data) + 1)


def _cut(data: bytes, chance: random.Random) -> bytes:
    return data[: _place(data, chance)]


def _insert(data: bytes, chance: random.Random) -> bytes:
    place = _place(data, chance)
    return data[:place] + chance.choice((*STRANGE_BYTES, chance.randbytes(3))) + data[place:]


def _replace(data: bytes, chance: random.Random) -> bytes:
    place = _place(data, chance)
    return data[:place] + chance.choice((*STRANGE_BYTES, chance.randbytes(1))) + data[place + 1 :]


def _drop(data: bytes, chance: random.Random) -> bytes:
    place = _place(data, chance)
    return data[:place] + data[place + chance.randrange(1, 9) :]


def _repeat(data: bytes, chance: random.Random) -> bytes:
    start, end = sorted((_place(data, chance), _place(data, chance)))
    return data[:end] + data[start:end] * chance.choice((1, 1, 20)) + data[end:]


def _surround(data: bytes, chance: random.Random) -> bytes:
    return chance.choice(STRANGE_BYTES) + data + chance.choice(STRANGE_BYTES)


def _recode(data: bytes, chance: random.Random) -> bytes:
    return data.decode('utf-8', 'replace').encode(chance.choice(('utf-16', 'utf-32', 'utf-8-sig', 'utf-7')))


CHANGES: Final[tuple[Callable[[bytes, random.Random], bytes], ...]] = (
    _cut, _insert, _insert, _replace, _replace, _replace, _drop, _repeat, _surround, _recode,
)  # fmt: skip

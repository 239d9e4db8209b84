"""The canonical form of JSON, by the examples of RFC 8785."""

import struct

import pytest

from a2a_scribe.protocol.canonical_json import canonical_json

NUMBERS = {
    '0000000000000000': '0',
    '8000000000000000': '0',
    '0000000000000001': '5e-324',
    '8000000000000001': '-5e-324',
    '7fefffffffffffff': '1.7976931348623157e+308',
    'ffefffffffffffff': '-1.7976931348623157e+308',
    '4340000000000000': '9007199254740992',
    'c340000000000000': '-9007199254740992',
    '4430000000000000': '295147905179352830000',
    '44b52d02c7e14af5': '9.999999999999997e+22',
    '44b52d02c7e14af6': '1e+23',
    '44b52d02c7e14af7': '1.0000000000000001e+23',
    '444b1ae4d6e2ef4e': '999999999999999700000',
    '444b1ae4d6e2ef4f': '999999999999999900000',
    '444b1ae4d6e2ef50': '1e+21',
    '3eb0c6f7a0b5ed8c': '9.999999999999997e-7',
    '3eb0c6f7a0b5ed8d': '0.000001',
    '41b3de4355555553': '333333333.3333332',
    '41b3de4355555554': '333333333.33333325',
    '41b3de4355555555': '333333333.3333333',
    'becbf647612f3696': '-0.0000033333333333333333',
    '43143ff3c1cb0959': '1424953923781206.2',
}


@pytest.mark.parametrize(('bits', 'text'), NUMBERS.items())
def test_number_is_written_as_in_ecmascript(bits: str, text: str) -> None:
    (number,) = struct.unpack('>d', bytes.fromhex(bits))
    assert canonical_json(number) == text.encode()


def test_integer_is_a_number_like_any_other() -> None:
    assert canonical_json([1, -20, 10**21, 2**53 + 1]) == b'[1,-20,1e+21,9007199254740992]'


def test_text_has_as_few_escapes_as_can_be() -> None:
    given = {'string': '€$\x0f\nA\'B"\\\\"/', 'literals': [None, True, False], 'empty': [{}, [], '']}
    text = '{"empty":[{},[],""],"literals":[null,true,false],"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    assert canonical_json(given) == text.encode()


def test_members_are_sorted_by_their_units_in_utf_16() -> None:
    names = ['€', '\r', '\ufb33', '1', '😀', '\x80', 'ö']
    sorted_names = ['\r', '1', '\x80', 'ö', '€', '😀', '\ufb33']
    text = canonical_json(dict.fromkeys(names, 1)).decode()
    assert [text.index(name if name != '\r' else '\\r') for name in sorted_names] == sorted(
        text.index(name if name != '\r' else '\\r') for name in names
    )

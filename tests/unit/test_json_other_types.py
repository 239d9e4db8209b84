"""Types that A2A does not have yet: a later version's must come out right, if not fast."""

from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, duration_pb2, json_format
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given
from hypothesis import strategies as st

from a2a_scribe.protocol.codec.descriptors import is_foreign
from a2a_scribe.protocol.json import InvalidJsonError, from_dict, to_dict
from tests.unit.json_messages import MESSAGES

Kind = descriptor_pb2.FieldDescriptorProto
PACKAGE = 'a2a_scribe.tests'


def field(name: str, number: int, kind: Any, of: str = '', *, repeated: bool = False) -> Kind:
    """Describes a field."""
    label = Kind.LABEL_REPEATED if repeated else Kind.LABEL_OPTIONAL
    return Kind(name=name, number=number, type=kind, type_name=of or None, label=label)


def entry(name: str, value: Any, of: str = '') -> descriptor_pb2.DescriptorProto:
    """Describes the entries of a map."""
    made = descriptor_pb2.DescriptorProto(
        name=name, field=[field('key', 1, Kind.TYPE_STRING), field('value', 2, value, of)]
    )
    made.options.map_entry = True
    return made


def holder() -> type[Message]:
    """Makes a type that holds itself, others' types, maps of each kind and a field whose tag has two bytes."""
    this = f'.{PACKAGE}.Holder'
    described = descriptor_pb2.DescriptorProto(name='Holder')
    described.field.extend(
        [
            field('far_away', 2000, Kind.TYPE_STRING),
            field('next', 2, Kind.TYPE_MESSAGE, this),
            field('wait', 3, Kind.TYPE_MESSAGE, '.google.protobuf.Duration'),
            field('counts', 4, Kind.TYPE_MESSAGE, f'.{PACKAGE}.Counts'),
            field('by_name', 5, Kind.TYPE_MESSAGE, f'{this}.ByNameEntry', repeated=True),
            field('yes', 6, Kind.TYPE_MESSAGE, f'{this}.YesEntry', repeated=True),
            field('number', 17, Kind.TYPE_INT32),
        ]
    )
    described.nested_type.extend([entry('ByNameEntry', Kind.TYPE_MESSAGE, this), entry('YesEntry', Kind.TYPE_BOOL)])
    counts = descriptor_pb2.DescriptorProto(name='Counts', field=[field('all', 1, Kind.TYPE_INT64, repeated=True)])
    file = descriptor_pb2.FileDescriptorProto(
        name='holder.proto', package=PACKAGE, syntax='proto3', message_type=[described, counts],
        dependency=['google/protobuf/duration.proto'],
    )  # fmt: skip
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(duration_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName(f'{PACKAGE}.Holder'))


HOLDER = holder()

holders: st.SearchStrategy[Any] = st.recursive(
    st.just({}),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            'farAway': st.text(min_size=1, max_size=200),
            'next': inner,
            'wait': st.sampled_from(['0s', '1s', '-1.500s']),
            'counts': st.sampled_from([{}, {'all': ['1', '-1', str(2**62)]}]),
            'byName': st.dictionaries(st.text(max_size=2), inner, min_size=1, max_size=2),
            'yes': st.dictionaries(st.text(max_size=2), st.booleans(), min_size=1, max_size=2),
            'number': st.integers(-(2**31), -1),
        },
    ),
    max_leaves=4,
)


@given(holders)
def test_equal_to_json_format(given_json: Any) -> None:
    expected = json_format.ParseDict(given_json, HOLDER())
    assert from_dict(given_json, HOLDER) == expected
    assert to_dict(expected) == json_format.MessageToDict(expected) == given_json
    full = json_format.MessageToDict(expected, always_print_fields_with_no_presence=True)
    assert to_dict(expected, defaults='all') == full


def test_half_an_entry_has_the_other_half_by_default() -> None:
    made = HOLDER.FromString(b'\x2a\x00\x32\x00\x32\x03\x0a\x01a')
    assert to_dict(made) == json_format.MessageToDict(made) == {'byName': {'': {}}, 'yes': {'': False, 'a': False}}


def test_errors_name_their_place() -> None:
    with pytest.raises(InvalidJsonError) as caught:
        from_dict({'next': {'byName': {'a': {'wait': 'soon'}}}}, HOLDER)
    assert (caught.value.field, caught.value.reason) == ('next.byName.a.wait', 'must be a valid Duration')


def test_no_type_that_recurses_does_so_without_end() -> None:
    given_json: Any = {}
    for _ in range(5000):
        given_json = {'next': given_json}
    with pytest.raises(InvalidJsonError) as caught:
        from_dict(given_json, HOLDER)
    assert (caught.value.field, caught.value.reason) == ('', 'is nested too deeply')


def test_every_type_of_a2a_is_compiled() -> None:
    a2a: list[Any] = [kind.DESCRIPTOR for kind in MESSAGES if kind.DESCRIPTOR.full_name.startswith('lf.a2a.')]
    assert len(a2a) > 40
    assert [each.name for each in a2a if is_foreign(each)] == []

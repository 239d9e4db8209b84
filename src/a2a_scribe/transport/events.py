"""Events as bindings write them: JSON text and protobuf bytes, each made once however many read it.

What readers are shown comes from the journal in protobuf's binary form; on its way out it is not made into a message,
unless a reader of JSON asked for the sequence in the metadata.
"""

import re
from typing import Final

from a2a.types.a2a_pb2 import StreamResponse
from google.protobuf.struct_pb2 import Struct

from a2a_scribe.core.records import EVENT_TYPES, EventKind, Shown
from a2a_scribe.protocol.codec.wire import DELIMITED, delimited, tag, varint
from a2a_scribe.protocol.extensions import SEQUENCE_URI
from a2a_scribe.protocol.json import transcode

CACHE_BYTES: Final = 8_000_000
"""Bytes of events, and of their text, that are kept for the next reader."""
ENTRY_BYTES: Final = 300
"""What keeping one takes beside its own bytes: objects, and a place in the dictionary."""

MEMBERS: Final = StreamResponse.DESCRIPTOR.fields_by_name
OPENINGS: Final[dict[EventKind, bytes]] = {
    kind: b'{"' + MEMBERS[kind].json_name.encode() + b'":' for kind in EVENT_TYPES
}
TAGS: Final[dict[EventKind, bytes]] = {kind: varint(tag(MEMBERS[kind].number, DELIMITED)) for kind in EVENT_TYPES}
METADATA_TAGS: Final[dict[EventKind, bytes]] = {
    kind: varint(tag(event.DESCRIPTOR.fields_by_name['metadata'].number, DELIMITED))
    for kind, event in EVENT_TYPES.items()
}


LINE_ENDS: Final = re.compile(b'\xe2\x80[\xa8\xa9]|\xc2\x85')
"""What Unicode takes for the end of a line, and JSON does not: some readers of event streams cut lines there."""


def escape_line_ends(text: bytes) -> bytes:
    """Returns JSON that no reader of event streams cuts."""
    return text if text.isascii() else LINE_ENDS.sub(_escaped, text)


def _escaped(found: re.Match[bytes]) -> bytes:
    """Returns a character as JSON escapes it; outside of its strings it cannot stand."""
    return b'\\u%04x' % ord(found[0].decode())


def with_sequence(item: Shown) -> bytes:
    """Returns an event in binary form whose metadata says its place in the journal; a direct Message has none.

    Protobuf merges a field that comes twice, so what is added stands behind what is there.
    """
    if item.seq is None:
        return item.body
    place = Struct()
    place[SEQUENCE_URI] = item.seq
    return item.body + delimited(METADATA_TAGS[item.kind], place.SerializeToString())


def to_stream_response(item: Shown, *, sequenced: bool = False) -> bytes:
    """Returns a `StreamResponse` in binary form."""
    return delimited(TAGS[item.kind], with_sequence(item) if sequenced else item.body)


_Key = tuple[EventKind, int | None, bytes]


class EventTexts:
    """Makes `StreamResponse`s as JSON text, and remembers the newest.

    It keeps two generations, and forgets the older one when the younger is full: keeping an order costs more for each
    event than making its text a second time now and then.
    """

    def __init__(self) -> None:
        """Starts empty."""
        self._young: dict[_Key, bytes] = {}
        self._old: dict[_Key, bytes] = {}
        self._bytes = 0
        """Of the younger generation."""

    def of(self, item: Shown, *, sequenced: bool = False) -> bytes:
        """Returns the text of an event. Raises: UnencodableError."""
        key = (item.kind, item.seq if sequenced else None, item.body)
        text = self._young.get(key)
        if text is None:
            text = self._old.get(key) or _text_of(item, sequenced=sequenced)
            self._young[key] = text
            self._bytes += len(item.body) + len(text) + ENTRY_BYTES
            if self._bytes > CACHE_BYTES // 2:
                self._old, self._young, self._bytes = self._young, {}, 0
        return text


def _text_of(item: Shown, *, sequenced: bool) -> bytes:
    text = transcode(_body(item, sequenced=sequenced), EVENT_TYPES[item.kind])
    return OPENINGS[item.kind] + escape_line_ends(text) + b'}'


def _body(item: Shown, *, sequenced: bool) -> bytes:
    """Returns what is to be transcoded, each field of it once."""
    if not sequenced or item.seq is None:
        return item.body
    return EVENT_TYPES[item.kind].FromString(with_sequence(item)).SerializeToString()

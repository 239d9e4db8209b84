"""Ids are UUIDs of version 7: they differ, and grow with time."""

import uuid

from a2a_scribe.ids import UuidSource
from a2a_scribe.testing.clock import FakeClock


def test_ids_that_are_made_at_one_moment_differ() -> None:
    ids = UuidSource(FakeClock())
    assert len({ids.new() for _ in range(10_000)}) == 10_000


def test_later_ids_are_greater_to_the_microsecond() -> None:
    clock = FakeClock()
    ids = UuidSource(clock)
    made = []
    for _ in range(5_000):
        made.append(ids.new())
        clock.advance(0.000_001)
    assert made == sorted(made)


def test_an_id_is_a_uuid_of_version_7_that_tells_its_millisecond() -> None:
    clock = FakeClock()
    made = UuidSource(clock).new()
    read = uuid.UUID(made)
    assert (read.version, read.variant, str(read)) == (7, uuid.RFC_4122, made)
    assert read.int >> 80 == clock.now() // 1000

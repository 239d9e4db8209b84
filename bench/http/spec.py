"""What the parent tells a server and a load, and what a load answers: values that travel as JSON."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Self

RELEASE: Final = '/bench/release'
SETTINGS: Final = '/bench/settings'


@dataclass(frozen=True, slots=True)
class Travelling:
    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls(**json.loads(text))


@dataclass(frozen=True, slots=True)
class ServerSpec(Travelling):
    """A system to serve; `url` is its database, `recording` the file of answers that the limit gives."""

    system: str
    url: str = ''
    recording: str = ''


@dataclass(frozen=True, slots=True)
class LoadSpec(Travelling):
    """What to ask of the server at `port`, whose process is `pid`, for `seconds` on so many `connections`.

    `is_checked` is off where the answers are recorded ones: then their tasks cannot be looked up afterwards.
    """

    kind: str
    dialect: str
    port: int
    pid: int
    size: int
    connections: int
    seconds: float
    task_id: str = ''
    is_checked: bool = True
    recording: str = ''


@dataclass(frozen=True, slots=True)
class Sample(Travelling):
    """One measurement.

    Seconds of wall time, and of CPU time of the server and of the load; `units` of work, in `calls` whose latencies
    have these percentiles; the mean number of `messages` in which an answer's body was sent.
    """

    wall: float
    server_cpu: float
    load_cpu: float
    units: int
    calls: int
    p50: float
    p99: float
    messages: float
    settings: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Recording:
    """An answer of a2a-scribe: its content type, and the bodies that it sent one after the other."""

    content_type: str
    parts: list[bytes]

    def write(self, path: Path) -> None:
        parts = [part.decode() for part in self.parts]
        path.write_text(json.dumps({'content_type': self.content_type, 'parts': parts}), encoding='utf-8')

    @classmethod
    def read(cls, path: Path) -> 'Recording':
        values: dict[str, Any] = json.loads(path.read_text(encoding='utf-8'))
        return cls(values['content_type'], [part.encode() for part in values['parts']])

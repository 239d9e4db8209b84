"""What the parent tells a child, and what the child answers: values that travel as JSON."""

import json
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from bench.systems import SYSTEMS, System


@dataclass(frozen=True, slots=True)
class Spec:
    """One measurement: `kind` names the function, `system_name` the system, the rest is its size."""

    kind: str
    system_name: str
    url: str
    size: int = 0
    repeats: int = 1
    concurrency: int = 1
    task_id: str = ''

    @property
    def system(self) -> System:
        return SYSTEMS[self.system_name]

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> 'Spec':
        return cls(**json.loads(text))


@dataclass(frozen=True, slots=True)
class Sample:
    """Seconds of wall and CPU time for a number of units, or whatever else was found."""

    wall: float = 0.0
    cpu: float = 0.0
    units: int = 0
    events: int = 0
    task_id: str = ''
    settings: dict[str, str] = field(default_factory=dict)
    figures: dict[str, float] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> 'Sample':
        values: dict[str, Any] = json.loads(text)
        return cls(**{item.name: values[item.name] for item in fields(cls)})

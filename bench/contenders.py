"""What is known of any system under test, as a value: nothing here imports any of them."""

import importlib.metadata
import importlib.util
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Contender:
    """A package beside others; each benchmark adds how it is opened."""

    name: str
    title: str
    package: str
    distribution: str

    @property
    def is_installed(self) -> bool:
        return importlib.util.find_spec(self.package) is not None

    @property
    def version(self) -> str:
        return importlib.metadata.version(self.distribution)

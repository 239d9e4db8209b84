"""Service parameters: what a client says beside its request (A2A 1.0, section 3.2.6).

They come as HTTP headers, as query parameters or as gRPC metadata; their names do not depend on upper and lower case.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from a2a.utils.errors import VersionNotSupportedError

from a2a_scribe.protocol.faults import InvalidFieldError

VERSION: Final = 'A2A-Version'
EXTENSIONS: Final = 'A2A-Extensions'
OLD_EXTENSIONS: Final = 'X-A2A-Extensions'
"""What version 0.3 calls it."""
LAST_EVENT_ID: Final = 'Last-Event-ID'
"""The last event that a reader has seen; the name is that of HTML's server-sent events."""
IDEMPOTENCY_KEY: Final = 'Idempotency-Key'
"""What a message is called by a client that may send it again, and wants it to be executed once."""
KEY_IN_STATE: Final = 'a2a_scribe.idempotency_key'
"""Where the state of a call context has that key."""

SUPPORTED_VERSION: Final = '1.0'
UNNAMED_VERSION: Final = '0.3'
"""The version that a client speaks which names none (section 3.6.2)."""

MAX_DIGITS: Final = 18
KEY_FORM: Final = re.compile(r'[!-~]{1,255}')
VERSION_FORM: Final = re.compile(r'(\d{1,9}\.\d{1,9})(\.\d{1,9})?', re.ASCII)


class ServiceParameters(NamedTuple):
    """What a client said, as it said it; empty where it said nothing."""

    version: str = ''
    extensions: frozenset[str] = frozenset()
    last_event_id: str = ''
    idempotency_key: str | None = None
    """An empty key is one too, and refused."""
    old_extensions: frozenset[str] = frozenset()
    """Those that stand under the name of version 0.3."""


NOTHING: Final = ServiceParameters()


def service_parameters(given: Iterable[tuple[str, str]]) -> ServiceParameters:
    """Reads the parameters from names and values; of a name that comes twice, the first value that is not empty."""
    version = last_event_id = ''
    extensions: list[str] = []
    old_extensions: list[str] = []
    keys: list[str] = []
    for name, value in given:
        match name.lower():
            case 'a2a-version':
                version = version or value.strip()
            case 'a2a-extensions':
                extensions += _uris(value)
            case 'x-a2a-extensions':
                old_extensions += _uris(value)
            case 'last-event-id' | 'lasteventid':
                last_event_id = last_event_id or value.strip()
            case 'idempotency-key':
                keys.append(value.strip())
    key = ', '.join(dict.fromkeys(keys)) if keys else None
    return ServiceParameters(version, frozenset(extensions), last_event_id, key, frozenset(old_extensions))


def _uris(value: str) -> list[str]:
    return [uri for part in value.split(',') if (uri := part.strip())]


def is_version(asked: str, spoken: str) -> bool:
    """Whether a client that named a version, or none, speaks another; the patch part is ignored (section 3.6)."""
    if asked == spoken:
        return True
    found = VERSION_FORM.fullmatch(asked or UNNAMED_VERSION)
    return found is not None and found[1] == spoken


def check_version(asked: str, spoken: str = SUPPORTED_VERSION, served: Sequence[str] = (SUPPORTED_VERSION,)) -> None:
    """Refuses every version but the one that is spoken here; `served` are those of the whole server.

    Raises:
        VersionNotSupportedError: The client asked for another.
    """
    if not is_version(asked, spoken):
        said = f'Version {asked[:40]!r}' if asked else f'A request without {VERSION} (which means {UNNAMED_VERSION})'
        text = f'{said} is not supported: send {VERSION}: {spoken}'
        raise VersionNotSupportedError(text, data={'supportedVersions': ', '.join(served)})


def check_idempotency_key(text: str) -> None:
    """Refuses a key that is empty, too long, or more than one word. Raises: InvalidParamsError."""
    if KEY_FORM.fullmatch(text) is None:
        raise InvalidFieldError(IDEMPOTENCY_KEY, 'must have 1 to 255 visible characters of ASCII, and no spaces')


def parse_event_id(text: str) -> int | None:
    """Returns the place in the journal that a client names, `None` if it names none. Raises: InvalidParamsError."""
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS):
        raise InvalidFieldError(LAST_EVENT_ID, 'must be the id of an event of this task, a decimal number')
    return int(text)

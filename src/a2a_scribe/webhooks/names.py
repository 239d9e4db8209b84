"""What a signed delivery is called on the wire: headers, claims, and ids of events in a form that headers can carry.

Sender and receivers share these names, and the documentation tells them to receivers in other languages.
"""

from typing import Final
from urllib.parse import quote, unquote, urlsplit

ID: Final = 'webhook-id'
"""The event: the same at each attempt to deliver it."""
TIMESTAMP: Final = 'webhook-timestamp'
"""When this attempt was made, in whole seconds since the epoch."""
SIGNATURES: Final = 'webhook-signature'
"""One signature per secret, separated by spaces."""
TOKEN: Final = 'X-A2A-Signature'
"""A JWT; `Authorization` belongs to the credentials of the client."""

TOKEN_TYPE: Final = 'a2a-webhook+jwt'
"""The `typ` of our tokens, so that none that the same keys signed for something else is taken for one (RFC 8725)."""
EVENT_ID: Final = 'event_id'
TASK_ID: Final = 'task_id'
ATTEMPT: Final = 'attempt'
BODY_HASH: Final = 'request_body_sha256'
"""The claim with the SHA-256 of the body, in hexadecimal digits."""

DEFAULT_PORTS: Final = {'http': 80, 'https': 443}


def header_form(event_id: str) -> str:
    """Returns an event id as headers carry it: percent-encoded, where a UUID and a number need no encoding.

    A full stop is encoded too: what HMAC signs has fields that end at full stops, and an id with one could be read as
    an id and a time.
    """
    return quote(event_id, safe='/:~').replace('.', '%2E')


def event_id_in(header: str) -> str:
    """Returns the event id that a header carries; what is no encoded text stays as it is."""
    try:
        return unquote(header, errors='strict')
    except UnicodeDecodeError:
        return header


def audience_of(url: str) -> str:
    """Returns whom a delivery is for: the URL without user, query and fragment, which may hold secrets.

    What is no URL is for nobody: empty.
    """
    try:
        parts = urlsplit(url)
        host, number = parts.hostname or '', parts.port
    except ValueError:
        return ''
    host = f'[{host}]' if ':' in host else host
    port = '' if number in (None, DEFAULT_PORTS.get(parts.scheme)) else f':{number}'
    return f'{parts.scheme}://{host}{port}{parts.path or "/"}'

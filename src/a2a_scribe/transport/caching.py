"""Answers that clients may keep and ask about (RFC 9110, sections 8.8.3 and 13.1.2; A2A 1.0, section 8.6)."""

import hashlib

from a2a_scribe.transport.asgi import Headers, HttpCall


async def answer_cached(call: HttpCall, body: bytes, media_type: str, caching: str, headers: Headers = ()) -> None:
    """Sends `body` with its entity tag, or that it has not changed."""
    etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    more = [('etag', etag), ('cache-control', caching), *headers]
    if _has_current(call.header('if-none-match'), etag):
        await call.answer(304, b'', headers=more)
    else:
        await call.answer(200, body, media_type, more)


def _has_current(given: str, etag: str) -> bool:
    tags = [each.strip().removeprefix('W/') for each in given.split(',')]
    return '*' in tags or etag in tags

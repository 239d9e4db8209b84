"""The limit: a bare ASGI app that reads a request and gives the answer that a2a-scribe gave to one like it.

No routing, no JSON, no protocol: what is above this line is what an A2A server costs over uvicorn.
"""

from pathlib import Path

from starlette.types import Receive, Scope, Send

from bench.http.control import Served
from bench.http.spec import Recording, ServerSpec

EVENT_END = b'\n\n'


class Replay:
    """The bodies of the recording, in as many messages as they were sent in."""

    def __init__(self, recording: Recording) -> None:
        headers = [(b'content-type', recording.content_type.encode())]
        if b'event-stream' not in headers[0][1]:
            headers.append((b'content-length', str(sum(map(len, recording.parts))).encode()))
        self._start = {'type': 'http.response.start', 'status': 200, 'headers': headers}
        self._parts = recording.parts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope['type'] == 'lifespan':
            await _live(receive, send)
            return
        while (await receive()).get('more_body', False):
            pass
        await send(self._start)
        for part in self._parts:
            await send({'type': 'http.response.body', 'body': part, 'more_body': True})
        await send({'type': 'http.response.body', 'body': b''})


def serve(spec: ServerSpec) -> Served:
    return Served(Replay(Recording.read(Path(spec.recording))))


def serve_singly(spec: ServerSpec) -> Served:
    return Served(Replay(singly(Recording.read(Path(spec.recording)))))


def singly(recording: Recording) -> Recording:
    """The same bytes in a message for each event."""
    events = b''.join(recording.parts).split(EVENT_END)
    return Recording(recording.content_type, [event + EVENT_END for event in events if event])


async def _live(receive: Receive, send: Send) -> None:
    while True:
        kind = (await receive())['type']
        await send({'type': f'{kind}.complete'})
        if kind == 'lifespan.shutdown':
            return

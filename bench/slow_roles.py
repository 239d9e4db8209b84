"""Who takes part in the measurement of a slow reader: the server, those who read, and the one who sleeps.

Called by `bench.slow_reader`; the first two are processes of their own. A chunk carries its number and the time at
which the agent gave it away; the clock is the machine's monotonic one, which all processes share.
"""

import array
import asyncio
import json
import re
import socket
import sys
import time
from typing import Final

from a2a.helpers.proto_helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types.a2a_pb2 import Part

from bench.agents import agent_card

HOST: Final = '127.0.0.1'
TICK: Final = 0.005
"""Seconds between two bursts of the agent."""
PRELUDE: Final = 2.0
"""Seconds before the first chunk, for the readers to come."""
SMALL_BUFFER: Final = 4_096
READ_AT_ONCE: Final = 65_536
CHUNK: Final = re.compile(rb'"text":"beat (\d+) (\d+)"')
TASK_ID: Final = re.compile(rb'"task":\{"id":"([^"]+)"')


class Metronome(AgentExecutor):
    """Emits so many chunks, so many a second: 'COUNT RATE'."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        if context.message is None:
            raise ValueError('a turn without a message')
        count, rate = map(int, context.get_user_input().split())
        task = new_task_from_user_message(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        started = time.monotonic() + PRELUDE
        emitted = 0
        while emitted < count:
            await asyncio.sleep(max(0.0, started + emitted / rate + TICK - time.monotonic()))
            due = min(count, int((time.monotonic() - started) * rate))
            for number in range(emitted, due):
                text = f'beat {number} {time.monotonic_ns()}'
                await updater.add_artifact([Part(text=text)], artifact_id='beat', append=number > 0)
            emitted = max(emitted, due)
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError('nothing here is cancelled')


def serve(url: str) -> None:
    """Serves the agent on a free port and prints where."""
    from a2a_scribe import serve as serve_agent

    serve_agent(Metronome(), agent_card(), url, port=0, on_ready=lambda place: print(place, flush=True))


class Stream:
    """A JSON-RPC stream on a bare connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._rest = b''

    @classmethod
    async def opened(cls, port: int, method: str, params: dict[str, object], *, is_narrow: bool = False) -> 'Stream':
        """Sends a request; a narrow connection keeps next to nothing for who does not read."""
        connection = socket.socket()
        if is_narrow:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, (HOST, port))
        limit = SMALL_BUFFER if is_narrow else READ_AT_ONCE
        reader, writer = await asyncio.open_connection(sock=connection, limit=limit)
        body = json.dumps({'jsonrpc': '2.0', 'id': 1, 'method': method, 'params': params}).encode()
        resumes = 'Last-Event-ID: 0\r\n' if method == 'SubscribeToTask' else ''
        head = (
            f'POST / HTTP/1.1\r\nHost: {HOST}\r\nA2A-Version: 1.0\r\nContent-Type: application/json\r\n'
            f'Content-Length: {len(body)}\r\nConnection: close\r\n{resumes}\r\n'
        )
        writer.write(head.encode() + body)
        return cls(reader, writer)

    async def chunks(self) -> list[tuple[int, int]]:
        """Returns the next chunks as numbers and times, nothing at the end."""
        while data := await self._reader.read(READ_AT_ONCE):
            self._rest += data
            end = self._rest.rfind(b'\n\n') + 2
            whole, self._rest = (self._rest[:end], self._rest[end:]) if end > 1 else (b'', self._rest)
            if found := [(int(number), int(sent)) for number, sent in CHUNK.findall(whole)]:
                return found
        return []

    async def task_id(self) -> str:
        """Returns the id of the task that the stream begins with."""
        while (found := TASK_ID.search(self._rest)) is None:
            if not (data := await self._reader.read(READ_AT_ONCE)):
                raise ConnectionError('the stream ended before its task')
            self._rest += data
        return found[1].decode()

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


async def read_delays(port: int, task_id: str, events: int) -> 'array.array[int]':
    """Reads a stream; the nanoseconds from the agent to here of each chunk."""
    stream = await Stream.opened(port, 'SubscribeToTask', {'id': task_id})
    delays = array.array('q')
    numbers = 0
    while chunks := await stream.chunks():
        now = time.monotonic_ns()
        delays.extend(now - sent for _, sent in chunks)
        numbers += sum(number for number, _ in chunks)
    await stream.close()
    if len(delays) != events or numbers != events * (events - 1) // 2:
        raise ValueError(f'a reader got {len(delays)} chunks where {events} are due')
    return delays


async def read_all(port: int, readers: int, events: int) -> None:
    """Reads with so many at once the task whose id comes on stdin; prints what was found as JSON."""
    print('ready', flush=True)
    task_id = (await asyncio.to_thread(sys.stdin.readline)).strip()
    found = await asyncio.gather(*(read_delays(port, task_id, events) for _ in range(readers)))
    delays = sorted(delay for each in found for delay in each)
    places = {'p50': 0.5, 'p99': 0.99, 'p999': 0.999, 'worst': 1.0}
    percentiles = {name: delays[min(len(delays) - 1, int(len(delays) * place))] / 1e6 for name, place in places.items()}
    print(json.dumps({**percentiles, 'cpu': time.process_time()}), flush=True)


async def sleep_in_the_middle(port: int, task_id: str, events: int, seconds: float) -> tuple[int, int]:
    """Reads a fifth, sleeps, reads the rest; returns how many chunks came before and after. Raises: ValueError."""
    stream = await Stream.opened(port, 'SubscribeToTask', {'id': task_id}, is_narrow=True)
    numbers: list[int] = []
    while len(numbers) < events // 5:
        numbers += [number for number, _ in await stream.chunks()]
    before = len(numbers)
    await asyncio.sleep(seconds)
    while chunks := await stream.chunks():
        numbers += [number for number, _ in chunks]
    await stream.close()
    if numbers != list(range(events)):
        raise ValueError(f'the sleeper got {len(numbers)} chunks where {events} in order are due')
    return before, len(numbers) - before


if __name__ == '__main__':
    if sys.argv[1] == 'serve':
        serve(sys.argv[2])
    else:
        asyncio.run(read_all(*map(int, sys.argv[2:])))

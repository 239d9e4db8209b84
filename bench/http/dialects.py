"""How each system is spoken to, and how one sees that an answer is what is due.

Called by the load, for which a look must be cheap: every answer is searched for a few words, and read as JSON only
outside of the timed part.
"""

import json
import uuid
from dataclasses import dataclass
from typing import Any, Final

from bench.chunks import chunk_text
from bench.http.client import Answer

OWN_EVENTS: Final = 3  # the task, WORKING and COMPLETED, beside the chunks
PAGE_SIZE: Final = 100


class WrongAnswerError(Exception):
    """A system answered, but not with what its agent emitted."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """Names of methods and values; objects have the shape of A2A 1.0 in all of them."""

    send: str
    stream: str
    get: str
    role: str
    completed: str
    running: tuple[str, ...]

    def message(self, method: str, text: str, configuration: str = '') -> bytes:
        message = f'"messageId":"{uuid.uuid4()}","role":"{self.role}","parts":[{{"text":"{text}"}}]'
        return _request(method, f'{{"message":{{{message}}}{configuration}}}')

    def send_task(self, text: str) -> bytes:
        return self.message(self.send, text)

    def stream_task(self, text: str) -> bytes:
        return self.message(self.stream, text)

    def send_at_once(self, text: str) -> bytes:
        return self.message(self.send, text, ',"configuration":{"returnImmediately":true}')

    def get_task(self, task_id: str) -> bytes:
        return _request(self.get, f'{{"id":"{task_id}"}}')

    def is_running(self, answer: Answer) -> bool:
        body = answer.body
        return any(b'"%b"' % state.encode() in body for state in self.running)

    def check_task(self, answer: Answer, size: int) -> None:
        """A quick look: a completed task with its last chunk, and no error."""
        body = _sound(answer)
        if b'"%b"' % self.completed.encode() not in body or chunk_text(size - 1).encode() not in body:
            raise WrongAnswerError(f'this is not the completed task: {body[:300]!r}')

    def check_stream(self, answer: Answer, size: int, own_events: int = OWN_EVENTS) -> int:
        """A quick look: the right numbers of events and of chunks among them, and the completed status as the last.

        Gives the number of events.
        """
        body = _sound(answer)
        events, chunks = body.count(b'data: '), body.count(b'"artifactUpdate"')
        if (events, chunks) != (size + own_events, size):
            raise WrongAnswerError(f'{events} events with {chunks} chunks came: {body[-300:]!r}')
        if self.completed.encode() not in body[body.rindex(b'data: ') :]:
            raise WrongAnswerError(f'the stream does not end with a completed task: {body[-300:]!r}')
        return events

    def check_task_in_full(self, answer: Answer, size: int) -> None:
        """Every chunk is in the task, once and in order, and the task is completed."""
        task = task_in(answer)
        if task['status']['state'] != self.completed:
            raise WrongAnswerError(f'the stored task is {task["status"]["state"]}')
        stored = [part['text'] for artifact in task.get('artifacts', []) for part in artifact['parts']]
        if stored != [chunk_text(number) for number in range(size)]:
            raise WrongAnswerError(f'{len(stored)} chunks are stored where {size} in order are due')


DIALECTS: Final = {
    'a2a-1.0': Dialect(
        send='SendMessage',
        stream='SendStreamingMessage',
        get='GetTask',
        role='ROLE_USER',
        completed='TASK_STATE_COMPLETED',
        running=('TASK_STATE_SUBMITTED', 'TASK_STATE_WORKING'),
    ),
    'fasta2a': Dialect(
        send='message/send',
        stream='message/stream',
        get='tasks/get',
        role='user',
        completed='completed',
        running=('submitted', 'working'),
    ),
}


def list_tasks() -> bytes:
    return _request('ListTasks', f'{{"pageSize":{PAGE_SIZE}}}')


def subscribe(task_id: str) -> bytes:
    return _request('SubscribeToTask', f'{{"id":"{task_id}"}}')


def check_list(answer: Answer, size: int) -> None:
    page = json.loads(_sound(answer))['result']
    if (page['totalSize'], len(page['tasks'])) != (size, min(PAGE_SIZE, size)):
        raise WrongAnswerError(f'{len(page["tasks"])} of {page["totalSize"]} tasks are listed')


def task_in(answer: Answer) -> dict[str, Any]:
    """The task of an answer, or of the first event of a stream."""
    body = _sound(answer)
    text = next(line for line in body.splitlines() if line.startswith(b'data: '))[6:] if b'data: ' in body else body
    result: dict[str, Any] = json.loads(text)['result']
    found: dict[str, Any] = result.get('task', result)
    return found


def post(path: str, body: bytes = b'') -> bytes:
    head = (
        f'POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nA2A-Version: 1.0\r\n'
        f'Content-Length: {len(body)}\r\n\r\n'
    )
    return head.encode() + body


def _request(method: str, params: str) -> bytes:
    return post('/', f'{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}'.encode())


def _sound(answer: Answer) -> bytes:
    body = answer.body
    if answer.status != 200 or b'"error"' in body:
        raise WrongAnswerError(f'HTTP {answer.status}: {body[:300]!r}')
    return body

"""Sends rounds of strange requests that follow from a seed, and keeps count."""

import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from tests.fuzz.broken_http import KIND as BROKEN
from tests.fuzz.broken_http import broken_request
from tests.fuzz.checks import check_http
from tests.fuzz.grpc_requests import GrpcClient, GrpcRequest, grpc_request
from tests.fuzz.http_client import HangError, NoAnswerError
from tests.fuzz.http_requests import VERSION, HttpRequest, http_request
from tests.fuzz.service import Service
from tests.fuzz.valid import Known

ROUND: Final = 50
"""Requests that share a few tasks."""
MOST_FAILURES: Final = 20
RPC_CODE: Final = re.compile(rb'^{.*"error":{"code":(-\d+)')
EVENT_ID: Final = re.compile(rb'^id: (\d+)$', re.MULTILINE)


@dataclass
class Tally:
    """What was sent, what came back."""

    answers: Counter[tuple[str, str]] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    @property
    def requests(self) -> int:
        """How many requests were answered as they must be, or were not."""
        return self.answers.total()

    def __add__(self, other: 'Tally') -> 'Tally':
        return Tally(self.answers + other.answers, self.failures + other.failures)

    def report(self) -> str:
        """Returns a table of kinds, and of the answers to each."""
        rows: dict[str, Counter[str]] = {}
        for (kind, status), count in self.answers.items():
            rows.setdefault(kind, Counter())[status] += count
        return '\n'.join(
            f'{rows[kind].total():>7} {kind:24} '
            + ', '.join(f'{status}: {count}' for status, count in sorted(rows[kind].items()))
            for kind in sorted(rows)
        )


class Fuzzer:
    """One client of a server, on all bindings."""

    def __init__(self, service: Service, seed: str) -> None:
        self.tally = Tally()
        self._service = service
        self._seed = seed
        self._http = service.connect()
        self._grpc = GrpcClient(service.grpc)

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()
        self._grpc.close()

    def run(self, number: int) -> None:
        """Sends one round: tasks that are as they should be, and strange requests to them and to others."""
        chance = random.Random(f'{self._seed} {number}')
        known = self.begin()
        for _ in range(ROUND):
            if len(self.tally.failures) >= MOST_FAILURES:
                return
            match chance.randrange(10):
                case 0:
                    self._note(BROKEN, broken_request(chance, known), self.send_broken)
                case 1 | 2 | 3:
                    request = http_request('JSONRPC', chance, known)
                    self._note(request.kind, request, lambda sent: self.send_http(sent, known))
                case 4 | 5 | 6:
                    request = http_request('HTTP+JSON', chance, known)
                    self._note(request.kind, request, lambda sent: self.send_http(sent, known))
                case _:
                    called = grpc_request(chance, known)
                    self._note(called.kind, called, self.send_grpc)

    def _note(self, kind: str, request: Any, send: Callable[[Any], str]) -> None:
        try:
            status = send(request)
        except HangError as error:
            self.tally.failures.append(f'hangs: {error}: {request!r}')
            status = 'hangs'
        except AssertionError as error:
            self.tally.failures.append(f'{error}: {request!r}')
            status = 'fails'
        except NoAnswerError:
            self.tally.failures.append(f'no answer: {request!r}')
            status = 'no answer'
        self.tally.answers[kind, status] += 1

    def begin(self) -> Known:
        """Makes a task that has ended, one that waits for input, and one that is at work for a while."""
        done, asked, working = (self._task(word) for word in ('task', 'ask', 'work'))
        config = self._call(
            'CreateTaskPushNotificationConfig', {'taskId': asked['id'], 'url': 'https://hooks.example/'}
        )
        page = self._call('ListTasks', {'pageSize': 1})
        return Known(
            tasks=[done['id'], asked['id'], working['id']],
            contexts=[done['contextId'], asked['contextId']],
            configs=[config['id']],
            tokens=[page['nextPageToken']],
        )

    def is_well(self) -> bool:
        """Whether the server answers requests as they should be, on all bindings."""
        listed = HttpRequest('HTTP+JSON', 'GET', '/extendedAgentCard', (VERSION,))
        return (
            self._call('GetExtendedAgentCard', {})['name'] == 'echo'
            and self.send_http(listed) == '200'
            and self.send_grpc(GrpcRequest('gRPC', 'GetExtendedAgentCard', b'')) == 'OK'
        )

    def _task(self, word: str) -> Any:
        message = {'messageId': 'm', 'role': 'ROLE_USER', 'parts': [{'text': word}]}
        configuration = {'returnImmediately': word == 'work'}
        return self._call('SendMessage', {'message': message, 'configuration': configuration})['task']

    def _call(self, method: str, params: dict[str, Any]) -> Any:
        return self._service.call(method, params, self._http)

    def send_http(self, request: HttpRequest, known: Known | None = None) -> str:
        """Sends a request and checks its answer; returns the status."""
        response = self._http.exchange(request.encode(), is_head=request.method == 'HEAD')
        check_http(request, response)
        if known is not None:
            known.seqs.extend(int(found) for found in EVENT_ID.findall(response.body)[:3])
        code = RPC_CODE.search(response.body) if request.kind.startswith('JSON-RPC') else None
        return f'{response.status} {code[1].decode()}' if code else str(response.status)

    def send_grpc(self, request: GrpcRequest) -> str:
        """Sends a request and checks its answer; returns the status."""
        return self._grpc.check(request)

    def send_broken(self, data: bytes) -> str:
        """Sends what may be no request; returns the statuses of what may be answers."""
        answers = self._http.try_out(data)
        assert all(answer.status < 500 for answer in answers), answers
        return '/'.join(str(answer.status) for answer in answers[:1]) or 'closed'

"""Requests that nobody should send: each is answered, none is the server's fault, nothing stays behind.

`A2A_FUZZ_REQUESTS=100000 python -m pytest -s tests/fuzz` sends so many in place of a few thousand, and says what came
of them. Another `A2A_FUZZ_SEED` makes up other requests.
"""

import faulthandler
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from a2a_scribe.protocol.json import UnencodableError, to_dict
from tests.fuzz.fuzzer import ROUND, Fuzzer, Tally
from tests.fuzz.grpc_requests import GrpcRequest
from tests.fuzz.http_requests import ROUTES, HttpRequest
from tests.fuzz.service import Service, running
from tests.fuzz.texts import to_text
from tests.fuzz.valid import REQUESTS
from tests.unit.json_messages import damaged, messages

COUNT = int(os.environ.get('A2A_FUZZ_REQUESTS', '5000'))
SEED = os.environ.get('A2A_FUZZ_SEED', 'a2a-scribe')
EXAMPLES = COUNT // 50
"""Requests to each binding that hypothesis makes up; all others are rounds."""
ROUNDS = (COUNT - 3 * EXAMPLES) // ROUND
WARM_UP = max(ROUNDS // 10, 20)
BATCH = 10
"""Rounds after which the server is asked how it is."""
CLIENTS = 2
GROWTH = 30_000_000
HEADERS = (('A2A-Version', b'1.0'), ('Content-Type', b'application/json'))

pytestmark = pytest.mark.skipif(sys.platform != 'linux', reason='reads /proc')
thorough = settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
posts = {name: path for name, (method, path) in ROUTES.items() if method == 'POST'}


@pytest.fixture(scope='module')
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp('fuzz')) as service:
        yield service
        assert not service.complaints(), '\n'.join(service.complaints())


@pytest.fixture(scope='module')
def client(service: Service) -> Iterator[Fuzzer]:
    with closing(Fuzzer(service, SEED)) as client:
        yield client


def test_no_request_harms_the_server(service: Service) -> None:
    faulthandler.cancel_dump_traceback_later()  # each request has a deadline of its own, and so many take a while
    started = time.monotonic()
    with ExitStack() as stack:
        fuzzers = [stack.enter_context(closing(Fuzzer(service, SEED))) for _ in range(CLIENTS)]
        send(fuzzers, range(WARM_UP))
        states = [service.state()]
        for start in range(WARM_UP, ROUNDS, BATCH):
            send(fuzzers, range(start, min(start + BATCH, ROUNDS)))
            assert all(fuzzer.is_well() for fuzzer in fuzzers)
            states.append(service.state(states[0]))
    before, after = states[0], states[-1]
    tally = sum((fuzzer.tally for fuzzer in fuzzers), Tally())
    sizes = [f'{state.rss / 1e6:.0f}' for state in states[:: max(1, len(states) // 10)]]
    print(f'\n{tally.report()}\n{tally.requests} requests in {time.monotonic() - started:.0f} s')
    print(f'resident MB: {" ".join(sizes)}; {before}; {after}')
    assert not tally.failures, '\n\n'.join(tally.failures)
    assert after.live_tasks == 0
    assert after.coroutines <= before.coroutines
    assert after.rss - before.rss < GROWTH


def send(fuzzers: list[Fuzzer], rounds: range) -> None:
    """Sends rounds of requests, from all clients at once."""

    def some(index: int) -> None:
        for number in rounds[index :: len(fuzzers)]:
            fuzzers[index].run(number)

    with ThreadPoolExecutor(len(fuzzers)) as pool:
        list(pool.map(some, range(len(fuzzers))))


# What hypothesis makes up, and makes small when it fails


@st.composite
def json_of(draw: st.DrawFn, name: str) -> Any:
    """The JSON of a random request, with junk in it."""
    try:
        given_json = to_dict(draw(messages(REQUESTS[name], known_enums=True)))
    except UnencodableError:
        given_json = {}
    return draw(damaged(given_json))


@thorough
@given(data=st.data(), name=st.sampled_from(sorted(REQUESTS)), escaped=st.booleans())
def test_json_rpc(client: Fuzzer, data: st.DataObject, name: str, escaped: bool) -> None:
    call = {'jsonrpc': '2.0', 'id': 1, 'method': name, 'params': data.draw(json_of(name))}
    body = to_text(call, escaped=escaped)
    client.send_http(HttpRequest('JSON-RPC', 'POST', '/', HEADERS, body))
    assert client.is_well()


@thorough
@given(data=st.data(), name=st.sampled_from(sorted(posts)), escaped=st.booleans())
def test_http_json(client: Fuzzer, data: st.DataObject, name: str, escaped: bool) -> None:
    path = posts[name].format(taskId='no-such-task', id='no-such-task')
    body = to_text(data.draw(json_of(name)), escaped=escaped)
    client.send_http(HttpRequest('HTTP+JSON', 'POST', path, HEADERS, body))
    assert client.is_well()


@thorough
@given(data=st.data(), name=st.sampled_from(sorted(REQUESTS)))
def test_grpc(client: Fuzzer, data: st.DataObject, name: str) -> None:
    made = messages(REQUESTS[name]).map(lambda message: message.SerializeToString())
    client.send_grpc(GrpcRequest('gRPC', name, data.draw(st.one_of(made, st.binary()))))
    assert client.is_well()

"""The audit log: one line of JSON per call, with names and ids and nothing else."""

import json
import logging

import pytest
from a2a.types.a2a_pb2 import GetTaskRequest, Message, Part, SendMessageRequest, Task, TaskPushNotificationConfig
from a2a.utils.errors import TaskNotFoundError

from a2a_scribe.core.records import Shown
from a2a_scribe.protocol.faults import RateError
from a2a_scribe.testing.clock import FakeClock
from a2a_scribe.transport.audit import MOST_CHARACTERS, Audit, Visit, logger
from a2a_scribe.transport.grpc_peers import host_of

SECRET = 'the text of a message'


@pytest.fixture
def audit(caplog: pytest.LogCaptureFixture) -> Audit:
    caplog.set_level(logging.INFO, logger.name)
    return Audit(FakeClock(), is_on=True)


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, str]]:
    return [json.loads(record.getMessage()) for record in caplog.records if record.name == logger.name]


def new_visit(owner: str = 'ann') -> Visit:
    return Visit('GRPC', '10.0.0.1', owner)


def test_who_did_what_to_which_task(audit: Audit, caplog: pytest.LogCaptureFixture) -> None:
    visit = new_visit()
    request = SendMessageRequest(message=Message(message_id='m', parts=[Part(text=SECRET)]))
    visit.asks('SendMessage', request, 'acme')
    audit.done(visit, Task(id='t'))
    assert lines(caplog) == [
        {
            'time': '2025-06-15T15:06:40.000+00:00',
            'binding': 'GRPC',
            'operation': 'SendMessage',
            'owner': 'ann',
            'tenant': 'acme',
            'address': '10.0.0.1',
            'task': 't',
            'outcome': 'OK',
        }
    ]


def test_what_was_refused_is_told_by_its_reason(audit: Audit, caplog: pytest.LogCaptureFixture) -> None:
    visit = new_visit()
    visit.asks('GetTask', GetTaskRequest(id='theirs'), '')
    audit.refused(visit, TaskNotFoundError(SECRET))
    audit.refused(new_visit(), RateError(1))
    first, second = lines(caplog)
    assert (first['task'], first['outcome'], first['error']) == ('theirs', 'TASK_NOT_FOUND', 'TaskNotFoundError')
    assert (second['outcome'], second['error']) == ('RATE_LIMITED', 'RateError')
    assert 'operation' not in second
    assert SECRET not in caplog.text


def test_a_config_is_told_by_its_task(audit: Audit, caplog: pytest.LogCaptureFixture) -> None:
    visit = new_visit()
    config = TaskPushNotificationConfig(id='c', task_id='t', token='a token', url='https://x')
    visit.asks('CreateTaskPushNotificationConfig', config, '')
    audit.done(visit, config)
    assert lines(caplog)[0]['task'] == 't'
    assert 'a token' not in caplog.text


def test_a_call_is_told_once(audit: Audit, caplog: pytest.LogCaptureFixture) -> None:
    visit = new_visit()
    audit.accepted(visit, [Shown(1, 'task', Task(id='t').SerializeToString())])
    audit.done(visit)
    audit.refused(visit, TaskNotFoundError())
    audit.left(visit)
    assert [(line['task'], line['outcome']) for line in lines(caplog)] == [('t', 'OK')]


def test_a_caller_that_has_gone_is_told_too(audit: Audit, caplog: pytest.LogCaptureFixture) -> None:
    audit.left(new_visit())
    assert lines(caplog)[0]['outcome'] == 'CALLER_GONE'


@pytest.mark.parametrize('owner', ['x\n{"outcome": "OK"}', 'x\r\n', '\x1b[31m', 'x\u2028y', '\ud800', '"'])
def test_a_line_stays_one_line_of_ascii(audit: Audit, caplog: pytest.LogCaptureFixture, owner: str) -> None:
    audit.left(new_visit(owner))
    (text,) = [record.getMessage() for record in caplog.records]
    assert text.isascii()
    assert text.isprintable()
    assert lines(caplog)[0]['owner'] == owner


def test_fields_are_bounded(audit: Audit, caplog: pytest.LogCaptureFixture) -> None:
    audit.left(new_visit('x' * 1_000_000))
    assert len(lines(caplog)[0]['owner']) == MOST_CHARACTERS + 3


def test_nothing_is_told_unless_it_is_wanted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    off = Audit(FakeClock(), is_on=False)
    off.done(new_visit(), Task(id='t'))
    off.accepted(new_visit(), [])
    off.refused(new_visit(), TaskNotFoundError())
    off.left(new_visit())
    assert not caplog.records


@pytest.mark.parametrize(
    ('peer', 'host'),
    [
        ('ipv4:127.0.0.1:5000', '127.0.0.1'),
        ('ipv6:%5B::1%5D:5000', '::1'),
        ('ipv6:[fe80::1%25eth0]:5000', 'fe80::1%eth0'),
        ('unix:/run/agent.sock', 'unix:/run/agent.sock'),
        ('', ''),
    ],
)
def test_a_peer_of_grpc_is_told_by_its_host(peer: str, host: str) -> None:
    assert host_of(peer) == host

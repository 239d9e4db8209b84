"""Authentication, limits and the audit log together: the principal is the owner that is counted and told."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from a2a_scribe.auth.principals import IncomingCall, Principal
from a2a_scribe.protocol.faults import UnauthenticatedError
from a2a_scribe.transport.audit import logger
from tests.component.kit import DEADLINE
from tests.component.test_limits import OK, ask
from tests.conformance.over_grpc import GrpcWire
from tests.conformance.over_http import JsonRpcWire, RestWire
from tests.conformance.site import QUICK, Site
from tests.conformance.wire import Wire

pytestmark = pytest.mark.anyio

WIRES = pytest.mark.parametrize('kind', [JsonRpcWire, RestWire, GrpcWire], ids=['jsonrpc', 'rest', 'grpc'])
SECRET = 'secret-of-'


def known(call: IncomingCall) -> Principal:
    for name, value in call.headers:
        if name == 'authorization' and value.startswith(SECRET):
            return Principal(value.removeprefix(SECRET))
    raise UnauthenticatedError


def as_caller(name: str) -> list[tuple[str, str]]:
    return [('authorization', SECRET + name)]


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with asyncio.timeout(3 * DEADLINE), Site(tmp_path) as opened:
        yield opened


@WIRES
async def test_principals_are_counted_and_told_and_strangers_too(
    site: Site, kind: type[Wire], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger.name)
    settings = replace(QUICK, audit_log=True, requests_per_second=0.01, request_burst=2)
    async with site.serving(settings=settings, authenticate=known) as service:
        wire = kind(service)
        outcomes: list[Any] = [await ask(wire, 'ListTasks', {}, as_caller('ann')) for _ in range(3)]
        assert outcomes[:2] == [OK, OK]
        assert outcomes[2].status in (429, 'RESOURCE_EXHAUSTED')
        assert await ask(wire, 'ListTasks', {}, as_caller('bob')) == OK
        for _ in range(3):
            assert (await ask(wire, 'ListTasks', {}, [('authorization', 'wrong')])).status in (401, 'UNAUTHENTICATED')
    lines = [json.loads(record.getMessage()) for record in caplog.records if record.name == logger.name]
    assert [(each.get('owner'), each['outcome']) for each in lines] == [
        ('ann', 'OK'),
        ('ann', 'OK'),
        ('ann', 'RATE_LIMITED'),
        ('bob', 'OK'),
        *[(None, 'UNAUTHENTICATED')] * 3,
    ]
    assert SECRET not in caplog.text
    assert 'wrong' not in caplog.text

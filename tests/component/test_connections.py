"""Connections that are silent, slow, broken or gone, seen from the ASGI side of the app."""

from typing import Any

import pytest

from a2a_scribe import Settings
from a2a_scribe.protocol.states import COMPLETED, INPUT_REQUIRED
from a2a_scribe.testing.agents import ScriptedAgent, artifact, emit, status, task, wait
from tests.component.connections import SENT, observers, pass_a_second, rest, rpc
from tests.component.kit import new_card, running, settle, until

pytestmark = pytest.mark.anyio


async def test_a_silent_stream_is_kept_alive() -> None:
    agent = ScriptedAgent([emit(task()), wait('gate'), emit(status(COMPLETED))])
    async with running(agent, settings=Settings(stream_keep_alive=3)) as site:
        reader = rest(site, '/message:stream')
        await until(lambda: reader.ids)
        assert reader.text.startswith('retry: 1000\n\nid: 2\ndata: {"task":')
        for _ in range(2):
            await pass_a_second(site)
        assert ': keep-alive' not in reader.text
        for _ in range(5):
            await pass_a_second(site)
        assert reader.text.count(': keep-alive\n\n') == 2
        agent.open('gate')
        await reader.task
        assert reader.sent[-1] == {'type': 'http.response.body', 'body': b'', 'more_body': False}


@pytest.mark.parametrize('path', ['/message:stream', '/message:send'])
async def test_a_client_that_has_gone_is_noticed_and_the_agent_goes_on(path: str) -> None:
    agent = ScriptedAgent([emit(task()), wait('gate'), emit(status(COMPLETED))])
    async with running(agent) as site:
        reader = rest(site, path)
        await until(lambda: site.task_ids)
        await pass_a_second(site)
        timers = observers(site)
        reader.go_away()
        await site.advance(1.0)
        await reader.task
        assert observers(site) == timers - 1, 'nobody waits for the client any more'
        agent.open('gate')
        await site.left_memory()
        assert (await site.get(site.task_id, user='')).status.state == COMPLETED


async def test_a_client_of_json_rpc_that_has_gone_gets_no_answer() -> None:
    agent = ScriptedAgent([emit(task()), wait('gate'), emit(status(COMPLETED))])
    async with running(agent) as site:
        reader = rpc(site, 'SendMessage')
        await until(lambda: site.task_ids)
        reader.go_away()
        await site.advance(1.0)
        await reader.task
        assert (reader.status, reader.text) == (499, '')


@pytest.mark.parametrize('middleware', [1, 3])
@pytest.mark.parametrize('path', ['/message:stream', '/message:send', 'SendStreamingMessage', 'SendMessage'])
async def test_a_client_that_has_gone_is_noticed_behind_middleware(path: str, middleware: int) -> None:
    agent = ScriptedAgent([emit(task()), wait('gate'), emit(status(COMPLETED))])
    async with running(agent) as site:
        reader = (rest if path.startswith('/') else rpc)(site, path, middleware=middleware)
        await until(lambda: site.task_ids)
        await pass_a_second(site)
        assert not reader.task.done()
        reader.go_away()
        while not reader.task.done():  # middleware may take longer than the server is given to say so
            await site.advance(1.0)
        await reader.task
        assert observers(site) == 1, 'only the commit loop waits'
        assert reader.status == (200 if 'tream' in path else 499)
        agent.open('gate')
        await site.left_memory()


async def test_a_client_that_goes_while_it_sends_is_noticed_behind_middleware() -> None:
    async with running(ScriptedAgent([])) as site:
        reader = rest(site, '/message:send', middleware=1, whole=False)
        await settle()
        reader.go_away()
        await reader.task
        assert (reader.status, site.task_ids) == (499, [])


async def test_a_client_that_goes_while_events_come_is_noticed_too() -> None:
    agent = ScriptedAgent([emit(task()), wait('first'), emit(artifact()), wait('second'), emit(artifact())])
    async with running(agent) as site:
        reader = rest(site, '/message:stream')
        await until(lambda: reader.ids)
        reader.go_away()
        site.clock.skip(1.0)
        agent.open('first')
        await reader.task
        assert len(reader.ids) == 1


async def test_a_server_that_says_so_when_it_sends_is_believed() -> None:
    agent = ScriptedAgent([emit(task()), wait('gate'), emit(status(COMPLETED))])
    async with running(agent) as site:
        reader = rest(site, '/message:stream')
        await until(lambda: reader.ids)
        reader.broken = ConnectionResetError
        agent.open('gate')
        await reader.task


async def test_a_reader_without_room_holds_up_nobody_and_gets_all_of_it() -> None:
    chunks = [emit(artifact(str(number), append=number > 0)) for number in range(300)]
    agent = ScriptedAgent([emit(task()), wait('gate'), *chunks, emit(status(COMPLETED))])
    async with running(agent, settings=Settings(tail_records=10, tail_bytes=500)) as site:
        slow, quick = rest(site, '/message:stream'), None
        await until(lambda: slow.ids)
        quick = rest(site, f'/tasks/{site.task_id}:subscribe', {})
        await until(lambda: quick.ids)
        slow.room.clear()
        agent.open('gate')
        await quick.task
        assert len(quick.ids) == 302
        await site.left_memory()
        assert len(slow.ids) == 1
        slow.room.set()
        await slow.task
        assert slow.ids == list(range(2, 304))


@pytest.mark.parametrize(('count', 'size'), [(2_000, 100), (40, 5_000), (3, 1_000_000)])
async def test_what_comes_together_is_sent_in_pieces(count: int, size: int) -> None:
    chunks = [emit(artifact(f'{number:0{size}}', append=number > 0)) for number in range(count)]
    agent = ScriptedAgent([emit(task()), *chunks, emit(status(COMPLETED))])
    async with running(agent) as site:
        done = await site.send(user='')
        reader = rest(site, f'/tasks/{done.id}:subscribe', {}, last_event_id='0')
        await reader.task
        assert reader.ids == list(range(2, count + 4))
        pieces = [len(message.get('body', b'')) for message in reader.sent]
        assert max(pieces) <= 256_000
        assert len(pieces) < 10 + sum(pieces) / 50_000


@pytest.mark.parametrize('last', ['', '0', '2', '3'])
async def test_a_resumed_stream_is_accepted_at_once_and_goes_on(last: str) -> None:
    agent = ScriptedAgent([emit(status(INPUT_REQUIRED))], [emit(status(COMPLETED))])
    async with running(agent) as site:
        parked = await site.send(user='')
        await site.left_memory()
        given: dict[str, Any] = {'last_event_id': last} if last else {}
        reader = rest(site, f'/tasks/{parked.id}:subscribe', {}, **given)
        await until(lambda: reader.status == 200)
        await settle()
        last_seq = len(await site.records(parked.id))
        assert reader.ids == {'': [last_seq], '0': [2, 3], '2': [3], '3': []}[last]
        await site.send(task_id=parked.id, user='')
        await reader.task
        assert reader.ids[-1] == len(await site.records(parked.id)) - 1


async def test_an_error_after_the_first_event_is_told_in_the_stream() -> None:
    agent = ScriptedAgent([emit(status(INPUT_REQUIRED))])
    async with running(agent) as site:
        parked = await site.send(user='')
        await site.left_memory()
        one = rest(site, f'/tasks/{parked.id}:subscribe', {})
        other = rpc(site, 'SubscribeToTask', {'id': parked.id})
        await until(lambda: one.ids and other.ids)
        await site.journal.delete_task(parked.id, site.caller(''))
        await site.advance(1.0)
        await one.task
        await other.task
        assert 'event: error\ndata: {"error":{"code":404,"status":"NOT_FOUND"' in one.text
        assert 'event: error\ndata: {"jsonrpc":"2.0","id":7,"error":{"code":-32001' in other.text


async def test_an_error_before_the_first_event_is_an_answer() -> None:
    async with running(ScriptedAgent([]), card=new_card(streaming=False)) as site:
        for path in ('/message:stream', '/tasks/none:subscribe'):
            reader = rest(site, path, SENT if 'message' in path else {})
            await reader.task
            assert (reader.status, 'UNSUPPORTED_OPERATION' in reader.text) == (400, True)
        assert site.task_ids == []


async def test_an_error_for_a_client_that_has_gone_is_no_error_of_ours() -> None:
    async with running(ScriptedAgent([])) as site:
        readers = [rest(site, '/nope', {}), rpc(site, 'Nope')]
        for reader in readers:
            reader.broken = ConnectionResetError
        for reader in readers:
            await reader.task
            assert reader.sent == []

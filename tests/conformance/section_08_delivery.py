"""Section 8: what webhooks receive, how often, in which order, and what it costs the task.

What a receiver sees does not depend on the binding of whoever made the config. That this holds is checked on all of
them; the rest on one.
"""

from starlette.responses import Response

from tests.conformance.kit import begun, stream, task_of
from tests.conformance.receiver import Receiver, receiving
from tests.conformance.section_08_push_configs import CREATE
from tests.conformance.site import Site
from tests.conformance.table import Section
from tests.conformance.wire import JSONRPC, Collected, Wire

SECTION = Section(8, 'Push notifications: delivery')

SCRIPT = 'work:begun artifact:a more:a complete:done'


async def at_webhooks(wire: Wire, site: Site) -> Wire:
    """The wire to the service that may call receivers on loopback."""
    return wire.at(await site.service('webhooks'))


async def watched(wire: Wire, site: Site, receiver: Receiver, script: str = SCRIPT) -> Collected:
    """Streams a message with a receiver for its task, and returns the stream when it has ended."""
    collected = await stream(await at_webhooks(wire, site), script, configuration=receiver.inline())
    collected.ok()
    return collected


PAYLOAD = SECTION.must('4.3.3', 'Each event is a POST of a StreamResponse in JSON, whatever binding the client uses')


@PAYLOAD.check()
async def webhook_receives_the_events_of_the_stream(wire: Wire, site: Site) -> None:
    async with receiving() as receiver:
        collected = await watched(wire, site, receiver)
        calls = await receiver.until_state('COMPLETED')
    assert [call.event.kind for call in calls] == collected.kinds
    assert {(call.method, call.path) for call in calls} == {('POST', '/hook')}
    for call, event in zip(calls, collected.events, strict=True):
        assert call.event.state == event.state
        assert {call.event.value.get('id'), call.event.value.get('taskId')} & {collected.events[0].value['id']}
        if not wire.is_grpc:
            assert call.event.data == event.data


@PAYLOAD.check()
async def webhook_of_a_created_config_receives_what_follows(wire: Wire, site: Site) -> None:
    own = await at_webhooks(wire, site)
    async with receiving() as receiver:
        task = await task_of(own, 'ask')
        await own.call(CREATE, {'taskId': task['id'], **receiver.config()})
        await task_of(own, SCRIPT, taskId=task['id'])
        calls = await receiver.until_state('COMPLETED')
    updates = [call.event.kind for call in calls if call.event.kind != 'task']
    assert updates[-4:] == ['statusUpdate', 'artifactUpdate', 'artifactUpdate', 'statusUpdate']


MEDIA_TYPE = SECTION.should('4.3.3', 'Its media type is `application/a2a+json`', sdk_fails=True)


@MEDIA_TYPE.check(on=JSONRPC)
async def notification_says_its_media_type(wire: Wire, site: Site) -> None:
    async with receiving() as receiver:
        await watched(wire, site, receiver)
        call = await receiver.next()
    assert call.headers['content-type'].partition(';')[0] == 'application/a2a+json'


CREDENTIALS = SECTION.must('4.3.3', 'Calls carry the `Authorization` of the config, and its token')


@CREDENTIALS.check()
async def notification_carries_credentials_and_token(wire: Wire, site: Site) -> None:
    own = await at_webhooks(wire, site)
    for scheme in ('Bearer', 'bearer'):
        async with receiving() as receiver:
            authentication = {'scheme': scheme, 'credentials': 'secret'}
            await task_of(own, SCRIPT, configuration=receiver.inline(token='t', authentication=authentication))
            calls = await receiver.until_state('COMPLETED')
        for call in calls:
            given, _, credentials = call.headers['authorization'].partition(' ')
            assert (given.lower(), credentials) == ('bearer', 'secret')
            assert call.headers['x-a2a-notification-token'] == 't'


@CREDENTIALS.check(on=JSONRPC)
async def notification_without_credentials_carries_none(wire: Wire, site: Site) -> None:
    async with receiving() as receiver:
        await watched(wire, site, receiver)
        call = await receiver.next()
    assert 'authorization' not in call.headers
    assert 'x-a2a-notification-token' not in call.headers


EVERY = SECTION.must('4.3.3', 'Each webhook of a task has at least one call for each event', sdk_fails=True)


@EVERY.check(on=JSONRPC)
async def all_webhooks_of_a_task_receive_all_events(wire: Wire, site: Site) -> None:
    own = await at_webhooks(wire, site)
    async with receiving() as one, receiving() as other:
        gate = site.unique('gate')
        task = await begun(own, f'hold:{gate} {SCRIPT}', configuration=one.inline())
        await own.call(CREATE, {'taskId': task['id'], **other.config()})
        own.service.agent.open(gate)
        kinds = [[call.event.kind for call in await each.until_state('COMPLETED')] for each in (one, other)]
    for each in kinds:
        assert each[-4:] == ['statusUpdate', 'artifactUpdate', 'artifactUpdate', 'statusUpdate']


@EVERY.check(on=JSONRPC)
async def cancel_is_an_event_too(wire: Wire, site: Site) -> None:
    own = await at_webhooks(wire, site)
    async with receiving() as receiver:
        task = await task_of(own, 'ask', configuration=receiver.inline())
        await own.call('CancelTask', {'id': task['id']})
        await receiver.until_state('CANCELED')


RETRIES = SECTION.should('13.2', 'A call that fails is tried again, less and less often', sdk_fails=True)


@RETRIES.check(on=JSONRPC)
async def failed_call_is_tried_again(wire: Wire, site: Site) -> None:
    async with receiving() as receiver:
        receiver.answers = [Response(status_code=503), Response(status_code=500)]
        collected = await watched(wire, site, receiver)
        calls = await receiver.until_state('COMPLETED')
    assert [call.event.kind for call in calls] == collected.kinds[:1] * 2 + collected.kinds


TIMEOUT = SECTION.should('4.3.3', 'A call that is not answered is given up after a time, and tried again')


@TIMEOUT.check(on=JSONRPC)
async def call_without_an_answer_is_given_up(wire: Wire, site: Site) -> None:
    async with receiving() as receiver:
        receiver.gate.clear()
        await watched(wire, site, receiver)
        first, again = await receiver.next(), await receiver.next()
    assert again.event == first.event


SLOW = SECTION.ours('runtime', 'A slow webhook does not slow its task', sdk_fails=True)


@SLOW.check(on=JSONRPC)
async def task_does_not_wait_for_its_webhook(wire: Wire, site: Site) -> None:
    async with receiving() as receiver:
        receiver.gate.clear()
        collected = await watched(wire, site, receiver)
        assert collected.states[-1] == 'COMPLETED'
        await receiver.next()


@SLOW.check(on=JSONRPC)
async def webhook_does_not_wait_for_another(wire: Wire, site: Site) -> None:
    own = await at_webhooks(wire, site)
    async with receiving() as slow, receiving() as quick:
        slow.gate.clear()
        task = await task_of(own, 'ask', configuration=slow.inline())
        await slow.next()
        await own.call(CREATE, {'taskId': task['id'], **quick.config()})
        await task_of(own, SCRIPT, taskId=task['id'])
        await quick.until_state('COMPLETED')


DUPLICATES = SECTION.should('T:streaming', 'Calls of a webhook are in order, and what is sent again is the same')


@DUPLICATES.check(on=JSONRPC)
async def notifications_are_in_order(wire: Wire, site: Site) -> None:
    async with receiving() as receiver:
        await watched(wire, site, receiver, 'work chunks:30 complete')
        calls = await receiver.until_state('COMPLETED')
    texts = [call.event.text for call in calls if call.event.kind == 'artifactUpdate']
    assert texts == [f'{number} ' for number in range(30)]


@DUPLICATES.check(on=JSONRPC)
async def repeated_notification_is_the_same(wire: Wire, site: Site) -> None:
    async with receiving() as receiver:
        receiver.answers = [Response(status_code=503)]
        await watched(wire, site, receiver)
        first, again = await receiver.next(), await receiver.next()
    assert first.body == again.body
    assert first.headers['x-a2a-event-id'] == again.headers['x-a2a-event-id']

"""Webhooks are called for every event, in order, again if they fail, and cost their task nothing."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from a2a.server.tasks import InMemoryTaskStore, PushNotificationSender
from a2a.types.a2a_pb2 import (
    AuthenticationInfo,
    DeleteTaskPushNotificationConfigRequest,
    ListTaskPushNotificationConfigsRequest,
    SendMessageConfiguration,
)

from a2a_scribe import DefaultRequestHandler, Settings
from a2a_scribe.core.records import Record
from a2a_scribe.errors import JournalUnavailableError, SettingsError
from a2a_scribe.journal.deliveries import Delivery, DeliveryKey, DeliveryQuery, KeepDeliveries
from a2a_scribe.journal.memory import MemoryJournal
from a2a_scribe.journal.results import Receipt
from a2a_scribe.journal.writes import Group
from a2a_scribe.protocol.states import COMPLETED, INPUT_REQUIRED, WORKING
from a2a_scribe.protocol.types import Task, TaskPushNotificationConfig
from a2a_scribe.push.delivery import Answer, DeliveryFailedError, Outgoing
from a2a_scribe.push.probing import probe
from a2a_scribe.push.webhooks import Webhooks
from a2a_scribe.testing.agents import ScriptedAgent, artifact, emit, status, task, wait
from a2a_scribe.testing.journals import TroubledJournal
from tests.component.kit import Site, new_card, new_context, new_request, new_site, running, settle, until
from tests.component.receivers import URL, Receivers, config, event_of, seqs

pytestmark = pytest.mark.anyio

TRACE = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
OTHER = 'https://other.example/hook'
SCRIPT = [
    emit(task()),
    emit(status(WORKING)),
    emit(artifact('one', 'a')),
    emit(artifact('two', 'a', append=True)),
    emit(status(COMPLETED)),
]
SAID = ['SUBMITTED', 'WORKING', 'one', 'two', 'COMPLETED']
PARK = [emit(status(INPUT_REQUIRED))]


def with_hook(url: str = URL, **given: Any) -> SendMessageConfiguration:
    """What a message says that brings a webhook."""
    return SendMessageConfiguration(task_push_notification_config=config(url, **given))


async def create(site: Site, task_id: str, url: str = URL, **given: Any) -> TaskPushNotificationConfig:
    context = new_context()
    return await site.handler.on_create_task_push_notification_config(config(url, task_id=task_id, **given), context)


async def delete(site: Site, task_id: str, config_id: str) -> None:
    request = DeleteTaskPushNotificationConfigRequest(task_id=task_id, id=config_id)
    await site.handler.on_delete_task_push_notification_config(request, new_context())


async def deliveries(site: Site) -> list[Delivery]:
    return await site.memory.list_deliveries(DeliveryQuery())


async def only(site: Site) -> Delivery:
    """The only config."""
    (found,) = await deliveries(site)
    return found


async def until_removed(site: Site) -> None:
    """Waits until no config is left."""
    for _ in range(2_000):
        if not await deliveries(site):
            return
        await asyncio.sleep(0)
    raise AssertionError(await deliveries(site))


# -- what is sent


async def test_a_receiver_is_sent_every_event_in_order_and_its_config_goes() -> None:
    hooks = Receivers()
    async with running(ScriptedAgent(SCRIPT), webhooks=hooks.options) as site:
        done = await site.send(configuration=with_hook())
        await until_removed(site)
        assert hooks.states() == SAID
        assert [list(event_of(call)) for call in hooks.calls] == [
            ['task'], ['statusUpdate'], ['artifactUpdate'], ['artifactUpdate'], ['statusUpdate']
        ]  # fmt: skip
        assert {call.task_id for call in hooks.calls} == {done.id}
        assert seqs(hooks.calls) == [2, 3, 4, 5, 6]
        counters = site.handler.delivery_counters
        assert (counters.attempts, counters.delivered, counters.failed, counters.held) == (5, 5, 0, 0)
    assert hooks.is_closed


async def test_calls_carry_what_the_config_and_the_protocol_ask_for() -> None:
    hooks = Receivers(503)
    authentication = AuthenticationInfo(scheme='Bearer', credentials='secret')
    async with running(ScriptedAgent(SCRIPT), webhooks=hooks.options) as site:
        context = new_context()
        context.state['headers'] = {'traceparent': TRACE}
        request = with_hook(token='t', authentication=authentication)
        done = await site.send_as(context, configuration=request)
        await until(lambda: hooks.calls)
        await site.advance(1.0)
        await until_removed(site)
    first, again, *_ = hooks.calls
    assert dict(first.headers) == {
        'Content-Type': 'application/a2a+json',
        'X-A2A-Event-Id': f'{done.id}/2',
        'X-A2A-Delivery-Attempt': '1',
        'X-A2A-Notification-Token': 't',
        'Authorization': 'Bearer secret',
        'traceparent': TRACE,
    }
    assert again.headers['X-A2A-Delivery-Attempt'] == '2'
    assert (first.body, first.event_id) == (again.body, again.event_id)
    assert again.sent_at > first.sent_at


async def test_a_signer_signs_each_attempt_with_its_secrets_opened() -> None:
    class Signing:
        def sign(self, outgoing: Outgoing) -> dict[str, str]:
            return {'Signature': f'{outgoing.attempt} {outgoing.headers["X-A2A-Notification-Token"]}'}

    def opened(sealed: TaskPushNotificationConfig) -> TaskPushNotificationConfig:
        return config(URL, task_id=sealed.task_id, id=sealed.id, token=f'open {sealed.token}')

    hooks = Receivers(503)
    options = Webhooks(make_poster=hooks.options.make_poster, signer=Signing(), open_config=opened, chance=lambda: 0.0)
    async with running(ScriptedAgent(SCRIPT), webhooks=options) as site:
        await site.send(configuration=with_hook(token='t'))
        await until_removed(site)
    assert [call.headers['Signature'] for call in hooks.calls[:3]] == ['1 open t', '2 open t', '1 open t']


async def test_who_wants_status_changes_only_gets_artifacts_with_the_next_one() -> None:
    hooks = Receivers(200, 200, 503)
    settings = Settings(webhook_events='status')
    async with running(ScriptedAgent(SCRIPT), webhooks=hooks.options, settings=settings) as site:
        await site.send(configuration=with_hook())
        await until(lambda: len(hooks.calls) == 3)
        await site.advance(1)
        await until_removed(site)
    assert hooks.states() == ['SUBMITTED', 'WORKING', 'COMPLETED', 'COMPLETED']
    assert hooks.calls[2].body == hooks.calls[3].body
    ((kind, whole),) = event_of(hooks.calls[-1]).items()
    assert (kind, [part['text'] for part in whole['artifacts'][0]['parts']]) == ('task', ['one', 'two'])


async def test_an_operator_may_choose_for_each_config() -> None:
    hooks = Receivers()
    options = replace(hooks.options, events_of=lambda config: 'all' if config.url == OTHER else 'status')
    async with running(ScriptedAgent(SCRIPT, SCRIPT), webhooks=options) as site:
        await site.send(configuration=with_hook())
        await site.send(configuration=with_hook(OTHER))
        await until_removed(site)
    assert hooks.states() == ['SUBMITTED', 'WORKING', 'COMPLETED']
    assert hooks.states(OTHER) == SAID


# -- where it begins


async def test_a_config_made_in_the_middle_begins_there() -> None:
    hooks = Receivers()
    agent = ScriptedAgent([*SCRIPT[:2], wait('gate'), *SCRIPT[2:]])
    async with running(agent, webhooks=hooks.options) as site:
        begun = await site.begin_task()
        await until(lambda: len(site.task_ids) == 1)
        await settle()
        await create(site, begun.id)
        agent.open('gate')
        await until_removed(site)
    assert hooks.states() == SAID[2:]


async def test_a_config_that_comes_with_a_later_message_hears_all_of_its_turn() -> None:
    hooks = Receivers()
    async with running(ScriptedAgent([emit(task()), *PARK], SCRIPT[1:]), webhooks=hooks.options) as site:
        parked = await site.send()
        await site.send(task_id=parked.id, configuration=with_hook())
        await until_removed(site)
    assert hooks.states() == SAID[1:]


async def test_a_config_stays_while_its_task_waits_and_goes_on_with_the_next_turn() -> None:
    hooks = Receivers()
    async with running(ScriptedAgent([emit(task()), *PARK], SCRIPT[1:]), webhooks=hooks.options) as site:
        parked = await site.send(configuration=with_hook())
        await until(lambda: site.handler.delivery_counters.held == 0 and len(hooks.calls) == 2)
        assert (await only(site)).node is None
        await site.send(task_id=parked.id)
        await until_removed(site)
    assert hooks.states() == ['SUBMITTED', 'INPUT_REQUIRED', *SAID[1:]]


async def test_several_configs_of_a_task_are_called_side_by_side() -> None:
    hooks = Receivers()
    hooks.shut()
    async with running(ScriptedAgent([emit(task()), *PARK], SCRIPT[1:]), webhooks=hooks.options) as site:
        parked = await site.send(configuration=with_hook())
        await create(site, parked.id, OTHER)
        await site.send(task_id=parked.id)
        await until(lambda: hooks.states(OTHER) == SAID[1:])
        assert hooks.states() == ['SUBMITTED']
        hooks.open()
        await until_removed(site)
    assert hooks.states() == ['SUBMITTED', 'INPUT_REQUIRED', *SAID[1:]]


# -- failures


async def test_a_call_that_fails_is_made_again_less_and_less_often_and_holds_the_order() -> None:
    hooks = Receivers(503, DeliveryFailedError('refused'), 500)
    async with running(ScriptedAgent(SCRIPT), webhooks=hooks.options) as site:
        await site.send(configuration=with_hook())
        await until(lambda: hooks.calls)
        for seconds, calls in ((0.9, 1), (0.1, 2), (1.9, 2), (0.1, 3), (3.9, 3)):
            await site.advance(seconds)
            assert len(hooks.calls) == calls
        found = await only(site)
        assert (found.attempts, found.last_error, found.state) == (3, 'HTTP 500', 'active')
        await site.advance(0.1)
        await until_removed(site)
    assert hooks.states() == [SAID[0]] * 3 + SAID
    assert seqs(hooks.calls) == [2, 2, 2, 2, 3, 4, 5, 6]


async def test_a_pause_that_a_receiver_asks_for_is_kept() -> None:
    hooks = Receivers(Answer(429, retry_after=100))
    async with running(ScriptedAgent(SCRIPT), webhooks=hooks.options) as site:
        await site.send(configuration=with_hook())
        await until(lambda: hooks.calls)
        await site.advance(50)
        assert (await only(site)).node is None, 'for so long it is not held'
        await site.advance(49)
        assert len(hooks.calls) == 1
        await site.advance(2)
        await until_removed(site)
    assert hooks.states() == [SAID[0], *SAID]


@pytest.mark.parametrize('answer', [404, 410, 400, 422, DeliveryFailedError('not allowed', is_final=True)], ids=str)
async def test_an_answer_that_is_final_suspends_the_config(answer: Any) -> None:
    hooks = Receivers(answer)
    async with running(ScriptedAgent(SCRIPT), webhooks=hooks.options) as site:
        done = await site.send(configuration=with_hook())
        await until(lambda: site.handler.delivery_counters.suspended == 1)
        await site.advance(10)
        found = await only(site)
        reason = answer.reason if isinstance(answer, DeliveryFailedError) else f'HTTP {answer}'
        assert (found.state, found.last_error, found.node, found.position) == ('suspended', reason, None, 1)
        assert len(hooks.calls) == 1
        assert await site.journal.set_delivery(DeliveryKey(done.id, found.config.id), 'active')
        await site.advance(1)
        await until_removed(site)
    assert hooks.states() == [SAID[0], *SAID]


async def test_a_receiver_that_never_answers_well_is_suspended_after_a_time() -> None:
    hooks = Receivers(chance=0.5)
    hooks.answer = lambda _: 503
    agent = ScriptedAgent([*SCRIPT[:2], wait('gate')])
    settings = Settings(webhook_give_up_after=100, webhook_give_up_after_end=300, webhook_longest_pause=10)
    async with running(agent, webhooks=hooks.options, settings=settings) as site:
        await site.begin_task(configuration=None)
        await create(site, site.task_id)
        agent.open('gate')
        await site.left_memory()
        await until(lambda: hooks.calls)
        for _ in range(130):
            await site.advance(1)
        assert (await only(site)).state == 'active', 'its task has ended'
        for _ in range(200):
            await site.advance(1)
        assert (await only(site)).state == 'suspended'


async def test_a_receiver_of_a_task_that_goes_on_is_suspended_sooner() -> None:
    hooks = Receivers(chance=0.5)
    hooks.answer = lambda _: 503
    settings = Settings(webhook_give_up_after=100, webhook_longest_pause=10)
    async with running(ScriptedAgent([emit(task()), *PARK]), webhooks=hooks.options, settings=settings) as site:
        await site.send(configuration=with_hook())
        for _ in range(115):
            await site.advance(1)
        assert (await only(site)).state == 'suspended'


async def test_what_was_delivered_can_be_replayed() -> None:
    hooks = Receivers()
    async with running(ScriptedAgent([emit(task()), *PARK]), webhooks=hooks.options) as site:
        await site.send(configuration=with_hook())
        await until(lambda: len(hooks.calls) == 2)
        assert await site.journal.set_delivery((await only(site)).key, 'active', 0)
        await site.advance(1)
        assert hooks.states() == ['SUBMITTED', 'INPUT_REQUIRED'] * 2


async def test_a_receiver_can_be_tried_out_of_turn() -> None:
    hooks = Receivers()
    async with running(ScriptedAgent([emit(task()), *PARK]), webhooks=hooks.options) as site:
        parked = await site.send(configuration=with_hook(token='t'))
        await until(lambda: len(hooks.calls) == 2)
        await settle()
        before = await only(site)
        hooks.replies = [418]
        assert await probe(site.journal, before.key, hooks.options, hooks, site.clock) == Answer(418)
        assert await only(site) == before
        assert await probe(site.journal, DeliveryKey(parked.id, 'x'), hooks.options, hooks, site.clock) is None
    sent = hooks.calls[-1]
    assert (list(event_of(sent)), sent.headers['X-A2A-Delivery-Attempt']) == (['task'], '0')
    assert sent.headers['X-A2A-Notification-Token'] == 't'


async def test_what_cannot_be_read_is_not_looked_for_without_a_pause() -> None:
    class Blind(TroubledJournal):
        async def read_records(self, task_id: str, after: int, limit: int, max_bytes: int) -> list[Record]:
            return []

    hooks, journal = Receivers(), Blind(MemoryJournal())
    async with running(ScriptedAgent([emit(task()), *PARK]), webhooks=hooks.options, journal=journal) as site:
        parked = await site.send()
        await create(site, parked.id)
        await site.journal.set_delivery((await only(site)).key, 'active', 0)
        groups = len(journal.attempts)
        for _ in range(5):
            await site.advance(1)
        assert len(journal.attempts) - groups <= 20


async def test_a_fault_of_a_poster_is_a_failure_like_others() -> None:
    class Broken(Receivers):
        async def post(self, outgoing: Outgoing) -> Answer:
            if not self.calls:
                self.calls.append(outgoing)
                raise ZeroDivisionError
            return await super().post(outgoing)

    hooks = Broken(chance=0.0)
    async with running(ScriptedAgent(SCRIPT), webhooks=hooks.options) as site:
        await site.send(configuration=with_hook())
        await until_removed(site)
    assert hooks.states() == [SAID[0], *SAID]


async def test_a_fault_of_ours_is_a_failure_like_others(caplog: pytest.LogCaptureFixture) -> None:
    hooks = Receivers(chance=0.5)
    settings = Settings(webhook_events='status')

    def choose(_: TaskPushNotificationConfig) -> TaskPushNotificationConfig:
        raise ZeroDivisionError

    options = replace(hooks.options, open_config=choose)
    async with running(ScriptedAgent(SCRIPT), webhooks=options, settings=settings) as site:
        await site.send(configuration=with_hook())
        await site.advance(10)
        found = await only(site)
        assert (found.last_error, found.attempts > 1, found.state) == (
            'internal error (ZeroDivisionError)', True, 'active'
        )  # fmt: skip
    assert 'could not go on' in caplog.text


async def test_a_secret_that_no_key_opens_is_said_and_waits_for_its_key(caplog: pytest.LogCaptureFixture) -> None:
    hooks = Receivers(chance=0.5)
    told = 'No key in webhook_keys opens a secret that is in the database'
    keys = [False]

    def unseal(config: TaskPushNotificationConfig) -> TaskPushNotificationConfig:
        if not keys[0]:
            raise SettingsError(told)
        return config

    options = replace(hooks.options, open_config=unseal)
    settings = Settings(webhook_give_up_after=5, webhook_give_up_after_end=5)
    async with running(ScriptedAgent(SCRIPT), webhooks=options, settings=settings) as site:
        await site.send(configuration=with_hook())
        await site.advance(60)
        found = await only(site)
        assert (found.last_error, found.attempts > 1, found.state) == (told, True, 'active')
        assert hooks.calls == []
        keys[0] = True
        await site.advance(120)
        await until_removed(site)
    assert hooks.states() == SAID
    assert f'is not called: {told}' in caplog.text
    assert 'Traceback' not in caplog.text


async def test_a_turn_that_goes_on_elsewhere_keeps_its_trace() -> None:
    hooks = Receivers(200, 503)
    async with running(ScriptedAgent(SCRIPT), webhooks=hooks.options) as site:
        context = new_context()
        context.state['headers'] = {'traceparent': TRACE}
        await site.send_as(context, configuration=with_hook())
        await until(lambda: len(hooks.calls) == 2)
        await settle()
        await site.close()
        second = new_site(ScriptedAgent(), journal=site.journal, clock=site.clock, webhooks=hooks.options)
        await second.handler.start()
        await site.advance(2)
        await until_removed(second)
        await second.close()
    assert {call.headers.get('traceparent') for call in hooks.calls} == {TRACE}


@pytest.mark.parametrize('trace', ['', 'nonsense', 'a\r\nb', '00-abc'])
async def test_what_is_no_trace_is_not_passed_on(trace: str) -> None:
    hooks = Receivers()
    async with running(ScriptedAgent(SCRIPT), webhooks=hooks.options) as site:
        context = new_context()
        context.state['headers'] = {'traceparent': trace}
        await site.send_as(context, configuration=with_hook())
        await until_removed(site)
    assert all('traceparent' not in call.headers for call in hooks.calls)


# -- the task does not wait


async def test_a_receiver_that_does_not_answer_holds_nobody_up() -> None:
    hooks = Receivers()
    hooks.shut()
    async with running(ScriptedAgent(SCRIPT, SCRIPT), webhooks=hooks.options) as site:
        done = await site.send(configuration=with_hook())
        assert done.status.state == COMPLETED
        await site.left_memory()
        await site.send(configuration=with_hook(OTHER))
        await until(lambda: hooks.states(OTHER) == SAID)
        assert hooks.states() == ['SUBMITTED']
        assert site.handler.delivery_counters.age_of_oldest(site.clock.now() + 2_000_000) == 2.0
        hooks.open()
        await until_removed(site)


async def test_workers_are_bounded_and_slow_receivers_have_half_of_them() -> None:
    hooks = Receivers(chance=0.0)
    hooks.answer = lambda call: 503 if 'dead' in call.url and hooks.deaf else 200
    hooks.deaf = True
    dead = [f'https://dead{number}.example' for number in range(6)]
    agent = ScriptedAgent(*[SCRIPT] * 7)
    settings = Settings(webhook_workers=4)
    async with running(agent, webhooks=hooks.options, settings=settings) as site:
        for url in dead:
            await site.send(configuration=with_hook(url))
        await until(lambda: all(hooks.of(url) for url in dead))
        for url in dead:
            hooks.shut(url)
        await until(lambda: hooks.running == 2)
        await settle()
        assert hooks.running == 2
        await site.send(configuration=with_hook())
        await until(lambda: hooks.states() == SAID)
        hooks.deaf = False
        for url in dead:
            hooks.open(url)
        await until_removed(site)
        assert hooks.most_running <= 4


# -- deletion


async def test_deletion_abandons_the_attempt_under_way() -> None:
    hooks = Receivers()
    hooks.shut()
    async with running(ScriptedAgent(SCRIPT), webhooks=hooks.options) as site:
        done = await site.send(configuration=with_hook(id='mine'))
        await until(lambda: hooks.running)
        await delete(site, done.id, 'mine')
        await until(lambda: hooks.abandoned == 1)
        hooks.open()
        await site.advance(100)
        assert len(hooks.calls) == 1
        assert await deliveries(site) == []


async def test_deletion_during_a_pause_ends_it() -> None:
    hooks = Receivers(503, chance=0.5)
    async with running(ScriptedAgent(SCRIPT), webhooks=hooks.options) as site:
        done = await site.send(configuration=with_hook(id='mine'))
        await until(lambda: hooks.calls)
        await settle()
        await delete(site, done.id, 'mine')
        await site.advance(100)
        assert len(hooks.calls) == 1
        assert site.handler.delivery_counters.held == 0


@pytest.mark.parametrize('when', ['under way', 'in a pause'])
async def test_deletion_by_another_process_ends_attempts_too(when: str) -> None:
    hooks = Receivers(503, chance=0.5)
    if when == 'under way':
        hooks.shut()
    async with running(ScriptedAgent(SCRIPT), webhooks=hooks.options) as site:
        other = new_site(ScriptedAgent(), journal=site.journal, clock=site.clock, webhooks=hooks.options)
        done = await site.send(configuration=with_hook(id='mine'))
        await until(lambda: hooks.calls)
        await settle()
        await delete(other, done.id, 'mine')
        await site.advance(1)
        await site.advance(10)
        assert len(hooks.calls) == 1
        assert hooks.abandoned == (when == 'under way')
        await other.close()


async def test_a_config_that_is_replaced_goes_on_at_its_new_place() -> None:
    hooks = Receivers()
    hooks.shut()
    async with running(ScriptedAgent(SCRIPT), webhooks=hooks.options) as site:
        done = await site.send(configuration=with_hook(id='mine'))
        await until(lambda: hooks.running)
        await create(site, done.id, OTHER, id='mine')
        await until_removed(site)
    assert (hooks.abandoned, len(hooks.of())) == (1, 1)
    assert hooks.states(OTHER) == SAID


async def test_a_task_that_is_deleted_takes_its_configs_along() -> None:
    hooks = Receivers(503, chance=0.5)
    async with running(ScriptedAgent(SCRIPT), webhooks=hooks.options, checked=False) as site:
        done = await site.send(configuration=with_hook())
        await until(lambda: hooks.calls)
        await site.left_memory()
        assert await site.journal.delete_task(done.id, site.caller())
        await site.advance(100)
        assert len(hooks.calls) == 1
        assert site.handler.delivery_counters.held == 0


@pytest.mark.parametrize('has_sender', [False, True])
async def test_an_old_task_is_kept_for_those_who_have_not_heard_of_it(has_sender: bool) -> None:
    class Sender(PushNotificationSender):
        async def send_notification(self, task_id: str, event: Any) -> None:
            """Somebody else's business."""

    hooks = Receivers(Answer(503, retry_after=60))
    given: dict[str, Any] = {'push_sender': Sender()} if has_sender else {}
    settings = Settings(retain_completed=1, retention_interval=1)
    async with running(
        ScriptedAgent(SCRIPT), webhooks=hooks.options, settings=settings, checked=False, **given
    ) as site:
        done = await site.send(configuration=with_hook())
        await site.left_memory()
        await site.advance(10)
        assert (site.memory.row(done.id) is None) is has_sender
        await site.advance(60)
        await site.advance(10)
        assert site.memory.row(done.id) is None
    assert hooks.states() == ([] if has_sender else [SAID[0], *SAID])


# -- processes come and go


async def test_closing_lets_an_attempt_finish_and_gives_the_config_back() -> None:
    hooks = Receivers()
    hooks.shut()
    agent = ScriptedAgent(SCRIPT)
    first = new_site(agent, webhooks=hooks.options)
    await first.send(configuration=with_hook())
    await until(lambda: hooks.running)
    closing = asyncio.create_task(first.close())
    await settle()
    hooks.open()
    await closing
    left = await only(first)
    assert (left.node, left.position, len(hooks.calls)) == (None, 2, 1)
    second = new_site(ScriptedAgent(), journal=first.journal, clock=first.clock, webhooks=hooks.options)
    await second.handler.start()
    await until_removed(second)
    await second.close()
    assert hooks.states() == SAID


async def test_closing_waits_for_no_receiver_beyond_its_deadline() -> None:
    hooks = Receivers()
    hooks.shut()
    async with running(ScriptedAgent(SCRIPT), webhooks=hooks.options) as site:
        await site.send(configuration=with_hook())
        await until(lambda: hooks.running)
        await site.close()
        left = await only(site)
        assert (left.node, left.position, hooks.abandoned) == (None, 1, 1)


async def test_what_a_dead_process_held_is_delivered_by_another() -> None:
    hooks = Receivers()
    hooks.shut()
    async with running(ScriptedAgent(SCRIPT), webhooks=hooks.options) as site:
        await site.send(configuration=with_hook())
        await until(lambda: hooks.running)
        node = (await only(site)).node
        assert node is not None
        others = Receivers()
        journal = TroubledJournal(site.memory)
        other = new_site(ScriptedAgent(), journal=journal, clock=site.clock, webhooks=others.options)
        await other.handler.start()
        await site.advance(1)
        assert others.calls == []
        site.journal.is_away = True
        site.memory.fence(node)
        await site.advance(3)
        await until_removed(other)
        assert others.states() == SAID
        site.journal.heal()
        await site.advance(3)
        assert hooks.abandoned == 1
        await other.close()


async def test_who_only_delivers_shows_that_it_lives() -> None:
    hooks = Receivers()
    hooks.shut()
    async with running(ScriptedAgent(SCRIPT), webhooks=hooks.options) as site:
        await site.send(configuration=with_hook())
        await until(lambda: hooks.running)
        await site.left_memory()
        other = new_site(ScriptedAgent(), journal=site.journal, clock=site.clock, webhooks=hooks.options)
        await other.handler.start()
        for _ in range(14):
            await site.advance(1)
        assert len(hooks.calls) == 1
        hooks.open()
        await until_removed(site)
        await other.close()
    assert hooks.states() == SAID


async def test_tasks_in_a_store_of_the_users_have_webhooks_too() -> None:
    hooks = Receivers(503, chance=0.0)
    handler = DefaultRequestHandler(
        ScriptedAgent([emit(task()), *PARK], SCRIPT[1:]), InMemoryTaskStore(), new_card(), webhooks=hooks.options
    )
    parked = await handler.on_message_send(new_request(configuration=with_hook()), new_context())
    assert isinstance(parked, Task)
    await handler.on_message_send(new_request(task_id=parked.id), new_context())
    await until(lambda: len(hooks.calls) == 7)
    asked = ListTaskPushNotificationConfigsRequest(task_id=parked.id)
    for _ in range(2_000):
        if not (await handler.on_list_task_push_notification_configs(asked, new_context())).configs:
            break
        await asyncio.sleep(0)
    await handler.aclose()
    assert hooks.states() == ['SUBMITTED', 'SUBMITTED', 'INPUT_REQUIRED', *SAID[1:]]


async def test_who_brings_a_sender_of_their_own_has_it_called_instead() -> None:
    class Sender(PushNotificationSender):
        async def send_notification(self, task_id: str, event: Any) -> None:
            sent.append(event)

    hooks = Receivers()
    sent: list[Any] = []
    async with running(ScriptedAgent(SCRIPT), webhooks=hooks.options, push_sender=Sender()) as site:
        await site.send(configuration=with_hook())
        await until(lambda: len(sent) == 5)
        await site.advance(10)
    assert hooks.calls == []


# -- a journal in trouble


@pytest.mark.parametrize('seconds', [5, 45], ids=['short', 'longer than it is tried'])
async def test_outcomes_that_cannot_be_written_are_written_later(seconds: int) -> None:
    hooks = Receivers()
    async with running(ScriptedAgent(SCRIPT), webhooks=hooks.options) as site:
        hooks.shut()
        await site.send(configuration=with_hook())
        await until(lambda: hooks.running)
        await site.left_memory()
        site.journal.fail()
        hooks.open()
        await until(lambda: len(hooks.calls) == 5)
        for _ in range(seconds):
            await site.advance(1)
        site.journal.heal()
        for _ in range(10):
            await site.advance(1)
        await until_removed(site)
    assert hooks.states() == SAID


async def test_a_lost_answer_doubles_and_loses_nothing() -> None:
    hooks = Receivers()
    async with running(ScriptedAgent(SCRIPT), webhooks=hooks.options) as site:
        site.journal.lose_answers(3)
        blocking = site.begin(configuration=with_hook())
        for _ in range(20):
            await site.advance(0.5)
        await blocking
        await until_removed(site)
    assert hooks.states() == SAID


async def test_a_config_that_was_taken_without_our_hearing_of_it_is_delivered() -> None:
    class Forgetful(TroubledJournal):
        is_armed = True

        async def commit(self, group: Group) -> Receipt:
            receipt = await super().commit(group)
            if self.is_armed and any(isinstance(write, KeepDeliveries) and write.claims for write in group.writes):
                self.is_armed, self.is_away = False, True
                raise JournalUnavailableError('the answer got lost')
            return receipt

    hooks, journal = Receivers(), Forgetful(MemoryJournal())
    async with running(ScriptedAgent(SCRIPT), webhooks=hooks.options, journal=journal) as site:
        begun = site.begin(configuration=with_hook())
        await until(lambda: journal.is_away)
        for _ in range(45):
            await site.advance(1)
        assert hooks.calls == []
        site.journal.heal()
        for _ in range(10):
            await site.advance(1)
        await asyncio.wait([begun])
        await until(lambda: hooks.calls)
        assert hooks.states()[:1] == ['SUBMITTED']


async def test_what_an_operator_has_suspended_is_let_go_at_the_next_write() -> None:
    hooks = Receivers(503)
    hooks.shut()
    async with running(ScriptedAgent(SCRIPT), webhooks=hooks.options) as site:
        await site.send(configuration=with_hook())
        await until(lambda: hooks.running)
        await site.left_memory()
        assert await site.journal.set_delivery((await only(site)).key, 'suspended')
        hooks.open()
        await settle()
        assert site.handler.delivery_counters.held == 0
        await site.advance(100)
        found = await only(site)
        assert (found.state, found.position, len(hooks.calls)) == ('suspended', 0, 1)


async def test_a_process_that_stood_still_calls_nobody_before_it_has_written() -> None:
    hooks = Receivers()
    hooks.shut()
    async with running(ScriptedAgent(SCRIPT), webhooks=hooks.options) as site:
        await site.send(configuration=with_hook())
        await until(lambda: hooks.running)
        await site.left_memory()
        await settle()
        site.journal.hold()
        site.clock.skip(10)
        hooks.open()
        await settle()
        assert len(hooks.calls) == 1
        site.journal.let_go()
        await until(lambda: hooks.states() == SAID)
        await until_removed(site)


async def test_a_journal_that_is_away_for_long_loses_no_event() -> None:
    hooks = Receivers()
    async with running(ScriptedAgent(SCRIPT), webhooks=hooks.options) as site:
        hooks.shut()
        await site.send(configuration=with_hook())
        await until(lambda: hooks.running)
        await site.left_memory()
        site.journal.is_away = True
        hooks.open()
        for _ in range(50):
            await site.advance(1)
        site.journal.heal()
        for _ in range(20):
            await site.advance(1)
        await until_removed(site)
    said = hooks.states()
    assert list(dict.fromkeys(said)) == SAID


async def test_a_receiver_is_not_sent_much_that_is_not_written_down() -> None:
    hooks = Receivers()
    chunks = [emit(artifact(f'{number}', 'a', append=True)) for number in range(200)]
    async with running(ScriptedAgent([emit(task()), *chunks, *PARK]), webhooks=hooks.options) as site:
        hooks.shut()
        await site.send(configuration=with_hook())
        await until(lambda: hooks.running)
        site.journal.fail()
        hooks.open()
        await settle(2_000)
        assert len(hooks.calls) <= 60
        site.journal.heal()
        for _ in range(10):
            await site.advance(1)
        await until(lambda: len(hooks.calls) == 202)
    assert seqs(hooks.calls) == list(range(2, 204))

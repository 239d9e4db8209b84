"""Section 8: webhooks as servers, tasks and configs come and go."""

from starlette.responses import Response

from tests.conformance.kit import begun, ended, get, held, state_of, task_of
from tests.conformance.receiver import receiving
from tests.conformance.section_08_delivery import SCRIPT, at_webhooks
from tests.conformance.section_08_push_configs import CREATE, DELETE, configs_of
from tests.conformance.site import KINDS, Site, soon
from tests.conformance.table import Section
from tests.conformance.victim import killed
from tests.conformance.wire import JSONRPC, Wire

SECTION = Section(8, 'Push notifications: ends and restarts')

DURABLE = SECTION.must('4.3.3', 'No event is lost to a webhook when the server stops or crashes', sdk_fails=True)


@DURABLE.check(on=JSONRPC)
async def restart_loses_no_event(wire: Wire, site: Site) -> None:
    database = site.database()
    async with receiving() as receiver:
        receiver.gate.clear()
        async with site.serving(database=database, **KINDS['webhooks']()) as before:
            task = await task_of(wire.at(before), SCRIPT, configuration=receiver.inline())
            await receiver.next()
        receiver.gate.set()
        async with site.serving(database=database, **KINDS['webhooks']()) as after:
            assert state_of(await get(wire.at(after), task['id'])) == 'COMPLETED'
            await receiver.until_state('COMPLETED')
    kinds = [call.event.kind for call in receiver.calls]
    assert kinds[-4:] == ['statusUpdate', 'artifactUpdate', 'artifactUpdate', 'statusUpdate']


@DURABLE.check(on=JSONRPC)
async def crash_loses_no_event(wire: Wire, site: Site) -> None:
    database = site.database()
    async with receiving() as receiver:
        receiver.gate.clear()
        script = 'task work hold:for-ever'
        await killed(wire, database, script, receiver.next, configuration=receiver.inline())
        receiver.gate.set()
        async with site.serving(database=database, **KINDS['webhooks']()):
            await receiver.until_state('WORKING')


STOPPED = SECTION.must('3.1.10', 'A webhook that was deleted is not called any more')


@STOPPED.check()
async def deleted_webhook_is_not_called(wire: Wire, site: Site) -> None:
    own = await at_webhooks(wire, site)
    async with receiving() as gone, receiving() as kept:
        async with held(own, site, configuration=gone.inline(id='gone')) as running:
            await gone.until_state('WORKING')
            await own.call(DELETE, {'taskId': running.id, 'id': 'gone'})
            await own.call(CREATE, {'taskId': running.id, **kept.config()})
            running.release()
            await kept.until_state('COMPLETED')
        assert gone.calls[-1].event.state == 'WORKING'


@STOPPED.check(on=JSONRPC)
async def deletion_stops_retries(wire: Wire, site: Site) -> None:
    own = await at_webhooks(wire, site)
    async with receiving() as gone, receiving() as kept:
        gone.gate.clear()
        gone.answers = [Response(status_code=503)]
        task = await task_of(own, 'ask', configuration=gone.inline(id='gone'))
        await gone.next()
        await own.call(DELETE, {'taskId': task['id'], 'id': 'gone'})
        gone.gate.set()
        await own.call(CREATE, {'taskId': task['id'], **kept.config()})
        kept.answers = [Response(status_code=503)]
        await task_of(own, 'complete', taskId=task['id'])
        await kept.until_state('COMPLETED')
        await kept.next()
        assert len(gone.calls) == 1


REMOVED = SECTION.must('3.1.7', 'A config is removed once its task has ended and all is delivered', sdk_fails=True)


@REMOVED.check()
async def config_of_an_ended_task_is_removed(wire: Wire, site: Site) -> None:
    own = await at_webhooks(wire, site)
    async with receiving() as receiver:
        task = await begun(own, SCRIPT, configuration=receiver.inline())
        await receiver.until_state('COMPLETED')
    assert state_of(await ended(own, task['id'])) == 'COMPLETED'

    async def removed() -> bool:
        return not await configs_of(own, task['id'])

    await soon(removed)

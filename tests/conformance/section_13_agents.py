"""Section 13: what clients are told when the agent fails, or refuses."""

import json

from tests.conformance.actor import SECRET
from tests.conformance.errors import UNSUPPORTED_OPERATION
from tests.conformance.kit import begun, request_of, send, stream
from tests.conformance.site import Site
from tests.conformance.table import Section
from tests.conformance.wire import Wire

SECTION = Section(13, 'Error model: failures of the agent')

SILENT = SECTION.must('3.3.2', 'No text of an exception reaches a client', sdk_fails=True)


@SILENT.check()
async def crash_is_a_failed_task_without_its_text(wire: Wire, site: Site) -> None:
    answer = await send(wire, 'work crash')
    assert answer.ok()['task']['status']['state'] == 'TASK_STATE_FAILED'
    assert SECRET not in json.dumps(answer.result)


@SILENT.check()
async def crash_on_a_stream_is_a_failed_status(wire: Wire, site: Site) -> None:
    collected = await stream(wire, 'work crash')
    assert collected.states[-1] == 'FAILED'
    assert SECRET not in json.dumps([event.data for event in collected.ok()])


AGENTS = SECTION.may('3.3.2', 'An error of A2A that the agent raises before anything else is the answer')


@AGENTS.check()
async def refusal_of_the_agent_is_the_answer(wire: Wire, site: Site) -> None:
    assert (await send(wire, 'decline')).refused(UNSUPPORTED_OPERATION).message == 'not this'
    assert (await stream(wire, 'decline')).refused(UNSUPPORTED_OPERATION).message == 'not this'
    await begun(wire, 'work complete')
    assert (await wire.call('SendMessage', request_of('complete'))).ok()

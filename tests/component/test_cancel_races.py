"""A cancel and the end of the work at the same moment, at every distance of steps: one terminal record, one truth.

`SCRIBE_FULL=1 python -m pytest tests/component/test_cancel_races.py` runs 10,000 races, in place of a few.
"""

import asyncio
import os
import random

import pytest
from a2a.utils.errors import TaskNotCancelableError

from a2a_scribe.protocol.states import CANCELED, COMPLETED, TERMINAL, WORKING
from a2a_scribe.protocol.types import TaskState
from a2a_scribe.testing.agents import Run, ScriptedAgent, artifact, do, emit, status, task
from tests.component.kit import Site, running, state_of

pytestmark = pytest.mark.anyio

RACES = 10_000 if os.environ.get('SCRIBE_FULL') else 400
IN_ONE_SITE = 100
STEPS = 25
"""Steps of the loop that each side takes before it does its part, at most."""


async def steps(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def race(site: Site, chance: random.Random) -> TaskState:
    """Runs one task and its cancel, and returns how it ended."""
    stream = site.stream()
    await steps(chance.randrange(STEPS))
    while not stream.events:
        await steps(1)
    task_id = stream.events[0].id  # type: ignore[union-attr]
    await steps(chance.randrange(STEPS))
    try:
        canceled = await site.cancel(task_id)
    except TaskNotCancelableError:
        answer = COMPLETED
    else:
        assert canceled.status.state == CANCELED
        answer = CANCELED
    stored = await site.get(task_id)
    assert stored.status.state == answer, 'the caller was told how the task ended'
    events = await stream.end()
    ends = [state for event in events if (state := state_of(event)) in TERMINAL]
    assert ends == [answer]
    return answer


@pytest.mark.parametrize('first', range(0, RACES, IN_ONE_SITE))
async def test_a_task_ends_once_and_everybody_hears_the_same(first: int) -> None:
    chance = random.Random(first)

    async def work(run: Run) -> None:
        await steps(chance.randrange(STEPS))
        await emit(artifact())(run)
        await steps(chance.randrange(STEPS))

    agent = ScriptedAgent([emit(task(WORKING)), do(work), emit(status(COMPLETED))])
    async with running(agent) as site:
        ends = [await race(site, chance) for _ in range(IN_ONE_SITE)]
        assert set(ends) == {CANCELED, COMPLETED}, 'each side wins now and then'

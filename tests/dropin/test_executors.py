"""Executors written for a2a-sdk: what they are given, and what they may do, is the same."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from a2a.server.agent_execution import RequestContext, RequestContextBuilder, SimpleRequestContextBuilder
from a2a.server.context import ServerCallContext
from a2a.server.id_generator import IDGenerator, IDGeneratorContext
from a2a.server.tasks import TaskStore, TaskUpdater
from a2a.types.a2a_pb2 import (
    CancelTaskRequest,
    GetTaskRequest,
    Part,
    SendMessageRequest,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatusUpdateEvent,
)
from google.protobuf.json_format import MessageToDict

from tests.dropin.kit import (
    PEER,
    Asking,
    Echo,
    Waiting,
    artifacts_of,
    call,
    opened_store,
    request,
    send,
    serving,
    state_of,
    words_of,
)

pytestmark = pytest.mark.anyio

OURS = ['memory', 'sqlite']


@pytest.fixture(params=OURS if PEER else [*OURS, 'foreign-memory', 'foreign-sqlite'])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    async with opened_store(request.param, tmp_path) as store:
        yield store


# What an updater can do


@dataclass
class Thorough(Echo):
    """Uses all that a TaskUpdater offers."""

    async def work(self, context: RequestContext, updater: TaskUpdater) -> None:
        await updater.submit()
        await updater.start_work(updater.new_agent_message([Part(text='reading')], metadata={'page': 1}))
        for index, text in enumerate(('one ', 'two ', 'three')):
            await updater.add_artifact(
                [Part(text=text)],
                artifact_id='count',
                name='counted',
                metadata={f'chunk-{index}': True},
                append=index > 0,
                last_chunk=index == 2,
            )
        await updater.add_artifact([Part(data={'number_value': 3})], name='total')
        await updater.update_status(TaskState.TASK_STATE_WORKING, metadata={'progress': 99})
        await updater.complete(updater.new_agent_message([Part(text='counted')]))


async def test_all_of_a_task_updater_is_recorded(store: TaskStore) -> None:
    async with serving(Thorough(), store) as handler:
        answer = await send(handler, 'count')
        assert state_of(answer) == 'COMPLETED'
        assert words_of(answer.status.message) == 'counted'
        assert [words_of(message) for message in answer.history] == ['count', 'reading']
        assert [artifact.name for artifact in answer.artifacts] == ['counted', 'total']
        assert words_of_parts(answer) == ['one two three', '']
        assert answer.metadata['progress'] == 99
        assert await handler.on_get_task(GetTaskRequest(id=answer.id), call()) == answer


def words_of_parts(task: Task) -> list[str]:
    return [''.join(part.text for part in artifact.parts) for artifact in task.artifacts]


async def test_a_stream_shows_what_the_updater_sent(store: TaskStore) -> None:
    async with serving(Thorough(), store) as handler:
        events = [event async for event in handler.on_message_send_stream(request('count'), call())]
    assert isinstance(events[0], Task)
    chunks = [event for event in events if isinstance(event, TaskArtifactUpdateEvent)]
    assert [chunk.append for chunk in chunks] == [False, True, True, False]
    assert [chunk.last_chunk for chunk in chunks] == [False, False, True, False]
    statuses = [event.status.state for event in events if isinstance(event, TaskStatusUpdateEvent)]
    assert statuses[-1] == TaskState.TASK_STATE_COMPLETED


# What an executor is given


async def test_the_request_is_handed_on(store: TaskStore) -> None:
    agent = Echo()
    message = request('first', 'second')
    message.metadata.update({'trace': {'id': 7}})
    context = ServerCallContext(state={'key': 'value'}, tenant='acme', requested_extensions={'https://ext.test'})
    async with serving(agent, store) as handler:
        answer = await handler.on_message_send(message, context)
    assert isinstance(answer, Task)
    given = agent.contexts[0]
    assert given.get_user_input() == 'first\nsecond'
    assert given.get_user_input(delimiter=' ') == 'first second'
    assert (given.task_id, given.context_id) == (answer.id, answer.context_id)
    assert given.metadata == {'trace': {'id': 7}}
    assert given.tenant == 'acme'
    assert given.requested_extensions == {'https://ext.test'}
    assert given.call_context.state['key'] == 'value'
    assert given.configuration == message.configuration
    assert given.related_tasks == []


@dataclass
class Remembering(Asking):
    """Keeps a copy of the current task as it was when its work began."""

    tasks: list[Task | None] = field(default_factory=list)

    async def work(self, context: RequestContext, updater: TaskUpdater) -> None:
        copy = None
        if context.current_task is not None:
            copy = Task()
            copy.CopyFrom(context.current_task)
        self.tasks.append(copy)
        await super().work(context, updater)


@dataclass
class Spoiling(Asking):
    """Changes the task that it was given."""

    async def work(self, context: RequestContext, updater: TaskUpdater) -> None:
        await super().work(context, updater)
        if context.current_task is not None:
            context.current_task.context_id = 'spoiled'
            context.current_task.artifacts[0].parts[0].text = 'spoiled'


async def test_a_follow_up_is_given_the_task_so_far(store: TaskStore) -> None:
    agent = Remembering()
    async with serving(agent, store) as handler:
        question = await send(handler, 'hi')
        assert (state_of(question), words_of(question.status.message)) == ('INPUT_REQUIRED', 'your name?')
        answer = await send(handler, 'Ann', task=question)
        stored = await handler.on_get_task(GetTaskRequest(id=question.id), call())
    first, second = agent.tasks
    assert first is None
    assert second is not None
    assert (second.id, second.context_id) == (question.id, question.context_id)
    assert state_of(second) == 'INPUT_REQUIRED'
    assert artifacts_of(second) == {'form': 'a form'}
    assert stored == answer
    assert (answer.id, answer.context_id, state_of(answer)) == (question.id, question.context_id, 'COMPLETED')
    assert [words_of(message) for message in answer.history] == ['hi', 'your name?', 'Ann']


@pytest.mark.skipif(PEER, reason='a2a-sdk hands out the task that it works with')
async def test_what_an_executor_is_given_is_its_own_copy(store: TaskStore) -> None:
    async with serving(Spoiling(), store) as handler:
        question = await send(handler, 'hi')
        answer = await send(handler, 'Ann', task=question)
    assert (answer.context_id, state_of(answer)) == (question.context_id, 'COMPLETED')
    assert artifacts_of(answer) == {'form': 'a form', 'greeting': 'hello Ann'}


async def test_a_message_without_a_context_continues_the_tasks_own(store: TaskStore) -> None:
    async with serving(Asking(), store) as handler:
        question = await send(handler, 'hi')
        follow_up = request('Ann', task=question)
        follow_up.message.context_id = ''
        answer = await handler.on_message_send(follow_up, call())
    assert isinstance(answer, Task)
    assert (answer.context_id, state_of(answer)) == (question.context_id, 'COMPLETED')


async def test_referred_tasks_are_related_tasks(store: TaskStore) -> None:
    agent = Echo()
    builder = SimpleRequestContextBuilder(should_populate_referred_tasks=True, task_store=store)
    async with serving(agent, store, request_context_builder=builder) as handler:
        first = await send(handler, 'one')
        await send(handler, 'two', reference_task_ids=[first.id, 'unknown'])
    assert agent.contexts[1].related_tasks == [first]


# Builders and generators of a user


class Counting(IDGenerator):
    """Ids that a reader can tell apart."""

    def __init__(self, prefix: str) -> None:
        self.prefix, self.count = prefix, 0

    def generate(self, context: IDGeneratorContext) -> str:
        self.count += 1
        return f'{self.prefix}-{self.count}'


async def test_ids_come_from_the_users_generators(store: TaskStore) -> None:
    builder = SimpleRequestContextBuilder(task_id_generator=Counting('task'), context_id_generator=Counting('context'))
    async with serving(Echo(), store, request_context_builder=builder) as handler:
        first, second = await send(handler, 'one'), await send(handler, 'two')
    assert [(task.id, task.context_id) for task in (first, second)] == [
        ('task-1', 'context-1'),
        ('task-2', 'context-2'),
    ]


class Enriched(RequestContext):
    """A context with something of the user's own."""

    priority = 0


class Enriching(RequestContextBuilder):
    """Builds contexts of the user's own class."""

    async def build(
        self,
        context: ServerCallContext,
        params: SendMessageRequest | None = None,
        task_id: str | None = None,
        context_id: str | None = None,
        task: Task | None = None,
    ) -> RequestContext:
        built = Enriched(context, request=params, task_id=task_id, context_id=context_id, task=task)
        built.priority = 5
        return built


async def test_the_executor_is_given_what_the_users_builder_built(store: TaskStore) -> None:
    agent = Asking()
    async with serving(agent, store, request_context_builder=Enriching()) as handler:
        question = await send(handler, 'hi')
        answer = await send(handler, 'Ann', task=question)
    assert state_of(answer) == 'COMPLETED'
    assert [getattr(context, 'priority', None) for context in agent.contexts] == [5, 5]
    assert all(isinstance(context, Enriched) for context in agent.contexts)


# Ways to work


@dataclass
class Crowded(Echo):
    """Lets child tasks do the work."""

    async def work(self, context: RequestContext, updater: TaskUpdater) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(5):
                group.create_task(self.count(number, updater))
        await updater.complete()

    async def count(self, number: int, updater: TaskUpdater) -> None:
        for chunk in range(20):
            await updater.add_artifact([Part(text=f'{chunk} ')], artifact_id=f'{number}', append=chunk > 0)
            await asyncio.sleep(0)


async def test_child_tasks_may_enqueue_events(store: TaskStore) -> None:
    async with serving(Crowded(), store) as handler:
        answer = await send(handler, 'go')
    counted = ''.join(f'{chunk} ' for chunk in range(20))
    assert artifacts_of(answer) == {f'{number}': counted for number in range(5)}


async def test_a_running_task_is_cancelled_by_its_executor(store: TaskStore) -> None:
    agent = Waiting()
    async with serving(agent, store) as handler:
        message = request('wait')
        message.configuration.return_immediately = True
        task = await handler.on_message_send(message, call())
        assert isinstance(task, Task)
        await agent.started.wait()
        canceled = await handler.on_cancel_task(CancelTaskRequest(id=task.id), call())
        stored = await handler.on_get_task(GetTaskRequest(id=task.id), call())
    assert canceled is not None
    assert state_of(canceled) == 'CANCELED'
    assert stored == canceled


async def test_a_parked_task_is_cancelled(store: TaskStore) -> None:
    async with serving(Asking(), store) as handler:
        question = await send(handler, 'hi')
        canceled = await handler.on_cancel_task(CancelTaskRequest(id=question.id), call())
        stored = await handler.on_get_task(GetTaskRequest(id=question.id), call())
    assert canceled is not None
    assert (canceled.id, state_of(canceled), artifacts_of(canceled)) == (question.id, 'CANCELED', {'form': 'a form'})
    assert stored == canceled


async def test_a_struct_in_a_message_reaches_the_executor_unchanged(store: TaskStore) -> None:
    agent = Echo()
    message = request('hi')
    message.message.metadata.update({'list': [1, 'two', None, {'three': 3}]})
    async with serving(agent, store) as handler:
        await handler.on_message_send(message, call())
    given = agent.contexts[0].message
    assert given is not None
    assert MessageToDict(given.metadata) == {'list': [1, 'two', None, {'three': 3}]}

"""What clients do: send, follow up, cancel, subscribe, read, go away, and come back where a connection broke."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

from a2a.types.a2a_pb2 import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    SendMessageConfiguration,
    SubscribeToTaskRequest,
)

from a2a_scribe.core.records import Shown
from a2a_scribe.protocol.types import Message, Task
from tests.component.kit import new_context, new_request
from tests.simulation.agents import Plan
from tests.simulation.database import Database
from tests.simulation.ledger import Kind, Report, Sent, Told
from tests.simulation.process import ConnectionLostError, Process
from tests.simulation.world import World


class Cluster:
    """The processes that clients can reach now."""

    def __init__(self) -> None:
        """Starts without processes."""
        self.processes: list[Process] = []

    @property
    def serving(self) -> list[Process]:
        """Those that answer."""
        return [process for process in self.processes if process.is_serving and not process.is_closing]


class Client:
    """One client, which belongs to one owner."""

    def __init__(self, name: str, owner: str, world: World, database: Database, cluster: Cluster) -> None:
        """Makes a client that has not done anything yet."""
        self.name = name
        self.owner = owner
        self._world = world
        self._database = database
        self._cluster = cluster

    # -- operations

    async def send(self, sent: Sent, kind: Kind, *, patience: float | None = None) -> Report:
        """Sends a message, and follows it to its answer; goes away after `patience` seconds."""
        self._world.ledger.messages[sent.message_id] = sent
        report = self._report(kind, sent.task_id, message=sent)
        request = new_request(sent.message_id, task_id=sent.task_id, message_id=sent.message_id)
        if kind == 'immediately':
            request.configuration.CopyFrom(SendMessageConfiguration(return_immediately=True))
        process = await self._connect(report)
        if kind == 'stream':
            work = self._read(process.handler.stream_message(request, new_context(self.owner)), report)
        else:
            work = self._ask(lambda: process.handler.on_message_send(request, new_context(self.owner)), report)
        await self._wait(process, work, report, patience)
        return report

    async def subscribe(self, task_id: str, after: int | None = None, *, patience: float | None = None) -> Report:
        """Follows a task from now on, or from the last record that was seen."""
        report = self._report('subscribe', task_id, after=after)
        process = await self._connect(report)
        stream = process.handler.follow_task(SubscribeToTaskRequest(id=task_id), new_context(self.owner), after)
        await self._wait(process, self._read(stream, report), report, patience)
        return report

    async def cancel(self, task_id: str, *, patience: float | None = None, process: Process | None = None) -> Report:
        """Cancels a task, at a given process or any."""
        report = self._report('cancel', task_id)
        process = await self._connect(report, process)
        request = CancelTaskRequest(id=task_id)
        asking = self._ask(lambda: process.handler.on_cancel_task(request, new_context(self.owner)), report)
        await self._wait(process, asking, report, patience)
        return report

    async def get(self, task_id: str) -> Report:
        """Reads a task."""
        report = self._report('get', task_id)
        process = await self._connect(report)
        request = GetTaskRequest(id=task_id)
        asking = self._ask(lambda: process.handler.on_get_task(request, new_context(self.owner)), report)
        await self._wait(process, asking, report)
        return report

    async def find(self) -> Report:
        """Reads all tasks."""
        report = self._report('list', '')
        process = await self._connect(report)

        async def look() -> None:
            request = ListTasksRequest(include_artifacts=True)
            page = await process.handler.on_list_tasks(request, new_context(self.owner))
            for task in page.tasks:
                report.told.append(Told(task, self._database.length(task.id)))

        await self._wait(process, look(), report)
        return report

    # -- how a call goes

    def _report(self, kind: Kind, task_id: str, *, message: Sent | None = None, after: int | None = None) -> Report:
        reports = self._world.ledger.reports
        report = Report(len(reports) + 1, kind, self.name, self.owner, '', task_id, message=message, after=after)
        reports.append(report)
        return report

    async def _connect(self, report: Report, process: Process | None = None) -> Process:
        """Waits until a process can be reached, and chooses one."""
        while not (serving := self._cluster.serving):
            await self._world.pause(0.05)
        process = process or self._world.pick(serving)
        report.process = process.name
        report.begun = self._database.length(report.task_id)
        after = '' if report.after is None else f' after {report.after}'
        of_task = f' for {report.task_id}' if report.message is not None and report.task_id else ''
        self._world.note(self.name, f'{report}{of_task}{after} to {process.name}')
        return process

    async def _ask(self, ask: Callable[[], Coroutine[Any, Any, Task | Message]], report: Report) -> None:
        answer = await ask()
        report.told.append(Told(answer, self._database.length(getattr(answer, 'id', ''))))

    async def _read(self, stream: AsyncGenerator[list[Shown], None], report: Report) -> None:
        try:
            async for batch in stream:
                for item in batch:
                    self._take(item, report)
                if batch and self._world.chance(0.1):
                    await self._world.pause(self._world.random.random() * 0.1)
        finally:
            await stream.aclose()

    def _take(self, item: Shown, report: Report) -> None:
        if not report.task_id and item.kind == 'task':
            report.task_id = Task.FromString(item.body).id
        report.told.append(Told(item, self._database.length(report.task_id)))
        self._world.note(self.name, f'{report} sees {item.seq} {item.kind}')

    async def _wait(
        self, process: Process, work: Coroutine[Any, Any, None], report: Report, patience: float | None = None
    ) -> None:
        """Waits for the end of a call, whatever that is."""
        try:
            async with asyncio.timeout(patience):
                await process.call(work, report)
            report.ending = 'ended' if report.kind in ('stream', 'subscribe') else 'answered'
        except TimeoutError:
            report.ending = 'left'
        except asyncio.CancelledError:
            report.ending = 'left'
            raise
        except ConnectionLostError:
            report.ending = 'lost'
        except Exception as error:
            report.ending, report.error = 'error', error
        finally:
            self._end(process, report)

    def _end(self, process: Process, report: Report) -> None:
        if not report.task_id and report.told and isinstance(report.told[0].what, Task):
            report.task_id = report.told[0].what.id
        report.ended_with = self._database.length(report.task_id)
        report.was_closing = process.is_closing
        how = repr(report.error) if report.error is not None else report.ending
        told = report.told[-1].what if report.told and report.ending == 'answered' else None
        if isinstance(told, Task):
            how += f': {told.id} is {told.status.state}'
        self._world.note(self.name, f'{report}: {how}')


async def live(client: Client, world: World, database: Database, life: 'Life') -> None:
    """Acts as drawn, one action after another."""
    for action in life.actions:
        await world.pause(world.random.random() * life.haste)
        if world.is_calm:
            return
        await _act(client, world, database, life, action)


class Life:
    """What one client will do."""

    def __init__(self, actions: list[str], haste: float, new_message: 'NewMessage') -> None:
        """Takes the actions, and the seconds that pass between them at most."""
        self.actions = actions
        self.haste = haste
        self.new_message = new_message


class NewMessage:
    """Makes messages, each with a plan for who executes it."""

    def __init__(self, plans: dict[str, Plan], draw: Any) -> None:
        """Takes where plans are kept, and what draws them."""
        self._plans = plans
        self._draw = draw

    def __call__(self, owner: str, task_id: str) -> Sent:
        """Makes one."""
        message_id = f'm{len(self._plans) + 1}'
        self._plans[message_id] = self._draw()
        return Sent(message_id, owner, task_id)

    def plan_of(self, sent: Sent) -> Plan:
        """Returns what will be done with a message."""
        return self._plans[sent.message_id]


async def _act(client: Client, world: World, database: Database, life: Life, action: str) -> None:
    own = [row.task_id for row in database.rows() if row.scope.owner == client.owner]
    task_id = (own[-1] if world.chance(0.4) else world.pick(own)) if own else ''
    patience = world.random.random() * 2 if world.chance(0.2) else None
    match action:
        case 'send' | 'follow up':
            sent = life.new_message(client.owner, task_id if action == 'follow up' else '')
            world.note(client.name, f'{sent.message_id} will be: {life.new_message.plan_of(sent)}')
            kind: Kind = world.pick(('blocking', 'immediately', 'stream', 'stream'))
            report = await client.send(sent, kind, patience=patience)
            await _come_back(client, world, report)
        case 'subscribe' if task_id:
            report = await client.subscribe(task_id, patience=0.5 + world.random.random() * 3)
            await _come_back(client, world, report)
        case 'resume' if task_id:
            after = int(world.random.random() * (database.length(task_id) + 1))
            await client.subscribe(task_id, after, patience=0.5 + world.random.random() * 2)
        case 'cancel' if task_id:
            await client.cancel(task_id, patience=patience)
        case 'get' if task_id:
            await client.get(task_id)
        case 'list':
            await client.find()
        case 'trespass' if database.task_ids:
            strange = world.pick(database.task_ids)
            await world.pick((client.get, client.cancel, client.subscribe))(strange)


async def _come_back(client: Client, world: World, report: Report) -> None:
    """Goes on after the last record that was seen, as long as the connection breaks."""
    while report.kind in ('stream', 'subscribe') and report.ending == 'lost' and report.told and report.task_id:
        seen = [told.what.seq for told in report.told if isinstance(told.what, Shown) and told.what.seq is not None]
        if not seen:
            return
        report = await client.subscribe(report.task_id, seen[-1], patience=1 + world.random.random() * 2)

"""Databases with something in them, and the command on them, called in this process."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine
from typer.testing import CliRunner

from a2a_scribe.cli.commands import app
from a2a_scribe.journal.sql.journal import SqlJournal
from a2a_scribe.journal.tasks import Caller
from a2a_scribe.protocol.states import COMPLETED, FAILED, INPUT_REQUIRED, WORKING
from a2a_scribe.protocol.types import NodeId
from a2a_scribe.testing.contract.scenes import config_of
from a2a_scribe.testing.journal_driver import ALICE, EPOCH, ScriptedNode, ScriptedTask, caller

BOB = caller('bob', agent='other', tenant='t')


@dataclass(frozen=True)
class Result:
    """What a command said."""

    code: int
    stdout: str
    stderr: str

    @property
    def lines(self) -> list[Any]:
        """Its lines, read as JSON."""
        return [json.loads(line) for line in self.stdout.splitlines()]


def command(*arguments: str, answer: str | None = None) -> Result:
    """Runs a command to its end."""
    done = CliRunner().invoke(app, arguments, input=answer)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Result(done.exit_code, done.stdout, done.stderr)


def on(url: str, work: Callable[[SqlJournal], Coroutine[Any, Any, None]]) -> None:
    """Does something with the journal of a database."""

    async def run() -> None:
        engine = create_async_engine(url)
        journal = SqlJournal(engine)
        try:
            await journal.open()
            await work(journal)
        finally:
            await engine.dispose()

    asyncio.run(run())


def execute(url: str, *statements: str) -> None:
    """Changes a database behind everybody's back."""

    async def run() -> None:
        engine = create_async_engine(url)
        async with engine.begin() as connection:
            for statement in statements:
                await connection.execute(text(statement))
        await engine.dispose()

    asyncio.run(run())


def query(url: str, statement: str) -> list[tuple[Any, ...]]:
    """Reads from a database behind everybody's back."""

    async def run() -> list[tuple[Any, ...]]:
        engine = create_async_engine(url)
        async with engine.connect() as connection:
            found = [tuple(row) for row in await connection.execute(text(statement))]
        await engine.dispose()
        return found

    return asyncio.run(run())


async def fill(journal: SqlJournal) -> None:
    """Makes an ended, a failed and a parked task, and one at work with a message that waits."""
    node = await ScriptedNode(journal, 'node').register()
    await finished(node, 'done', ALICE)
    failed = ScriptedTask(node, 'failed', BOB, context_id='elsewhere')
    await node.append(failed.birth())
    failed.settle(
        await node.append(
            failed.append(failed.status(FAILED, EPOCH + 20, text='it broke'), note='Traceback: boom', ends_turn=True)
        )
    )
    parked = ScriptedTask(node, 'parked')
    parked.settle(
        await node.append(
            parked.birth(parked.status(INPUT_REQUIRED, EPOCH + 30, text='which?'), snapshot=True, ends_turn=True)
        )
    )
    working = ScriptedTask(node, 'working')
    await node.append(
        working.birth(working.status(WORKING, EPOCH + 40), configs=(config_of('working', 'hook', 'http://hook.test'),))
    )
    await node.commit(writes=[working.accept('waiting turn')])


async def finished(node: ScriptedNode, task_id: str, owner: Caller, at: int = EPOCH + 10) -> ScriptedTask:
    """Makes a task that has ended."""
    task = ScriptedTask(node, task_id, owner)
    await node.append(task.birth(task.chunk('one')))
    task.settle(
        await node.append(task.append(task.chunk('two'), task.status(COMPLETED, at), snapshot=True, ends_turn=True))
    )
    return task


def bury(url: str, node_id: str = 'node') -> None:
    """Declares a node dead."""
    execute(url, f"UPDATE scribe_nodes SET state = 'dead' WHERE id = '{NodeId(node_id)}'")

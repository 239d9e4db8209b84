# mypy: disable-error-code="import-not-found,import-untyped"
"""`fasta2a` with the same agent, as its documentation sets it up: one worker, everything in memory.

The agent is written anew for it, as it has an interface of its own, and does what its own `AgentWorker` does: it stores
the state WORKING, publishes each chunk, and stores the artifact with the state COMPLETED. The end of the stream is
published by the worker's base class.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fasta2a import FastA2A, Worker
from fasta2a.broker import InMemoryBroker
from fasta2a.schema import Artifact, Message, Part, TaskIdParams, TaskSendParams
from fasta2a.storage import InMemoryStorage

from bench.chunks import ARTIFACT_ID, chunk_text
from bench.http.control import Served
from bench.http.spec import ServerSpec


class BenchWorker(Worker[list[Message]]):  # type: ignore[misc]
    async def run_task(self, params: TaskSendParams) -> None:
        task_id, context_id = params['id'], params['context_id']
        count = int(params['message']['parts'][0]['text'].split()[1])
        await self.storage.update_task(task_id, state='working')
        await self.publish_status(task_id, context_id, 'working')
        parts = [Part(text=chunk_text(number)) for number in range(count)]
        for number, part in enumerate(parts):
            chunk = Artifact(artifact_id=ARTIFACT_ID, parts=[part])
            await self.publish_artifact(task_id, context_id, chunk, append=number > 0, last_chunk=number == count - 1)
        answer = Artifact(artifact_id=ARTIFACT_ID, parts=parts)
        await self.storage.update_task(task_id, state='completed', new_artifacts=[answer])

    async def cancel_task(self, params: TaskIdParams) -> None:
        raise NotImplementedError('nothing here is cancelled')

    def build_message_history(self, history: list[Message]) -> list[Any]:
        return history

    def build_artifacts(self, result: Any) -> list[Artifact]:
        return [Artifact(artifact_id=ARTIFACT_ID, parts=result)]


def serve_memory(_: ServerSpec) -> Served:
    storage: InMemoryStorage[list[Message]] = InMemoryStorage()
    broker = InMemoryBroker()
    worker = BenchWorker(broker=broker, storage=storage)

    @asynccontextmanager
    async def lifespan(app: FastA2A) -> AsyncIterator[None]:
        async with app.task_manager, worker.run():
            yield

    return Served(FastA2A(storage=storage, broker=broker, lifespan=lifespan))

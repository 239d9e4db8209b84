"""`a2a-scribe serve` ends when it is told to, whatever an agent does against it."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import httpx
import pytest

AGENTS = '''
    """Agents that do not stop."""
    import asyncio
    import threading

    from a2a.helpers.proto_helpers import new_task_from_user_message
    from a2a.server.agent_execution import AgentExecutor


    class Agent(AgentExecutor):
        async def execute(self, context, event_queue):
            await event_queue.enqueue_event(new_task_from_user_message(context.message))
            print('working', flush=True)
            await self.work()

        async def cancel(self, context, event_queue):
            pass


    class Deaf(Agent):
        async def work(self):
            while True:
                try:
                    await asyncio.sleep(3600)
                except asyncio.CancelledError:
                    pass


    class DeafToAll(Agent):
        async def work(self):
            while True:
                try:
                    await asyncio.sleep(3600)
                except BaseException:
                    pass


    class Blocked(Agent):
        async def work(self):
            await asyncio.to_thread(threading.Event().wait)


    class BlockedElsewhere(Agent):
        async def work(self):
            threading.Thread(target=threading.Event().wait, name='blocked elsewhere').start()
            await asyncio.Event().wait()
'''
DRAIN, GRACE, A_FEW_SECONDS = 0.2, 1.0, 5.0
HEADERS = {'A2A-Version': '1.0'}
SENT = {
    'message': {'messageId': 'm', 'role': 'ROLE_USER', 'parts': [{'text': 'go'}]},
    'configuration': {'returnImmediately': True},
}
LEFT = {
    'Deaf': 'left behind: a2a-scribe turn ',
    'DeafToAll': 'left behind: a2a-scribe turn ',
    'Blocked': 'The process ends without threads that do not: asyncio_',
    'BlockedElsewhere': 'The process ends without threads that do not: blocked elsewhere',
}


@pytest.mark.parametrize('name', LEFT)
def test_the_server_ends_in_time(tmp_path: Path, name: str) -> None:
    (tmp_path / 'agents.py').write_text(textwrap.dedent(AGENTS))
    command = (sys.executable, '-m', 'a2a_scribe', 'serve', f'agents:{name}', '--port', '0')
    bounds = {'A2A_SCRIBE_DRAIN_DEADLINE': str(DRAIN), 'A2A_SCRIBE_CANCEL_GRACE': str(GRACE)}
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        env={**os.environ, **bounds},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        task = httpx.post(f'{url}/message:send', json=SENT, headers=HEADERS, trust_env=False).json()['task']
        assert task['status']['state'] == 'TASK_STATE_SUBMITTED'
        assert process.stdout.readline() == 'working\n'
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=DRAIN + 2 * GRACE + A_FEW_SECONDS)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0, told
    assert LEFT[name] in told

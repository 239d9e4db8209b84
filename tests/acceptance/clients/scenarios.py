"""What every client does with a real server, and what a scenario needs from the agent.

The names are those of the functions in `python_script`, `curl_script` and `javascript/script.mjs`; a test checks that
none is missing. The agent is `programs/clients_agent.py`: the first part of a message says what it does.
"""

from collections.abc import Mapping
from typing import Final

SCENARIOS: Final[Mapping[str, str]] = {
    'card': 'fetches the card and finds its binding there',
    'blocking_send': 'gets the completed task with its artifact and history',
    'return_immediately_and_poll': 'gets a task at work, and polls until it has completed',
    'stream': 'sees a Task first, then everything once and in order, then the end',
    'follow_up': 'answers the question of a task that waits for input',
    'follow_up_in_a_stream': 'does so with only the id of the task, and streams',
    'subscribe_to_a_running_task': 'sees the task of an agent that has said nothing yet, then what comes',
    'subscribe_to_a_parked_task': 'stays while the task waits for input, and sees what the answer leads to',
    'leave_a_stream': 'leaves after the first event; the task goes on',
    'cancel': 'cancels a task at work',
    'cancel_ends_streams': 'sees the cancel in a stream that is open',
    'history_length': 'reads all, one or none of the messages',
    'list_filters': 'lists by context, state and time, with and without artifacts',
    'list_pages': 'lists page by page, newest first',
    'push_configs': 'creates two, reads, lists, deletes one twice',
    'direct_message': 'gets a message that makes no task, at once and as a stream',
    'failing_agent': 'gets the failed task, without a word of the exception',
    'failing_agent_in_a_stream': 'sees the stream end with the failure',
    'unknown_task': 'is told so by every operation that names one',
    'finished_task': 'cannot cancel it, continue it or subscribe to it',
    'invalid_params': 'is told which field is wrong',
    'unknown_method': 'is told so',
    'extended_card': 'gets it',
    'sequence_extension': 'gets sequences only when it asks, and is told that they are on',
    'resume': 'gets exactly what came after an event, also when the task has ended; a sequence to come is refused',
    'large_message': 'sends 5 MB and gets them back',
    'unicode': 'gets back every character that it sends',
    'concurrent_calls': 'sends 20 messages at once, then opens 20 streams',
    'tenant': 'has the agent work for a tenant',
}

SEQUENCE: Final = 'urn:a2a-scribe:extension:sequence:1'
NO_TASK: Final = 'a-task-that-does-not-exist'
AGENT: Final = 'obedient'
EXTENDED_AGENT: Final = 'obedient to those it knows'
LARGE: Final = 'é' * 2_500_000
"""5 MB in UTF-8."""
UNICODE: Final = 'a\x00b "quoted" \\ \r\n \x85 \u2028 \u2029 \u202e mañana 漢字 🧑\u200d🚀 \U0001f600 \U0010ffff'
AT_ONCE: Final = 20

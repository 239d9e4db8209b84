"""What clients of version 0.3 do with a real server. The names are those in `python_script` and `script.mjs`."""

from collections.abc import Mapping
from typing import Final

SCENARIOS: Final[Mapping[str, str]] = {
    'card': 'fetches the card where it is now and where it was, and the extended one',
    'send': 'gets the completed task with its artifact and history',
    'send_without_waiting': 'gets a task at work, and polls until it has completed',
    'stream': 'sees a Task first, then everything once and in order, then the final status',
    'question': 'sees a stream end with a question, and answers it',
    'get': 'reads a task with all or one of its messages',
    'cancel': 'cancels a task at work',
    'resubscribe': 'sees the task, then what comes',
    'push_configs': 'sets one and reads it, and as far as it can, lists and deletes it',
    'direct_message': 'gets a message that makes no task, at once and as a stream',
    'parts_of_all_kinds': 'sends a file and data, and gets them back',
    'failing_agent': 'gets the failed task, without a word of the exception',
    'errors': 'is told what it understands',
}

"""HTTP+JSON of version 0.3: its URLs begin with `/v1`, its bodies are the JSON of gRPC's messages."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import orjson
from a2a.utils.errors import A2AError

from a2a_scribe.protocol.faults import InvalidFieldError
from a2a_scribe.transport.asgi import JSON, HttpCall
from a2a_scribe.transport.calls import decode
from a2a_scribe.transport.faults import to_rpc
from a2a_scribe.transport.json_body import read_json
from a2a_scribe.transport.old.operations import CALLS
from a2a_scribe.transport.operations import Operation
from a2a_scribe.transport.rest import Query, RestApp
from a2a_scribe.transport.rest_paths import Methods, Route, first_route, pattern_of
from a2a_scribe.transport.rest_query import read_query

CONFIGS: Final = '/v1/tasks/{task}/pushNotificationConfigs'
PATHS: Final[Mapping[str, Methods]] = {
    '/v1/message:send': {'POST': 'SendMessage'},
    '/v1/message:stream': {'POST': 'SendStreamingMessage'},
    '/v1/tasks/{task}:cancel': {'POST': 'CancelTask'},
    '/v1/tasks/{task}:subscribe': {'POST': 'TaskSubscription', 'GET': 'TaskSubscription'},
    '/v1/tasks/{task}': {'GET': 'GetTask'},
    CONFIGS: {'POST': 'CreateTaskPushNotificationConfig', 'GET': 'ListTaskPushNotificationConfig'},
    CONFIGS + '/{config}': {
        'GET': 'GetTaskPushNotificationConfig',
        'DELETE': 'DeleteTaskPushNotificationConfig',
    },
    '/v1/card': {'GET': 'GetAgentCard'},
}
PATTERNS: Final = [(pattern_of(path), methods) for path, methods in PATHS.items()]


class OldRestApp(RestApp):
    """The URLs of version 0.3, as an ASGI app."""

    operations: ClassVar[Mapping[str, Operation]] = CALLS

    def find_route(self, path: str) -> Route | None:
        """Returns what a path stands for."""
        return first_route(path, PATTERNS)

    def media_type(self, _: HttpCall) -> str:
        """Returns the type of an answer."""
        return JSON

    def error_body(self, error: A2AError, _: int | None = None) -> bytes:
        """Returns an error as JSON-RPC has it: version 0.3 says only which status it has."""
        return orjson.dumps(to_rpc(error))

    async def read(self, call: HttpCall, route: Route, operation: Operation, query: Query) -> tuple[Any, str]:
        """Returns the request, from path, query and body, and that it names no tenant."""
        if call.method == 'POST':
            given = await read_json(call, self.wire.settings, absent=b'{}')
        else:
            given = read_query(query, operation.request)
        if not isinstance(given, dict):
            raise InvalidFieldError('', 'The body must be an object')
        if route.methods[call.method] == 'CreateTaskPushNotificationConfig' and 'config' not in given:
            given = {'config': given}
        return decode({**given, **_names(route.fields, operation)}, operation), ''


def _names(fields: Mapping[str, str], operation: Operation) -> dict[str, str]:
    """Returns what a path names, as the names of resources that requests have in protobuf."""
    if 'task' not in fields:
        return {}
    name = f'tasks/{fields["task"]}'
    if 'config' in fields:
        name += f'/pushNotificationConfigs/{fields["config"]}'
    return {'parent' if 'parent' in operation.request.DESCRIPTOR.fields_by_name else 'name': name}

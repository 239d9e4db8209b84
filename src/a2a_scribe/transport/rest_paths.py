"""The URLs of HTTP+JSON (A2A 1.0, sections 5.3 and 11.3), each also below a tenant, as one table."""

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple
from urllib.parse import unquote

Methods = Mapping[str, str]
"""The operation that each HTTP method of a path stands for."""

CONFIGS: Final = '/tasks/{taskId}/pushNotificationConfigs'

PATHS: Final[Mapping[str, Methods]] = {
    '/message:send': {'POST': 'SendMessage'},
    '/message:stream': {'POST': 'SendStreamingMessage'},
    '/tasks': {'GET': 'ListTasks'},
    '/tasks/{id}:cancel': {'POST': 'CancelTask'},
    # The text of the specification says POST, its protobuf says GET: both are right.
    '/tasks/{id}:subscribe': {'POST': 'SubscribeToTask', 'GET': 'SubscribeToTask'},
    '/tasks/{id}': {'GET': 'GetTask'},
    CONFIGS: {'POST': 'CreateTaskPushNotificationConfig', 'GET': 'ListTaskPushNotificationConfigs'},
    CONFIGS + '/{id}': {'GET': 'GetTaskPushNotificationConfig', 'DELETE': 'DeleteTaskPushNotificationConfig'},
    '/extendedAgentCard': {'GET': 'GetExtendedAgentCard'},
}


class Route(NamedTuple):
    """What a path stands for."""

    methods: Methods
    fields: Mapping[str, str]
    """The fields of the request that the path names, `tenant` among them."""


def pattern_of(path: str) -> re.Pattern[str]:
    """Returns what matches a path of a table, and the fields that it names."""
    return re.compile(re.sub(r'\\{(\w+)\\}', r'(?P<\1>[^/]+)', re.escape(path)))


TENANT: Final = '/{tenant}'
PATTERNS: Final = [(pattern_of(path), methods) for path, methods in PATHS.items()]
PATTERNS_OF_TENANTS: Final = [(pattern_of(TENANT + path), methods) for path, methods in PATHS.items()]
"""Looked at last: nearly every path could be one below a tenant."""

ESCAPED_COLON: Final = re.compile('%3a', re.IGNORECASE)


def find_route(path: str) -> Route | None:
    """Returns the route of a path, which is still percent-encoded; `None` if there is none."""
    return first_route(path, (*PATTERNS, *PATTERNS_OF_TENANTS))


def first_route(path: str, patterns: Iterable[tuple[re.Pattern[str], Methods]]) -> Route | None:
    """Returns the first route of a table that a path matches."""
    plain = ESCAPED_COLON.sub(':', path)
    for pattern, methods in patterns:
        if found := pattern.fullmatch(plain):
            return Route(methods, {name: unquote(value) for name, value in found.groupdict().items()})
    return None

"""The URLs of HTTP+JSON: which operation each stands for, and what it names."""

from collections.abc import Mapping

import pytest

from a2a_scribe.transport.operations import OPERATIONS
from a2a_scribe.transport.rest_paths import PATHS, find_route

SUBSCRIBE = {'POST': 'SubscribeToTask', 'GET': 'SubscribeToTask'}
CONFIGS = {'POST': 'CreateTaskPushNotificationConfig', 'GET': 'ListTaskPushNotificationConfigs'}
CONFIG = {'GET': 'GetTaskPushNotificationConfig', 'DELETE': 'DeleteTaskPushNotificationConfig'}
FOUND: Mapping[str, tuple[Mapping[str, str], Mapping[str, str]]] = {
    '/message:send': ({'POST': 'SendMessage'}, {}),
    '/message:stream': ({'POST': 'SendStreamingMessage'}, {}),
    '/tasks': ({'GET': 'ListTasks'}, {}),
    '/tasks/t': ({'GET': 'GetTask'}, {'id': 't'}),
    '/tasks/t:cancel': ({'POST': 'CancelTask'}, {'id': 't'}),
    '/tasks/t:subscribe': (SUBSCRIBE, {'id': 't'}),
    '/tasks/t/pushNotificationConfigs': (CONFIGS, {'taskId': 't'}),
    '/tasks/t/pushNotificationConfigs/c': (CONFIG, {'taskId': 't', 'id': 'c'}),
    '/extendedAgentCard': ({'GET': 'GetExtendedAgentCard'}, {}),
}


@pytest.mark.parametrize('path', FOUND)
def test_each_path_stands_for_its_operations(path: str) -> None:
    route = find_route(path)
    assert route is not None
    assert (route.methods, route.fields) == FOUND[path]


@pytest.mark.parametrize('path', FOUND)
def test_each_path_is_also_below_a_tenant(path: str) -> None:
    route = find_route('/acme' + path)
    assert route is not None
    assert (route.methods, route.fields) == (FOUND[path][0], {'tenant': 'acme', **FOUND[path][1]})


def test_every_operation_has_a_path_and_no_path_has_another() -> None:
    assert {name for methods in PATHS.values() for name in methods.values()} == set(OPERATIONS)


@pytest.mark.parametrize('path', FOUND)
def test_fields_that_a_path_names_are_those_of_its_requests(path: str) -> None:
    methods, fields = FOUND[path]
    for name in methods.values():
        known = OPERATIONS[name].request.DESCRIPTOR.fields_by_camelcase_name
        assert {*fields, 'tenant'} <= set(known)


@pytest.mark.parametrize(
    'path',
    [
        '', '/', '//', '/task', '/Tasks', '/tasks/', '//tasks', '/tasks//', '/message', '/message:', '/message:sending',
        '/message:send/x', '/v1/a/tasks', '/acme//tasks', '/acme/other/tasks', '/tasks/t/pushNotificationConfig',
        '/tasks/t/pushNotificationConfigs/', '/tasks//pushNotificationConfigs', '/tasks/t/pushNotificationConfigs/c/d',
        '/extendedAgentCard/x', '/acme', 'tasks',
    ],
)  # fmt: skip
def test_there_is_nothing_at_other_paths(path: str) -> None:
    assert find_route(path) is None


@pytest.mark.parametrize(
    ('path', 'fields'),
    [
        ('/tasks/a%2Fb', {'id': 'a/b'}),
        ('/tasks/a%20b', {'id': 'a b'}),
        ('/tasks/a+b', {'id': 'a+b'}),
        ('/tasks/%C3%BC', {'id': 'ü'}),
        ('/tasks/%00', {'id': '\0'}),
        ('/tasks/%25', {'id': '%'}),
        ('/tasks/%252F', {'id': '%2F'}),
        ('/tasks/%', {'id': '%'}),
        ('/tasks/%zz', {'id': '%zz'}),
        ('/tasks/%FF', {'id': '\ufffd'}),
        ('/tasks/%ED%A0%80', {'id': '\ufffd\ufffd\ufffd'}),
        ('/tasks/..', {'id': '..'}),
        ('/tasks/:cancel', {'id': ':cancel'}),
        ('/a%2Fb/tasks', {'tenant': 'a/b'}),
        ('/%2e%2e/tasks/x', {'tenant': '..', 'id': 'x'}),
    ],
)
def test_what_is_percent_encoded_is_decoded_once_and_after_the_path_was_taken_apart(
    path: str, fields: Mapping[str, str]
) -> None:
    route = find_route(path)
    assert route is not None
    assert route.fields == fields


@pytest.mark.parametrize('colon', [':', '%3A', '%3a'])
def test_a_colon_may_be_encoded(colon: str) -> None:
    for path, operation in [('/message', 'send'), ('/tasks/t', 'cancel'), ('/acme/tasks/t', 'subscribe')]:
        found, expected = find_route(f'{path}{colon}{operation}'), find_route(f'{path}:{operation}')
        assert found == expected
        assert found is not None


def test_what_could_be_both_is_no_tenant() -> None:
    """A tenant that is called `tasks` is named in the query or in the body."""
    for path, fields in {
        '/tasks/tasks': {'id': 'tasks'},
        '/tasks/message:send': {'id': 'message:send'},
        '/tasks/a:b:cancel': {'id': 'a:b'},
        '/tasks/tasks/pushNotificationConfigs': {'taskId': 'tasks'},
        '/tasks/tasks/t': {'tenant': 'tasks', 'id': 't'},
    }.items():
        route = find_route(path)
        assert route is not None
        assert route.fields == fields

"""Section 14: required fields and other checks of what comes in."""

from typing import Any

from tests.conformance.errors import INVALID_REQUEST, Json
from tests.conformance.kit import NO_TASK, found, get, message_of, task_of
from tests.conformance.over_grpc import GrpcWire
from tests.conformance.over_http import HttpWire, JsonRpcWire, RestWire, envelope
from tests.conformance.site import Site
from tests.conformance.table import Section
from tests.conformance.wire import GRPC, HTTP, JSONRPC, REST, Wire

SECTION = Section(14, 'Required fields and validation')


def sent(**fields: Any) -> Json:
    return {'message': message_of('work complete', **fields)}


FIRST = SECTION.must('3.3.2', 'All parameters are checked before anything is done')


@FIRST.check()
async def refused_message_leaves_nothing(wire: Wire, site: Site) -> None:
    context = site.unique('context')
    for params in (
        sent(contextId=context, parts=[]),
        sent(contextId=context, parts=[{'text': 'work'}, {}]),
        {**sent(contextId=context), 'configuration': {'historyLength': -1}},
        {**sent(contextId=context), 'configuration': {'taskPushNotificationConfig': {'url': ''}}},
    ):
        assert (await wire.call('SendMessage', params)).error is not None
    assert await found(wire, contextId=context) == []


REQUIRED = SECTION.should('5.7', 'A request without a required field is refused')


@REQUIRED.check()
async def message_is_required(wire: Wire, site: Site) -> None:
    for operation in ('SendMessage', 'SendStreamingMessage'):
        (await wire.ask(operation, {})).invalid('message')


@REQUIRED.check()
async def fields_of_the_message_are_required(wire: Wire, site: Site) -> None:
    for field in ('messageId', 'role', 'parts'):
        params = sent()
        del params['message'][field]
        for operation in ('SendMessage', 'SendStreamingMessage'):
            (await wire.ask(operation, params)).invalid(f'message.{field}')


@REQUIRED.check()
async def one_part_is_required(wire: Wire, site: Site) -> None:
    (await wire.call('SendMessage', sent(parts=[]))).invalid('message.parts')


@REQUIRED.check(on=(*JSONRPC, *GRPC))
async def ids_are_required(wire: Wire, site: Site) -> None:
    for operation in ('GetTask', 'CancelTask', 'SubscribeToTask'):
        (await wire.ask(operation, {})).invalid('id')
    for operation in ('GetTaskPushNotificationConfig', 'DeleteTaskPushNotificationConfig'):
        (await wire.call(operation, {})).invalid('taskId', 'id')


@REQUIRED.check()
async def url_of_a_push_config_is_required(wire: Wire, site: Site) -> None:
    task = await task_of(wire, 'ask')
    (await wire.call('CreateTaskPushNotificationConfig', {'taskId': task['id']})).invalid('url')


@REQUIRED.check()
async def scheme_of_an_authentication_is_required(wire: Wire, site: Site) -> None:
    task = await task_of(wire, 'ask')
    params = {'taskId': task['id'], 'url': 'https://hook.test/', 'authentication': {'credentials': 'c'}}
    (await wire.call('CreateTaskPushNotificationConfig', params)).invalid('authentication.scheme')


CONTENT = SECTION.must('proto', 'A part has exactly one of text, raw, url and data', sdk_fails=True)


@CONTENT.check()
async def part_without_content_is_refused(wire: Wire, site: Site) -> None:
    (await wire.call('SendMessage', sent(parts=[{}]))).invalid('message.parts[0]')
    (await wire.call('SendMessage', sent(parts=[{'text': 'a'}, {'filename': 'f'}]))).invalid('message.parts[1]')


@CONTENT.check(on=HTTP)
async def part_with_two_contents_is_refused(wire: HttpWire, site: Site) -> None:
    error = (await wire.call('SendMessage', sent(parts=[{'text': 'a', 'url': 'https://x.test'}]))).error
    assert error is not None
    assert error.fields in (['message.parts[0].url'], ['message.parts[0]'])


@CONTENT.check()
async def each_content_is_taken(wire: Wire, site: Site) -> None:
    contents: list[Json] = [{'text': 'work complete'}, {'raw': 'YWJj'}, {'url': 'https://x.test'}, {'data': {'a': [1]}}]
    task = await task_of(wire, '', parts=contents)
    assert (await get(wire, task['id']))['history'][0]['parts'] == contents


ROLE = SECTION.should('proto', "A client's role is ROLE_USER", sdk_fails=True)


@ROLE.check()
async def role_of_the_agent_is_refused(wire: Wire, site: Site) -> None:
    (await wire.call('SendMessage', sent(role='ROLE_AGENT'))).invalid('message.role')
    (await wire.call('SendMessage', sent(role='ROLE_UNSPECIFIED'))).invalid('message.role')


UNKNOWN = SECTION.should('5.7', 'Unknown fields are ignored')


@UNKNOWN.check(on=HTTP)
async def unknown_fields_are_ignored(wire: HttpWire, site: Site) -> None:
    params = {**sent(colour='red'), 'weather': {'is': ['fine']}}
    assert (await wire.call('SendMessage', params)).ok()['task']
    assert (await wire.call('ListTasks', {'weather': 'fine', 'pageSize': 1})).ok()['pageSize'] == 1


@UNKNOWN.check(on=GRPC)
async def unknown_fields_of_protobuf_are_ignored(wire: GrpcWire, site: Site) -> None:
    task = await task_of(wire, 'ask')
    body = b'\x12' + bytes([len(task['id'])]) + task['id'].encode() + b'\xfa\x3e\x03abc'
    assert (await wire.call_bytes('GetTask', body)).error is None


ENUMS = SECTION.should('5.7', 'An unknown value of an enum is refused, never read as none', sdk_fails=True)


@ENUMS.check(on=HTTP)
async def unknown_enum_values_are_refused(wire: HttpWire, site: Site) -> None:
    (await wire.call('ListTasks', {'status': 'TASK_STATE_RUNNING'})).invalid('status')
    (await wire.call('SendMessage', sent(role='ROLE_ROBOT'))).invalid('message.role')


@ENUMS.check(on=GRPC)
async def unknown_enum_numbers_are_refused(wire: GrpcWire, site: Site) -> None:
    (await wire.call('ListTasks', {'status': 77})).invalid('status')
    (await wire.call('SendMessage', sent(role=77))).invalid('message.role')


TYPES = SECTION.must('3.3.2', 'Values of the wrong type are refused, and their field is named')


@TYPES.check(on=HTTP)
async def wrong_types_are_refused(wire: HttpWire, site: Site) -> None:
    for fields, field in (
        ({'messageId': 7}, 'message.messageId'),
        ({'parts': {'text': 'a'}}, 'message.parts'),
        ({'parts': [{'text': 7}]}, 'message.parts[0].text'),
        ({'parts': [{'raw': '*'}]}, 'message.parts[0].raw'),
        ({'metadata': []}, 'message.metadata'),
        ({'referenceTaskIds': 'x'}, 'message.referenceTaskIds'),
    ):
        (await wire.call('SendMessage', sent(**fields))).invalid(field)
    for configuration, field in (
        ({'historyLength': 'many'}, 'configuration.historyLength'),
        ({'returnImmediately': 'yes'}, 'configuration.returnImmediately'),
    ):
        (await wire.call('SendMessage', {**sent(), 'configuration': configuration})).invalid(field)


@TYPES.check(on=GRPC)
async def bytes_that_are_no_message_are_refused(wire: GrpcWire, site: Site) -> None:
    for operation in ('SendMessage', 'GetTask', 'ListTasks', 'GetExtendedAgentCard'):
        (await wire.call_bytes(operation, b'\xff\xff\xff')).refused(INVALID_REQUEST)


NAMES = SECTION.must('5.5', 'JSON has camelCase names and enums by name; protobuf names are taken too')


@NAMES.check(on=HTTP)
async def answers_have_camel_case_names(wire: HttpWire, site: Site) -> None:
    task = await task_of(wire, 'work artifact:a complete')
    assert {'id', 'contextId', 'status', 'artifacts', 'history'} == set(task)
    assert task['status']['state'] == 'TASK_STATE_COMPLETED'
    assert task['history'][0]['role'] == 'ROLE_USER'
    assert '_id' not in str(list(task['artifacts'][0]))


@NAMES.check(on=HTTP)
async def protobuf_names_are_taken(wire: HttpWire, site: Site) -> None:
    message = {'message_id': 'm', 'role': 'ROLE_USER', 'parts': [{'text': 'work complete', 'media_type': 'text/plain'}]}
    params = {'message': message, 'configuration': {'history_length': 0}}
    task = (await wire.call('SendMessage', params)).ok()['task']
    assert 'history' not in task
    assert (await wire.call('ListTasks', {'page_size': 1})).ok()['pageSize'] == 1


ABSENT = SECTION.may('9.4', 'Absent params, and null, stand for none', sdk_fails=True)


@ABSENT.check(on=JSONRPC)
async def params_may_be_absent_or_null(wire: JsonRpcWire, site: Site) -> None:
    for body in (envelope('ListTasks'), {**envelope('ListTasks'), 'params': None}):
        assert 'tasks' in (await wire.post(body)).json()['result']


@ABSENT.check(on=REST)
async def bodies_of_cancels_may_be_absent(wire: RestWire, site: Site) -> None:
    bodies: tuple[bytes, ...] = (b'', b'{}')
    for content in bodies:
        task = await task_of(wire, 'ask')
        response = await wire.request('POST', f'/tasks/{task["id"]}:cancel', content=content)
        assert response.json()['status']['state'] == 'TASK_STATE_CANCELED'


IDS = SECTION.ours('13.4', 'Ids have 1 to 255 characters, and none that cannot be stored')


@IDS.check()
async def ids_that_cannot_be_stored_are_refused(wire: Wire, site: Site) -> None:
    for field in ('messageId', 'contextId'):
        for value in ('x' * 256, 'a\x00b', 'a\nb'):
            (await wire.call('SendMessage', sent(**{field: value}))).invalid(f'message.{field}')
    assert (await wire.call('GetTask', {'id': NO_TASK * 20})).error is not None

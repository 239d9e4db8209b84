"""Section 13: the error model, the same on all bindings."""

from a2a.server.owner_resolver import resolve_user_scope
from google.protobuf import json_format
from google.rpc import error_details_pb2

from a2a_scribe.journal.memory import MemoryJournal
from a2a_scribe.journal.stores import JournalTaskStore
from a2a_scribe.testing.journals import TroubledJournal
from tests.conformance.errors import (
    CARD_NOT_CONFIGURED,
    CONTENT_TYPE_NOT_SUPPORTED,
    ERROR_INFO,
    EXTENSION_REQUIRED,
    INVALID_AGENT_RESPONSE,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    PUSH_NOT_SUPPORTED,
    TASK_NOT_CANCELABLE,
    TASK_NOT_FOUND,
    TEMPORARY_ERROR,
    UNSUPPORTED_OPERATION,
    VERSION_NOT_SUPPORTED,
    Error,
)
from tests.conformance.kit import NO_TASK, get, message_of, send, stream, task_of
from tests.conformance.over_http import RestWire
from tests.conformance.site import OTHER_EXTENSION, Site
from tests.conformance.table import Section
from tests.conformance.wire import REST, Wire

SECTION = Section(13, 'Error model')

TABLE = SECTION.must('5.4', 'Every error has its code, its HTTP status, its gRPC status and its reason', sdk_fails=True)


@TABLE.check()
async def task_not_found(wire: Wire, site: Site) -> None:
    for operation in ('GetTask', 'CancelTask', 'SubscribeToTask'):
        (await wire.ask(operation, {'id': NO_TASK})).refused(TASK_NOT_FOUND)


@TABLE.check()
async def task_not_cancelable(wire: Wire, site: Site) -> None:
    task = await task_of(wire, 'work complete')
    (await wire.call('CancelTask', {'id': task['id']})).refused(TASK_NOT_CANCELABLE)


@TABLE.check()
async def push_notification_not_supported(wire: Wire, site: Site) -> None:
    params = {'taskId': NO_TASK, 'id': 'c'}
    (await wire.at(await site.service('plain')).call('GetTaskPushNotificationConfig', params)).refused(
        PUSH_NOT_SUPPORTED
    )


@TABLE.check()
async def unsupported_operation(wire: Wire, site: Site) -> None:
    task = await task_of(wire, 'work complete')
    (await send(wire, 'more', taskId=task['id'])).refused(UNSUPPORTED_OPERATION)


@TABLE.check()
async def content_type_not_supported(wire: Wire, site: Site) -> None:
    parts = [{'text': 'complete', 'mediaType': 'image/png'}]
    (await wire.call('SendMessage', {'message': message_of('', parts=parts)})).refused(CONTENT_TYPE_NOT_SUPPORTED)


@TABLE.check()
async def invalid_agent_response(wire: Wire, site: Site) -> None:
    (await send(wire, 'nonsense')).refused(INVALID_AGENT_RESPONSE)


@TABLE.check()
async def extended_agent_card_not_configured(wire: Wire, site: Site) -> None:
    (await wire.at(await site.service('unconfigured')).call('GetExtendedAgentCard')).refused(CARD_NOT_CONFIGURED)


@TABLE.check()
async def extension_support_required(wire: Wire, site: Site) -> None:
    other = wire.at(await site.service('extensions'))
    (await send(other, 'complete', options={'headers': [('A2A-Extensions', OTHER_EXTENSION)]})).refused(
        EXTENSION_REQUIRED
    )


@TABLE.check()
async def version_not_supported(wire: Wire, site: Site) -> None:
    (await wire.call('GetTask', {'id': NO_TASK}, version='99.0')).refused(VERSION_NOT_SUPPORTED)


@TABLE.check()
async def invalid_params(wire: Wire, site: Site) -> None:
    (await wire.call('ListTasks', {'pageSize': 1000})).refused(INVALID_PARAMS)


@TABLE.check()
async def errors_are_the_same_on_streams(wire: Wire, site: Site) -> None:
    task = await task_of(wire, 'work complete')
    (await stream(wire, 'more', taskId=task['id'])).refused(UNSUPPORTED_OPERATION)
    (await stream(wire, 'more', taskId=NO_TASK)).refused(TASK_NOT_FOUND)


DETAILS = SECTION.must('3.3.2', 'An error has a code, a message for humans, and details that each say their type')


def well_formed(error: Error) -> None:
    """Checks that details are what their types have, by reading them strictly."""
    assert error.message
    for detail in error.details:
        name = detail['@type'].rpartition('.')[2]
        kind = getattr(error_details_pb2, name)
        json_format.ParseDict({key: value for key, value in detail.items() if key != '@type'}, kind())


@DETAILS.check()
async def details_say_their_types(wire: Wire, site: Site) -> None:
    for answer in (
        await wire.call('GetTask', {'id': NO_TASK}),
        await wire.call('ListTasks', {'pageSize': 0}),
        await wire.call('SendMessage', {}),
        await wire.call('GetTask', {'id': NO_TASK}, version='7.0'),
    ):
        assert answer.error is not None
        assert answer.error.details
        well_formed(answer.error)


STATUS = SECTION.must('11.6', 'Every error of HTTP+JSON, of whatever origin, is a google.rpc.Status', sdk_fails=True)


@STATUS.check(on=REST)
async def unknown_routes_have_the_form_too(wire: RestWire, site: Site) -> None:
    for path in ('/nope', '/tasks/a/b/c/d/e', '/message:dance', '/tasks/x/pushNotificationConfigs/y/z'):
        response = await wire.request('GET', path)
        assert response.status_code in (404, 405), (path, response.text)
        error = wire.answer_of(response).error
        assert error is not None
        assert error.reason == METHOD_NOT_FOUND.reason
        well_formed(error)


@STATUS.check(on=REST)
async def unknown_methods_are_405_and_say_what_is_allowed(wire: RestWire, site: Site) -> None:
    for method, path, allowed in (
        ('PUT', '/tasks', 'GET'),
        ('GET', '/message:send', 'POST'),
        ('DELETE', '/tasks/x', 'GET'),
        ('GET', '/tasks/x:cancel', 'POST'),
        ('PATCH', '/tasks/x/pushNotificationConfigs/y', 'GET, DELETE'),
    ):
        response = await wire.request(method, path)
        assert (response.status_code, response.headers['allow']) == (405, allowed)
        assert response.json()['error']['code'] == 405


@STATUS.check(on=REST)
async def bodies_that_are_no_json_have_the_form_too(wire: RestWire, site: Site) -> None:
    for content in (b'{', b'nonsense', b'\xff\xfe', b'[' * 100_000):
        response = await wire.request('POST', '/message:send', content=content)
        assert response.status_code == 400
        assert response.json()['error']['details'][0]['reason'] == 'PARSE_ERROR'


INFO = SECTION.must('10.6', 'Errors of A2A carry ErrorInfo with their reason and the domain, on all bindings')


@INFO.check()
async def error_info_comes_first(wire: Wire, site: Site) -> None:
    error = (await wire.call('GetTask', {'id': NO_TASK})).refused(TASK_NOT_FOUND)
    assert error.details[0] == {'@type': ERROR_INFO, 'reason': 'TASK_NOT_FOUND', 'domain': 'a2a-protocol.org'}


DATA = SECTION.should('9.5', 'JSON-RPC gives the same details as an array in `error.data`', sdk_fails=True)


@DATA.check()
async def validation_errors_are_bad_requests_on_all_bindings(wire: Wire, site: Site) -> None:
    error = (await wire.call('ListTasks', {'pageSize': 101, 'historyLength': 1})).invalid('pageSize')
    assert [detail['@type'].rpartition('.')[2] for detail in error.details] == ['ErrorInfo', 'BadRequest']


FIELDS = SECTION.should('3.3.2', 'Validation errors name the field, in camelCase', sdk_fails=True)


@FIELDS.check()
async def fields_are_named_as_json_names_them(wire: Wire, site: Site) -> None:
    message = message_of('complete')
    del message['messageId']
    (await wire.call('SendMessage', {'message': message})).invalid('message.messageId')
    (await wire.call('ListTasks', {'historyLength': -1})).invalid('historyLength')


@FIELDS.check()
async def all_missing_fields_are_named(wire: Wire, site: Site) -> None:
    (await wire.call('SendMessage', {'message': {}})).invalid('message.messageId', 'message.role', 'message.parts')


SYSTEM = SECTION.should('3.3.2', 'Errors that pass are told from those that stay')


@SYSTEM.check()
async def journal_that_is_away_is_a_temporary_error(wire: Wire, site: Site) -> None:
    journal = TroubledJournal(MemoryJournal())
    async with site.serving(database=JournalTaskStore(journal, resolve_user_scope)) as service:
        other = wire.at(service)
        task = await task_of(other, 'work ask')
        journal.reads_fail = True
        answer = await other.call('GetTask', {'id': task['id']})
        journal.heal()
        assert await get(other, task['id']) == task
    error = answer.refused(TEMPORARY_ERROR)
    assert [detail['@type'].rpartition('.')[2] for detail in error.details] == ['ErrorInfo', 'RetryInfo']
    assert error.details[0]['metadata'] == {'retryable': 'true'}
    assert wire.is_grpc or int(answer.headers['retry-after']) > 0


HIDDEN = SECTION.should('3.3.2', 'What does not exist and what is not yours are the same error')


@HIDDEN.check()
async def foreign_tasks_look_like_none(wire: Wire, site: Site) -> None:
    users = wire.at(await site.service('users'))
    mine, theirs = [('X-User', 'ada')], [('X-User', 'eve')]
    task = await task_of(users, 'work ask', options={'headers': mine})
    for operation in ('GetTask', 'CancelTask', 'SubscribeToTask'):
        foreign = (await users.ask(operation, {'id': task['id']}, headers=theirs)).refused(TASK_NOT_FOUND)
        none = (await users.ask(operation, {'id': NO_TASK}, headers=theirs)).refused(TASK_NOT_FOUND)
        assert foreign == none
    assert (await users.call('GetTask', {'id': task['id']}, headers=mine)).ok() == task

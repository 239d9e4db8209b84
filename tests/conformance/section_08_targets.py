"""Section 8: what a push config has to have, where webhooks may be, and what is kept of their secrets."""

from pathlib import Path

from starlette.responses import RedirectResponse

from tests.conformance.kit import send, task_of
from tests.conformance.receiver import receiving
from tests.conformance.section_08_delivery import SCRIPT, at_webhooks
from tests.conformance.section_08_push_configs import CREATE, URL, configs_of, create
from tests.conformance.site import KINDS, Site
from tests.conformance.table import Section
from tests.conformance.wire import JSONRPC, Wire

SECTION = Section(8, 'Push configs: targets and secrets')

INLINE = 'configuration.taskPushNotificationConfig.url'
NOT_HTTP = ('not a url', 'file:///etc/passwd', 'ftp://hook.test/', 'hook.test/path', 'https://', 'javascript:alert(1)')
INSIDE = (
    'https://127.0.0.1/',
    'https://localhost/',
    'https://10.0.0.1/',
    'https://172.16.0.1/',
    'https://192.168.1.1/',
    'https://169.254.169.254/latest/meta-data/',
    'https://0.0.0.0/',
    'https://224.0.0.1/',
    'https://2130706433/',
    'https://0x7f000001/',
    'https://0177.0.0.1/',
    'https://127.1/',
    'https://[::1]/',
    'https://[::]/',
    'https://[fe80::1]/',
    'https://[fd00::1]/',
    'https://[::ffff:127.0.0.1]/',
    'https://user@127.0.0.1/',
)

REQUIRED = SECTION.must('proto', '`url` is required, and `authentication.scheme` where there is an `authentication`')


@REQUIRED.check()
async def config_without_a_required_field_is_invalid(wire: Wire, site: Site) -> None:
    task = await task_of(wire, 'ask')
    for config, field in (({}, 'url'), ({'url': URL, 'authentication': {'credentials': 'c'}}, 'authentication.scheme')):
        (await wire.call(CREATE, {'taskId': task['id'], **config})).invalid(field)
        answer = await send(wire, 'ask', taskId=task['id'], configuration={'taskPushNotificationConfig': config})
        answer.invalid(f'configuration.taskPushNotificationConfig.{field}')
    assert await configs_of(wire, task['id']) == []


GUARD = SECTION.should('13.2', 'Webhooks at private, loopback and link-local addresses are refused', sdk_fails=True)


async def refused(wire: Wire, url: str) -> None:
    """Checks that a URL is refused wherever a config may be given."""
    task = await task_of(wire, 'ask')
    (await wire.call(CREATE, {'taskId': task['id'], 'url': url})).invalid('url')
    inline = {'taskPushNotificationConfig': {'url': url}}
    (await send(wire, 'ask', taskId=task['id'], configuration=inline)).invalid(INLINE)
    (await send(wire, 'ask', configuration=inline)).invalid(INLINE)
    assert await configs_of(wire, task['id']) == []


@GUARD.check()
async def what_is_no_web_address_is_refused(wire: Wire, site: Site) -> None:
    for url in NOT_HTTP:
        await refused(wire, url)


@GUARD.check()
async def address_of_the_inside_is_refused(wire: Wire, site: Site) -> None:
    for url in INSIDE:
        await refused(wire, url)


@GUARD.check()
async def validator_of_the_operator_is_asked(wire: Wire, site: Site) -> None:
    async def allows(url: str) -> bool:
        return url.startswith('https://allowed.test/')

    async with site.serving(push_url_validator=allows) as service:
        await refused(wire.at(service), 'https://hook.test/')
        task = await task_of(wire.at(service), 'ask')
        assert (await create(wire.at(service), task['id'], url='https://allowed.test/x'))['id']


@GUARD.check(on=JSONRPC)
async def redirect_is_not_followed(wire: Wire, site: Site) -> None:
    own = await at_webhooks(wire, site)
    async with receiving() as inside, receiving() as receiver:
        receiver.answers = [RedirectResponse(f'{inside.url}/hook', status) for status in (307, 308)]
        await send(own, SCRIPT, configuration=receiver.inline())
        await receiver.until_state('COMPLETED')
        assert inside.calls == []


HTTPS = SECTION.should('13.2', 'Webhooks are reached by HTTPS; their credentials are kept safely')


@HTTPS.check()
async def webhook_without_tls_is_refused(wire: Wire, site: Site) -> None:
    await refused(wire, 'http://hook.test/')


@HTTPS.check(on=JSONRPC)
async def credentials_are_not_readable_in_the_database(wire: Wire, site: Site) -> None:
    database, token, credentials = site.database(), site.unique('the-token-'), site.unique('the-credentials-')
    async with site.serving(database=database, **KINDS['webhooks']()) as service:
        own = wire.at(service)
        task = await task_of(own, 'ask')
        authentication = {'scheme': 'Bearer', 'credentials': credentials}
        await create(own, task['id'], token=token, authentication=authentication)
    files = [path for path in site.folder.glob(f'{Path(database).name}*') if path.is_file()]
    stored = b''.join(path.read_bytes() for path in files)
    assert task['id'].encode() in stored
    assert token.encode() not in stored
    assert credentials.encode() not in stored

"""Targets of webhooks: what is not known to be public is refused, in whatever form it is written."""

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from a2a_scribe.errors import SettingsError
from a2a_scribe.push.targets import Target, TargetRefusedError, Targets

NOT_A_WEBHOOK = (
    # No web address.
    '',
    'not a url',
    'hook.test/path',
    '//hook.test/',
    'https:hook.test',
    'https:/hook.test/',
    'https:///hook.test/',
    'https://',
    'https://?x',
    'https://:443/',
    'file:///etc/passwd',
    'ftp://hook.test/',
    'gopher://hook.test:70/_x',
    'dict://hook.test:11211/stat',
    'ldap://hook.test/',
    'ws://hook.test/',
    'javascript:alert(1)',
    'data:text/html,x',
    'unix:/var/run/docker.sock',
    'http+unix://%2Fvar%2Frun%2Fdocker.sock/',
    'jar:https://hook.test!/',
    'view-source:https://hook.test/',
    ' https://hook.test/',
    'https://hook.test/ ',
    'http://hook.test/',
    'HTTP://hook.test/',
    # Who is logged in where.
    'https://user@hook.test/',
    'https://user:password@hook.test/',
    'https://hook.test@127.0.0.1/',
    'https://hook.test:443@127.0.0.1/',
    'https://hook.test%40127.0.0.1/',
    'https://127.0.0.1@hook.test/',
    'https://@hook.test/',
    'https://hook.test#@127.0.0.1/',
    'https://127.0.0.1#hook.test/',
    'https://hook.test/#fragment',
    'https://hook.test\\@127.0.0.1/',
    'https:\\\\127.0.0.1\\',
    'https://127.0.0.1\\.hook.test/',
    'https://hook.test/\\..\\',
    'https://127.0.0.1 .hook.test/',
    'https://127.0.0.1\t/',
    'https://hook.test/\r\nHost: 127.0.0.1',
    'https://hook.test/a b',
    'https://hook.test\x00.127.0.0.1/',
    'https://hook\u00ad.test/',
    # Ports.
    'https://hook.test:/',
    'https://hook.test:0/',
    'https://hook.test:65536/',
    'https://hook.test:99999999999/',
    'https://hook.test:-1/',
    'https://hook.test:+443/',
    'https://hook.test:443:443/',
    'https://hook.test:https/',
    'https://hook.test:4\u06603/',
    'https://[::1]443/',
    # Addresses in other forms.
    'https://2130706433/',
    'https://017700000001/',
    'https://0x7f000001/',
    'https://0X7F000001/',
    'https://0x7f.0x0.0x0.0x1/',
    'https://0177.0.0.1/',
    'https://0177.0.0.01/',
    'https://127.1/',
    'https://127.0.1/',
    'https://127.0.0.1./',
    'https://127.0.0.01/',
    'https://127.0.0.0x1/',
    'https://127.0.0.1.1/',
    'https://127.0.0.256/',
    'https://127.0.0/',
    'https://1.1.1.1.0x/',
    'https://134744072/',
    'https://08.8.8.8/',
    'https://%31%32%37.0.0.1/',
    'https://127%2e0%2e0%2e1/',
    'https://\uff11\uff12\uff17.0.0.1/',
    'https://\u2460\u2461\u2466.0.0.1/',
    'https://127\u30020\u30020\u30021/',
    'https://127.0.0.1%00/',
    'https://127.0.0.1%0d%0a/',
    'https://0/',
    'https://0x/',
    # Names that are none.
    'https://hook.test./',
    'https://.hook.test/',
    'https://hook..test/',
    'https://-hook.test/',
    'https://hook-.test/',
    f'https://{"a" * 64}.test/',
    f'https://{".".join(["a" * 60] * 5)}/',
    f'https://hook.test/{"a" * 2048}',
    'https://b\u00fccher.test/',
    'https://l\u043ecalhost/',
    'https://\u24d4xample.com/',
    'https://hook.test,127.0.0.1/',
    'https://hook.test;127.0.0.1/',
    'https://$(id).test/',
    'https://*.test/',
    # IPv6 that is none, or has a zone.
    'https://::1/',
    'https://[::1/',
    'https://::1]/',
    'https://[[::1]]/',
    'https://[127.0.0.1]/',
    'https://[hook.test]/',
    'https://[fe80::1%25eth0]/',
    'https://[fe80::1%eth0]/',
    'https://[2606:4700::1111%25eth0]/',
    'https://[::1%00]/',
    'https://[v1.x]/',
    'https://[1:2:3:4:5:6:7:8:9]/',
)

INSIDE = (
    'https://0.0.0.0/',
    'https://0.1.2.3/',
    'https://10.0.0.1/',
    'https://10.255.255.255/',
    'https://100.64.0.1/',
    'https://100.100.100.200/latest/meta-data/',
    'https://100.127.255.255/',
    'https://127.0.0.1/',
    'https://127.0.0.1:8443/',
    'https://127.255.255.254/',
    'https://168.63.129.16/machine',
    'https://169.254.0.1/',
    'https://169.254.169.254/latest/meta-data/',
    'https://169.254.170.2/v2/credentials',
    'https://172.16.0.1/',
    'https://172.31.255.255/',
    'https://192.0.0.1/',
    'https://192.0.0.192/opc/v1/instance/',
    'https://192.0.2.1/',
    'https://192.88.99.1/',
    'https://192.168.1.1/',
    'https://198.18.0.1/',
    'https://198.19.255.255/',
    'https://198.51.100.1/',
    'https://203.0.113.1/',
    'https://224.0.0.1/',
    'https://239.255.255.250/',
    'https://240.0.0.1/',
    'https://255.255.255.255/',
    'https://[::]/',
    'https://[::1]/',
    'https://[0:0:0:0:0:0:0:1]/',
    'https://[0000:0000:0000:0000:0000:0000:0000:0001]:8443/',
    'https://[::127.0.0.1]/',
    'https://[::7f00:1]/',
    'https://[::ffff:127.0.0.1]/',
    'https://[::ffff:7f00:1]/',
    'https://[0:0:0:0:0:FFFF:7F00:1]/',
    'https://[::ffff:169.254.169.254]/',
    'https://[::ffff:8.8.8.8]/',
    'https://[::ffff:0:127.0.0.1]/',
    'https://[64:ff9b::127.0.0.1]/',
    'https://[64:ff9b::a9fe:a9fe]/',
    'https://[64:ff9b:1::7f00:1]/',
    'https://[100::1]/',
    'https://[2001::1]/',
    'https://[2001:0:7f00:1::]/',
    'https://[2001:10::1]/',
    'https://[2001:db8::1]/',
    'https://[2002:7f00:1::]/',
    'https://[2002:a00:1::1]/',
    'https://[2606:4700::5efe:127.0.0.1]/',
    'https://[2606:4700::200:5efe:7f00:1]/',
    'https://[3fff::1]/',
    'https://[5f00::1]/',
    'https://[fc00::1]/',
    'https://[fd00::1]/',
    'https://[fd00:ec2::254]/latest/meta-data/',
    'https://[fd20:ce::254]/',
    'https://[fe80::1]/',
    'https://[fec0::1]/',
    'https://[ff02::1]/',
    'https://[ff0e::1]/',
    # Names that never are public.
    'https://localhost/',
    'https://LOCALHOST:8443/',
    'https://a.localhost/',
    'https://localhost.localdomain/',
    'https://printer.local/',
    'https://metadata.google.internal/computeMetadata/v1/',
    'https://router.home.arpa/',
    'https://postgres/',
    'https://kubernetes:443/',
)

PUBLIC = {
    'https://hook.test': Target('https', 'hook.test', 443, '/'),
    'https://hook.test/': Target('https', 'hook.test', 443, '/'),
    'https://hook.test?a=b': Target('https', 'hook.test', 443, '/?a=b'),
    'HTTPS://Hook.Test:8443/A%2Fb/../c?d=e/f?g@h': Target('https', 'hook.test', 8443, '/A%2Fb/../c?d=e/f?g@h'),
    'https://hook.test//x:y@z/': Target('https', 'hook.test', 443, '//x:y@z/'),
    'https://my_hook.a-b.test:443/': Target('https', 'my_hook.a-b.test', 443, '/'),
    'https://xn--bcher-kva.test/': Target('https', 'xn--bcher-kva.test', 443, '/'),
    'https://127.0.0.1.hook.test/': Target('https', '127.0.0.1.hook.test', 443, '/'),
    'https://0x7f.test/': Target('https', '0x7f.test', 443, '/'),
    'https://8.8.8.8/': Target('https', '8.8.8.8', 443, '/'),
    'https://172.32.0.1/': Target('https', '172.32.0.1', 443, '/'),
    'https://100.128.0.1/': Target('https', '100.128.0.1', 443, '/'),
    'https://[2606:4700::1111]:8443/x': Target('https', '2606:4700::1111', 8443, '/x'),
    'https://[64:ff9b::8.8.8.8]/': Target('https', '64:ff9b::8.8.8.8', 443, '/'),
}


def refusal(url: str, targets: Targets) -> str:
    with pytest.raises(TargetRefusedError) as caught:
        targets.check(url)
    return caught.value.reason


@pytest.mark.parametrize('url', NOT_A_WEBHOOK)
def test_what_is_no_url_of_a_webhook_is_refused(url: str) -> None:
    refusal(url, Targets())
    if not url.lower().startswith('http:'):
        refusal(url, Targets(('0.0.0.0/0', '::/0', 'localhost', '*.test'), http=True))


@pytest.mark.parametrize('url', INSIDE)
def test_what_is_not_public_is_refused(url: str) -> None:
    assert 'not public' in refusal(url, Targets())
    assert 'not public' in refusal(url, Targets(('hook.test', '*.hook.test', '9.9.9.9'), http=True))


@pytest.mark.parametrize(('url', 'target'), PUBLIC.items(), ids=PUBLIC)
def test_what_is_public_is_taken_apart(url: str, target: Target) -> None:
    assert Targets().check(url) == target


@pytest.mark.parametrize(
    ('url', 'authority'),
    [
        ('https://hook.test:443/', 'hook.test'),
        ('https://hook.test:80/', 'hook.test:80'),
        ('https://[2606:4700::1111]/', '[2606:4700::1111]'),
        ('https://[2606:4700::1111]:8443/', '[2606:4700::1111]:8443'),
    ],
)
def test_what_the_host_header_says(url: str, authority: str) -> None:
    assert Targets().check(url).authority == authority


def test_a_reason_repeats_nothing_of_the_url() -> None:
    for url in (*NOT_A_WEBHOOK, *INSIDE):
        reason = refusal(url, Targets())
        assert not url or url not in reason
        assert 'password' not in reason.replace('a user or a password', '')


# What the operator allows


@pytest.mark.parametrize(
    ('allow', 'url'),
    [
        ('localhost', 'https://localhost/'),
        ('localhost', 'http://localhost:9000/'),
        ('LOCALHOST', 'https://LocalHost/'),
        ('*.internal', 'https://a.b.internal/'),
        ('hooks.test', 'http://hooks.test/'),
        ('postgres', 'http://postgres:80/'),
        ('127.0.0.1', 'http://127.0.0.1:9000/'),
        ('10.0.0.0/8', 'https://10.1.2.3/'),
        ('10.0.0.0/8', 'http://10.1.2.3/'),
        ('::1', 'http://[::1]:9000/'),
        ('[::1]', 'http://[0:0::1]:9000/'),
        ('fd00::/8', 'https://[fd12::1]/'),
        ('127.0.0.1', 'https://[::ffff:127.0.0.1]/'),
        ('10.0.0.0/8', 'https://[64:ff9b::10.0.0.1]/'),
        ('8.8.8.8', 'http://8.8.8.8/'),
    ],
)
def test_what_is_allowed_passes_without_tls_too(allow: str, url: str) -> None:
    refusal(url, Targets())
    assert Targets((allow,)).check(url)


@pytest.mark.parametrize(
    ('allow', 'url'),
    [
        ('localhost', 'https://a.localhost/'),
        ('localhost', 'https://127.0.0.1/'),
        ('127.0.0.1', 'https://localhost/'),
        ('127.0.0.1', 'https://127.0.0.2/'),
        ('*.internal', 'https://internal/'),
        ('*.hooks.internal', 'https://evilhooks.internal/'),
        ('10.0.0.0/8', 'https://11.0.0.1@10.0.0.1/'),
        ('10.0.0.0/8', 'https://[::10.0.0.1]/'),
        ('10.0.0.0/8', 'https://[2002:a00:1::]/'),
        ('hooks.test', 'http://a.hooks.test/'),
        ('hooks.test', 'http://hooks.test.evil.test/'),
    ],
)
def test_no_more_than_that_is_allowed(allow: str, url: str) -> None:
    refusal(url, Targets((allow,)))


def test_tls_can_be_done_without_everywhere() -> None:
    assert Targets(http=True).check('http://hook.test/').port == 80
    assert 'https' in refusal('http://hook.test/', Targets())


@pytest.mark.parametrize('entry', ['*', '*.', '', 'a b', '10.0.0.1/8', '127.1', 'https://hook.test', 'hook.test:443'])
def test_what_cannot_be_allowed_is_no_setting(entry: str) -> None:
    with pytest.raises(SettingsError, match='webhook_allow'):
        Targets((entry,))


# The addresses of a name


@pytest.mark.parametrize(
    'addresses',
    [
        ['127.0.0.1'],
        ['8.8.8.8', '127.0.0.1'],
        ['2606:4700::1111', '::1'],
        ['fe80::1%eth0'],
        ['2606:4700::1111%1'],
        ['::ffff:10.0.0.1'],
        ['169.254.169.254'],
        ['nonsense'],
    ],
)
def test_all_addresses_of_a_name_are_to_be_public(addresses: list[str]) -> None:
    with pytest.raises(TargetRefusedError, match='not public'):
        Targets(('hook.test',)).screen(addresses, 'other.test')


def test_addresses_that_are_public_or_allowed_pass() -> None:
    Targets().screen(['8.8.8.8', '2606:4700::1111'], 'hook.test')
    Targets(('10.0.0.0/8',)).screen(['10.0.0.1'], 'hook.test')
    Targets(('hook.test', '*.hook.test')).screen(['10.0.0.1', '::1'], 'hook.test')
    Targets(('hook.test', '*.hook.test')).screen(['10.0.0.1', '::1'], 'a.hook.test')


@given(st.ip_addresses())
@example(IPv4Address('8.8.8.8'))
def test_what_python_holds_for_global_is_all_that_passes(address: IPv4Address | IPv6Address) -> None:
    text = str(address)
    try:
        Targets().screen([text])
    except TargetRefusedError:
        return
    assert address.is_global or text.startswith('64:ff9b::')
    assert not address.is_multicast


@given(st.text(alphabet='htps:/.@#?[]%\\0123456789xabl\u3002\uff11 \t-_', max_size=40))
def test_what_passes_is_put_together_as_it_was(rest: str) -> None:
    try:
        target = Targets(('0.0.0.0/0', '::/0')).check(f'https://{rest}')
    except TargetRefusedError:
        return
    again = f'https://{target.authority}{target.path}'
    assert Targets(('0.0.0.0/0', '::/0')).check(again) == target
    assert target.host in rest.lower()

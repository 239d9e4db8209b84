"""Where a call is from, although it comes out of a socket of Unix."""

import pytest

from a2a_scribe.transport.grpc_peers import LONGEST, Caller, host_of, name_of, peer_of


class Call:
    """gRPC's context of a call, as far as needed."""

    def __init__(self, peer: str) -> None:
        self._peer = peer

    def peer(self) -> str:
        return self._peer

    def code(self) -> int:
        return 7


@pytest.mark.parametrize(
    ('host', 'port', 'peer', 'found'),
    [
        ('127.0.0.1', 5000, 'ipv4:127.0.0.1:5000', '127.0.0.1'),
        ('::1', 5000, 'ipv6:%5B::1%5D:5000', '::1'),
        ('fe80::1%eth0', 65535, 'ipv6:%5Bfe80::1%5D:65535', 'fe80::1'),
        ('::ffff:10.0.0.9', 1, 'ipv4:10.0.0.9:1', '10.0.0.9'),
    ],
)
@pytest.mark.parametrize('seen', ['unix:/tmp/a2a-x/{}', 'unix-abstract:/tmp/a2a-x/{}'])
def test_the_name_of_a_socket_says_it(host: str, port: int, peer: str, found: str, seen: str) -> None:
    name = name_of(host, port, 'mark')
    call = Caller(Call(seen.format(name)))
    assert call.peer() == peer
    assert host_of(call.peer()) == found
    assert call.code() == 7, "all else is gRPC's own"


@pytest.mark.parametrize('peer', ['ipv4:127.0.0.1:5000', 'unix:', 'unix:/run/other', 'ipv6:%5B::1%5D:5000'])
def test_others_are_what_they_are(peer: str) -> None:
    assert peer_of(Call(peer)) == peer


def test_the_longest_name_is_that_of_a_long_address() -> None:
    assert name_of('ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff', 65535, 'f' * 16) == LONGEST


@pytest.mark.parametrize('host', ['', 'example.org', '1.2.3'])
def test_what_is_no_address_has_no_name(host: str) -> None:
    with pytest.raises(ValueError, match='address'):
        name_of(host, 1, 'mark')

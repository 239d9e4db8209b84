"""Where calls of gRPC come from, although gRPC sees them come out of a socket of Unix.

The socket on our side is bound to a name that says it. Called by `grpc_gate` and by whoever asks where a call is from.
"""

import ipaddress
from typing import Any, Final
from urllib.parse import unquote

Call = Any
"""gRPC's own context of a call."""
MARK: Final = '~'
LONGEST: Final = '~ffffffffffffffffffffffffffffffff-65535-ffffffffffffffff'


def name_of(host: str, port: int, mark: str) -> str:
    """Returns the name of a file for a client: short, because the path of a socket has to be.

    With a mark that nobody can guess it is one that nobody else has.
    """
    return f'{MARK}{_normal(host).packed.hex()}-{port}-{mark}'


def peer_of(call: Call) -> str:
    """Returns where a call comes from, as gRPC writes it: `ipv4:127.0.0.1:5000`, `ipv6:%5B::1%5D:5000`."""
    seen = str(call.peer())
    family, _, path = seen.partition(':')
    name = path.rpartition('/')[2]
    if not family.startswith('unix') or not name.startswith(MARK):
        return seen
    packed, port, _ = name.removeprefix(MARK).split('-')
    host = ipaddress.ip_address(bytes.fromhex(packed))
    return f'ipv4:{host}:{port}' if host.version == 4 else f'ipv6:%5B{host}%5D:{port}'


def host_of(peer: str) -> str:
    """Returns the host of what gRPC calls a peer."""
    family, _, rest = unquote(peer).partition(':')
    return rest.rpartition(':')[0].strip('[]') if family in ('ipv4', 'ipv6') else peer


class Caller:
    """gRPC's context of a call, but for where it comes from."""

    def __init__(self, call: Call) -> None:
        """Takes gRPC's own."""
        self._call = call

    def peer(self) -> str:
        """Where the call comes from."""
        return peer_of(self._call)

    def __getattr__(self, name: str) -> Any:
        """All else is gRPC's."""
        return getattr(self._call, name)


def _normal(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Returns an address; one of version 4 is that also where a socket of version 6 has accepted it."""
    address = ipaddress.ip_address(host)
    return getattr(address, 'ipv4_mapped', None) or address

"""Where a webhook may be: a URL is judged by how it is written, an address by what it belongs to. Pure.

Read by the handler when a config is made, and by the poster at each connection. What is not known to be public is
refused, unless the operator allows it. A URL is taken apart here only, and strictly: whatever two parsers could read in
two ways is refused.
"""

import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final

from a2a_scribe.errors import SettingsError
from a2a_scribe.settings import Settings

Address = IPv4Address | IPv6Address

MAX_URL = 2048
MAX_HOST = 253
DEFAULT_PORTS: Final = {'http': 80, 'https': 443}

URL = re.compile(r'(?P<scheme>https?)://(?P<authority>[^/?]*)(?P<path>.*)', re.IGNORECASE)
LABEL = r'[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?'
NAME = re.compile(rf'{LABEL}(?:\.{LABEL})*')
NUMBER = re.compile(r'[0-9]+|0x[0-9a-f]*')
"""The last label of what URL parsers take for an address, in whatever form (WHATWG URL, section 3.5)."""

INSIDE_NAMES: Final = ('localhost', 'local', 'localdomain', 'internal', 'home.arpa')
"""Names, and ends of names, that never are of the public net (RFC 6761, 6762 and 8375; ICANN for `internal`)."""

NOT_PUBLIC_4: Final = tuple(
    (IPv4Network(network), kind)
    for network, kind in (
        ('0.0.0.0/8', 'unspecified'),
        ('10.0.0.0/8', 'private'),
        ('100.64.0.0/10', 'shared'),
        ('127.0.0.0/8', 'loopback'),
        ('168.63.129.16/32', 'metadata'),
        ('169.254.0.0/16', 'link-local'),
        ('172.16.0.0/12', 'private'),
        ('192.0.0.0/24', 'reserved'),
        ('192.0.2.0/24', 'documentation'),
        ('192.31.196.0/24', 'reserved'),
        ('192.52.193.0/24', 'reserved'),
        ('192.88.99.0/24', 'reserved'),
        ('192.168.0.0/16', 'private'),
        ('192.175.48.0/24', 'reserved'),
        ('198.18.0.0/15', 'benchmarking'),
        ('198.51.100.0/24', 'documentation'),
        ('203.0.113.0/24', 'documentation'),
        ('224.0.0.0/4', 'multicast'),
        ('240.0.0.0/4', 'reserved'),
    )
)
"""IANA's special-purpose addresses, and the one public address at which a cloud keeps its metadata."""

NOT_PUBLIC_6: Final = tuple(
    (IPv6Network(network), kind)
    for network, kind in (
        ('::/128', 'unspecified'),
        ('::1/128', 'loopback'),
        ('::ffff:0:0/96', 'IPv4-mapped'),
        ('2001:db8::/32', 'documentation'),
        ('2001::/32', 'Teredo'),
        ('2001::/23', 'reserved'),
        ('2002::/16', '6to4'),
        ('2620:4f:8000::/48', 'reserved'),
        ('3fff::/20', 'documentation'),
        ('fc00::/7', 'private'),
        ('fe80::/10', 'link-local'),
        ('fec0::/10', 'private'),
        ('ff00::/8', 'multicast'),
    )
)
PUBLIC_6: Final = IPv6Network('2000::/3')
"""The unicast addresses that are given out; all others are reserved."""
NAT64: Final = IPv6Network('64:ff9b::/96')
"""Where networks without IPv4 reach it: such an address is what the one in its last four bytes is."""
ISATAP: Final = (0x5EFE, 0x0200_5EFE)
"""What stands before the IPv4 address in an interface id of ISATAP."""


class TargetRefusedError(Exception):
    """A target is refused; the reason continues 'the URL' to a sentence and repeats nothing of it."""

    def __init__(self, reason: str) -> None:
        """Takes the reason."""
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Target:
    """A URL that was taken apart. `host` is in lower case, an IPv6 address without its brackets."""

    scheme: str
    host: str
    port: int
    path: str
    """What stands in the first line of the request: path and query."""

    @property
    def authority(self) -> str:
        """What the Host header says."""
        host = f'[{self.host}]' if ':' in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f'{host}:{self.port}'


class Targets:
    """What one operator allows."""

    def __init__(self, allow: Sequence[str] = (), *, http: bool = False) -> None:
        """Takes the settings `webhook_allow` and `webhook_http`. Raises: SettingsError."""
        self._http = http
        self._names: set[str] = set()
        self._suffixes: list[str] = []
        self._networks: list[IPv4Network | IPv6Network] = []
        for entry in allow:
            self._allow(entry.lower())

    def check(self, url: str) -> Target:
        """Takes a URL apart.

        Raises:
            TargetRefusedError: It is no URL of a webhook, or its host is refused as it stands.
        """
        target = _taken_apart(url)
        allowed = self._names_host(target.host)
        address = _address_of(target.host)
        if address is not None:
            self.screen([target.host])
            allowed = allowed or self._is_allowed(address)
        elif not allowed and _is_inside(target.host):
            raise TargetRefusedError('has a host that is not public')
        if target.scheme != 'https' and not (allowed or self._http):
            raise TargetRefusedError('must begin with https://')
        return target

    def screen(self, addresses: Iterable[str], host: str = '') -> None:
        """Judges addresses, those of a host if one is given: all are to be public, unless they or it are allowed.

        Raises:
            TargetRefusedError: One of them is not.
        """
        if self._names_host(host):
            return
        for text in addresses:
            address = _address_of(text)
            if address is None:
                raise TargetRefusedError('is at an address that is not public (with a zone)')
            kind = kind_of(address)
            if kind is not None and not self._is_allowed(address):
                raise TargetRefusedError(f'is at an address that is not public ({kind})')

    def _allow(self, entry: str) -> None:
        try:
            self._networks.append(ipaddress.ip_network(entry.strip('[]')))
        except ValueError:
            name = entry.removeprefix('*.')
            if not _is_name(name):
                raise SettingsError(
                    f'webhook_allow has {entry!r}, which is no host name, *.suffix, address or network'
                ) from None
            if name == entry:
                self._names.add(name)
            else:
                self._suffixes.append(f'.{name}')

    def _names_host(self, host: str) -> bool:
        return host in self._names or host.endswith(tuple(self._suffixes))

    def _is_allowed(self, address: Address) -> bool:
        meant = {address, _embedded(address)}
        return any(each in network for network in self._networks for each in meant if each is not None)


def is_address(host: str) -> bool:
    """Whether a host is an address, not a name."""
    return _address_of(host) is not None


def targets_of(settings: Settings) -> Targets:
    """Returns what the settings allow. Raises: SettingsError."""
    return Targets(settings.webhook_allow, http=settings.webhook_http)


def kind_of(address: Address) -> str | None:
    """Returns what an address is that is not public, `None` for one that is."""
    if isinstance(address, IPv4Address):
        return next((kind for network, kind in NOT_PUBLIC_4 if address in network), None)
    if address in NAT64:
        return kind_of(IPv4Address(int(address) & 0xFFFF_FFFF))
    if found := next((kind for network, kind in NOT_PUBLIC_6 if address in network), None):
        return found
    if address not in PUBLIC_6:
        return 'reserved'
    return 'ISATAP' if (int(address) >> 32) & 0xFFFF_FFFF in ISATAP else None


def _embedded(address: Address) -> IPv4Address | None:
    """Returns the IPv4 address that an IPv6 address leads to, if it is one of those that an operator may mean by it."""
    if isinstance(address, IPv6Address):
        return IPv4Address(int(address) & 0xFFFF_FFFF) if address in NAT64 else address.ipv4_mapped
    return None


def _taken_apart(url: str) -> Target:
    if len(url) > MAX_URL:
        raise TargetRefusedError(f'must not have more than {MAX_URL} characters')
    if not all('\x21' <= character <= '\x7e' for character in url):
        raise TargetRefusedError('must be in ASCII without spaces: its host in punycode, the rest percent-encoded')
    if '#' in url or '\\' in url:
        raise TargetRefusedError('must not have a fragment or a backslash')
    found = URL.fullmatch(url)
    if found is None:
        raise TargetRefusedError('is not an http or https URL')
    scheme, authority, path = found['scheme'].lower(), found['authority'].lower(), found['path']
    if '@' in authority:
        raise TargetRefusedError('must not have a user or a password')
    host, port = _host_and_port(authority)
    return Target(scheme, host, port or DEFAULT_PORTS[scheme], path if path.startswith('/') else f'/{path}')


def _host_and_port(authority: str) -> tuple[str, int | None]:
    """Splits what is between the slashes; the port is `None` where none is given."""
    if authority.startswith('['):
        host, closing, rest = authority[1:].partition(']')
        colon, port = rest[:1], rest[1:]
        is_good = closing == ']' and colon in ('', ':') and isinstance(_address_of(host), IPv6Address)
    else:
        host, colon, port = authority.partition(':')
        is_good = _is_name(host) or isinstance(_address_of(host), IPv4Address)
    if not is_good:
        raise TargetRefusedError('has no host, or one that is not written in the usual way')
    if not colon:
        return host, None
    if not re.fullmatch('[0-9]{1,5}', port) or not 1 <= int(port) <= 65535:
        raise TargetRefusedError('must have a port from 1 to 65535, or none')
    return host, int(port)


def _address_of(host: str) -> Address | None:
    """Returns the address that a host is, in the one usual form of it; `None` for a name, or an address with a zone."""
    try:
        return None if '%' in host else ipaddress.ip_address(host)
    except ValueError:
        return None


def _is_name(host: str) -> bool:
    last = host.rpartition('.')[2]
    return len(host) <= MAX_HOST and NAME.fullmatch(host) is not None and NUMBER.fullmatch(last) is None


def _is_inside(name: str) -> bool:
    return '.' not in name or any(name == inside or name.endswith(f'.{inside}') for inside in INSIDE_NAMES)

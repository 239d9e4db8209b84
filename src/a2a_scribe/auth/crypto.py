"""What bearer tokens need of cryptography: an extra of the package, imported only when tokens are asked for."""

import importlib.util
from functools import cache
from types import ModuleType
from typing import NamedTuple

from a2a_scribe.errors import SettingsError


class Crypto(NamedTuple):
    """The modules."""

    jws: ModuleType
    algorithms: ModuleType
    asymmetric: ModuleType
    serialization: ModuleType
    x509: ModuleType


@cache
def load_crypto() -> Crypto:
    """Imports them. Raises: SettingsError."""
    if any(importlib.util.find_spec(module) is None for module in ('jwt', 'cryptography')):
        raise SettingsError("bearer tokens need packages that are not installed: pip install 'a2a-scribe[crypto]'")
    from cryptography import x509
    from cryptography.hazmat.primitives import asymmetric, serialization
    from jwt import algorithms, api_jws

    return Crypto(api_jws, algorithms, asymmetric, serialization, x509)

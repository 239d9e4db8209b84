"""A durable server runtime for the A2A protocol: one writer per task, many cursors.

The familiar names of `a2a-sdk` are here with the same interfaces, so an agent moves over by changing an import.
"""

from a2a_scribe.app import create_app
from a2a_scribe.auth.api_keys import ApiKeys
from a2a_scribe.auth.bearer import BearerTokens
from a2a_scribe.auth.combining import AnyOf
from a2a_scribe.auth.principals import IncomingCall, MissingCredentialsError, Principal
from a2a_scribe.engine.contexts import Rerun, rerun_of
from a2a_scribe.engine.deadlines import Deadlines
from a2a_scribe.engine.orders import CrashedTurn
from a2a_scribe.errors import (
    JournalRefusedError,
    JournalUnavailableError,
    ScribeError,
    SettingsError,
    TaskConflictError,
)
from a2a_scribe.handler.handler import DefaultRequestHandler
from a2a_scribe.journal.stores import DatabaseTaskStore, InMemoryTaskStore
from a2a_scribe.protocol.faults import PermissionDeniedError, UnauthenticatedError
from a2a_scribe.server import serve, serve_grpc
from a2a_scribe.settings import Settings
from a2a_scribe.transport.card_signing import load_card_signer
from a2a_scribe.transport.health import create_health_routes
from a2a_scribe.transport.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a_scribe.version import __version__

__all__ = [
    'AnyOf',
    'ApiKeys',
    'BearerTokens',
    'CrashedTurn',
    'DatabaseTaskStore',
    'Deadlines',
    'DefaultRequestHandler',
    'InMemoryTaskStore',
    'IncomingCall',
    'JournalRefusedError',
    'JournalUnavailableError',
    'MissingCredentialsError',
    'PermissionDeniedError',
    'Principal',
    'Rerun',
    'ScribeError',
    'Settings',
    'SettingsError',
    'TaskConflictError',
    'UnauthenticatedError',
    '__version__',
    'create_agent_card_routes',
    'create_app',
    'create_health_routes',
    'create_jsonrpc_routes',
    'create_rest_routes',
    'load_card_signer',
    'rerun_of',
    'serve',
    'serve_grpc',
]

"""What the package offers by name."""

import ast
from types import ModuleType

import a2a_scribe
from tests.architecture.source import PACKAGE
from tests.architecture.test_layers import SOURCE

NAMES = [
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


def test_these_are_the_names() -> None:
    assert sorted(a2a_scribe.__all__) == NAMES


def test_nothing_else_is_there() -> None:
    public = {
        name
        for name, value in vars(a2a_scribe).items()
        if not isinstance(value, ModuleType) and (not name.startswith('_') or name in NAMES)
    }
    assert public == set(a2a_scribe.__all__)


def test_the_front_door_only_passes_on() -> None:
    (root,) = (module for module in SOURCE if module.name == PACKAGE)
    assert ast.get_docstring(root.tree)
    assert {type(node) for node in root.tree.body[1:]} <= {ast.ImportFrom, ast.Assign, ast.AnnAssign}

"""What the arguments of `a2a-scribe serve` name: an executor in the user's code, its card, and a database's folder.

Called by the command. Every way in which a user can name the wrong thing ends as a `SettingsError` of one line that
says which thing it was, whatever the user's own code raised.
"""

import importlib
import inspect
import traceback
from pathlib import Path

from a2a.server.agent_execution import AgentExecutor
from a2a.types.a2a_pb2 import AgentCapabilities, AgentCard, AgentSkill
from google.protobuf import json_format
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from a2a_scribe.errors import SettingsError


def load_executor(target: str) -> AgentExecutor:
    """The executor that `MODULE:NAME` names: an instance, or what a class or a factory without arguments makes.

    Raises:
        SettingsError: There is no such thing, or it is no executor.
    """
    module_name, _, path = target.partition(':')
    if not module_name or not path:
        raise SettingsError(f'{target!r} does not name an executor: write MODULE:EXECUTOR')
    found = _import(module_name)
    for name in path.split('.'):
        try:
            found = getattr(found, name)
        except AttributeError:
            raise SettingsError(f'module {module_name!r} has no {path!r}') from None
    return _as_executor(found, target)


def _import(module_name: str) -> object:
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name + '.').startswith(error.name + '.'):
            raise SettingsError(f'there is no module {module_name!r}') from None
        raise SettingsError(f'module {module_name!r} cannot be imported: {_in_one_line(error)}') from error
    except (Exception, SystemExit) as error:
        raise SettingsError(f'module {module_name!r} cannot be imported: {_in_one_line(error)}') from error


def _as_executor(found: object, target: str) -> AgentExecutor:
    makes_executors = inspect.isclass(found) or not _executes(found)
    if makes_executors and callable(found):
        try:
            inspect.signature(found).bind()
        except (TypeError, ValueError):
            raise SettingsError(f'{target!r} needs arguments: name an instance, or a function without any') from None
        try:
            found = found()
        except Exception as error:
            raise SettingsError(f'{target!r} cannot be called: {_in_one_line(error)}') from error
    if not _executes(found):
        raise SettingsError(f'{target!r} is no executor: {type(found).__name__} has no execute and cancel')
    return found  # type: ignore[return-value]


def _executes(found: object) -> bool:
    return all(callable(getattr(found, name, None)) for name in ('execute', 'cancel'))


def _in_one_line(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    place = f' ({Path(frames[-1].filename).name}, line {frames[-1].lineno})' if frames else ''
    lines = str(error).split('\n', 1)
    return f'{type(error).__name__}: {lines[0]}{place}'


def load_card(path: Path) -> AgentCard:
    """The agent card in a JSON file.

    Raises:
        SettingsError: The file cannot be read, or holds no card.
    """
    try:
        card = json_format.Parse(path.read_text(encoding='utf-8'), AgentCard())
    except OSError as error:
        raise SettingsError(f'the card {str(path)!r} cannot be read: {error.strerror}') from error
    except (json_format.ParseError, UnicodeDecodeError) as error:
        raise SettingsError(f'{str(path)!r} is no agent card: {str(error).splitlines()[0]}') from error
    if not card.name:
        raise SettingsError(f'the card {str(path)!r} has no name')
    return card


def make_card(executor: AgentExecutor) -> AgentCard:
    """A card for an executor without one, from what its class says about itself."""
    name = type(executor).__name__
    described = inspect.cleandoc(type(executor).__doc__ or '').partition('\n')[0]
    description = described or f'The agent {name}.'
    return AgentCard(
        name=name,
        description=description,
        version='1.0.0',
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=['text/plain'],
        default_output_modes=['text/plain'],
        skills=[AgentSkill(id=name.lower(), name=name, description=description, tags=['agent'])],
    )


def check_folder(database: str) -> None:
    """Looks for the folder of an SQLite file, which SQLite only calls a file that cannot be opened.

    Raises:
        SettingsError: There is no such folder.
    """
    try:
        url = make_url(database)
    except ArgumentError:
        return
    if url.get_backend_name() != 'sqlite' or not url.database or url.database.startswith((':', 'file:')):
        return
    if not (folder := Path(url.database).parent).is_dir():
        raise SettingsError(f'there is no folder {str(folder)!r} for the database')

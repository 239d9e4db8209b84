"""The names and signatures: whatever the installed a2a-sdk takes and shows, ours takes and shows."""

import inspect
from inspect import Parameter
from typing import Any

import pytest
from a2a.server.request_handlers import DefaultRequestHandlerV2, RequestHandler
from a2a.server.tasks import DatabaseTaskStore, InMemoryTaskStore, TaskStore
from a2a.types.a2a_pb2 import SubscribeToTaskRequest
from sqlalchemy.ext.asyncio import create_async_engine

from tests.dropin.kit import Echo, call, handlers, new_card, request, stores

PAIRS: list[tuple[Any, Any]] = [
    (DefaultRequestHandlerV2, handlers.DefaultRequestHandler),
    (DatabaseTaskStore, stores.DatabaseTaskStore),
    (InMemoryTaskStore, stores.InMemoryTaskStore),
]
EVERY_PAIR = pytest.mark.parametrize(('theirs', 'ours'), PAIRS, ids=[theirs.__name__ for theirs, _ in PAIRS])


def parameters(function: Any) -> dict[str, Parameter]:
    return dict(inspect.signature(function).parameters)


def public(names: Any) -> set[str]:
    return {name for name in names if not name.startswith('_')}


@EVERY_PAIR
def test_every_argument_is_taken_in_the_same_place(theirs: Any, ours: Any) -> None:
    wanted, offered = parameters(theirs.__init__), parameters(ours.__init__)
    missing = [name for name in wanted if name not in offered]
    assert missing == []
    by_position = [name for name, item in offered.items() if item.kind is not Parameter.KEYWORD_ONLY]
    assert by_position[: len(wanted)] == list(wanted)


@EVERY_PAIR
def test_whatever_is_optional_there_is_optional_here(theirs: Any, ours: Any) -> None:
    offered = parameters(ours.__init__)
    wanted = [name for name, item in parameters(theirs.__init__).items() if item.default is not Parameter.empty]
    assert [name for name in wanted if offered[name].default is Parameter.empty] == []
    extra = [item for name, item in offered.items() if name not in parameters(theirs.__init__)]
    assert [item.name for item in extra if item.default is Parameter.empty] == []


@EVERY_PAIR
def test_every_public_method_is_there_with_its_arguments(theirs: Any, ours: Any) -> None:
    methods = {name for name in public(dir(theirs)) if inspect.isfunction(getattr(theirs, name))}
    for name in methods:
        wanted, offered = parameters(getattr(theirs, name)), parameters(getattr(ours, name))
        assert list(offered)[: len(wanted)] == list(wanted), name


@pytest.mark.parametrize('interface', [RequestHandler, TaskStore])
def test_nothing_is_left_abstract(interface: type) -> None:
    classes = [ours for _, ours in PAIRS if issubclass(ours, interface)]
    assert classes
    assert [ours for ours in classes if inspect.isabstract(ours)] == []


def test_what_is_a_coroutine_there_is_one_here() -> None:
    for name in public(vars(RequestHandler)):
        theirs, ours = getattr(RequestHandler, name), getattr(handlers.DefaultRequestHandler, name)
        assert inspect.iscoroutinefunction(theirs) == inspect.iscoroutinefunction(ours), name


def test_what_streams_there_gives_a_generator_here() -> None:
    handler = handlers.DefaultRequestHandler(Echo(), stores.InMemoryTaskStore(), new_card())
    assert inspect.isasyncgen(handler.on_message_send_stream(request('hi'), call()))
    assert inspect.isasyncgen(handler.on_subscribe_to_task(SubscribeToTaskRequest(id='unknown'), call()))


def test_a_handler_shows_its_parts() -> None:
    async def modifier(card: Any, context: Any) -> Any:
        return card

    arguments = (Echo(), stores.InMemoryTaskStore(), new_card())
    options: dict[str, Any] = {'extended_agent_card': new_card(), 'extended_card_modifier': modifier}
    theirs = DefaultRequestHandlerV2(*arguments, **options)
    ours = handlers.DefaultRequestHandler(*arguments, **options)
    shown = public(vars(theirs))
    assert {'agent_executor', 'task_store', 'extended_agent_card'} <= shown
    for name in shown:
        assert getattr(ours, name) is getattr(theirs, name), name


def test_all_arguments_together_make_a_handler() -> None:
    options = dict.fromkeys(parameters(DefaultRequestHandlerV2.__init__))
    required = {'agent_executor': Echo(), 'task_store': stores.InMemoryTaskStore(), 'agent_card': new_card()}
    del options['self']
    handler = handlers.DefaultRequestHandler(**{**options, 'validate_input_modes': False, **required})
    assert isinstance(handler, RequestHandler)


def test_a_database_store_is_made_of_an_engine_alone() -> None:
    engine = create_async_engine('sqlite+aiosqlite://')
    store: Any = stores.DatabaseTaskStore(engine)
    assert issubclass(type(store), TaskStore)
    assert store.engine is engine

"""Push configs: checked, stored with the task, read back (A2A 1.0, sections 3.1.7 to 3.1.10 and 4.3).

They lie in the journal, where their secrets are sealed if there are keys, or in a user's own
`PushNotificationConfigStore`.
"""

from a2a.server.context import ServerCallContext
from a2a.server.tasks import PushNotificationConfigStore
from a2a.types.a2a_pb2 import (
    AgentCard,
    DeleteTaskPushNotificationConfigRequest,
    GetTaskPushNotificationConfigRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse,
)
from a2a.utils.errors import TaskNotFoundError

from a2a_scribe.engine.engine import Engine
from a2a_scribe.handler import guards
from a2a_scribe.handler.callers import Callers, HasTenant
from a2a_scribe.ids import IdSource
from a2a_scribe.journal.tasks import Caller
from a2a_scribe.protocol.faults import InvalidFieldError
from a2a_scribe.protocol.paging import MAX_PAGE_SIZE, PagePosition, decode_token, encode_token
from a2a_scribe.protocol.types import SendMessageRequest, TaskPushNotificationConfig
from a2a_scribe.push.sealing import box_of, open_config, seal_config, without_secrets
from a2a_scribe.push.targets import targets_of
from a2a_scribe.settings import Settings

Configs = tuple[TaskPushNotificationConfig, ...]
INLINE = 'configuration.taskPushNotificationConfig.'
"""Where a message's own config stands."""
AllConfigs = list[TaskPushNotificationConfig]


class PushConfigs:
    """The push-config operations of one handler."""

    def __init__(
        self,
        engine: Engine,
        callers: Callers,
        card: AgentCard,
        store: PushNotificationConfigStore | None,
        validator: guards.UrlValidator | None,
        settings: Settings,
        ids: IdSource,
    ) -> None:
        """Takes a user's store, if there is one. Raises: SettingsError."""
        self._engine = engine
        self._callers = callers
        self._card = card
        self._store = store
        self._validator = validator
        self._targets = targets_of(settings)
        self._box = box_of(settings)
        self._redacts = settings.webhook_redact
        self._ids = ids

    async def create(
        self, params: TaskPushNotificationConfig, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        """Stores a config for a task (section 3.1.7); one without an id is given one."""
        guards.check_push(self._card)
        guards.check_required(params)
        await guards.check_config('', params, self._targets, self._validator)
        caller = await self._see_task(params, params.task_id, context)
        return await self.put(params, params.task_id, caller, context)

    async def get(
        self, params: GetTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        """Returns one config (section 3.1.8)."""
        guards.check_push(self._card)
        guards.check_required(params)
        await self._see_task(params, params.task_id, context)
        for config in await self._all(params.task_id, context):
            if config.id == params.id:
                return self._shown(config)
        raise TaskNotFoundError

    async def list(
        self, params: ListTaskPushNotificationConfigsRequest, context: ServerCallContext
    ) -> ListTaskPushNotificationConfigsResponse:
        """Returns a page of a task's configs, in the order of their ids (section 3.1.9)."""
        guards.check_push(self._card)
        guards.check_required(params)
        if params.page_size:
            guards.check_page_size(params.page_size)
        position = decode_token(params.page_token)
        await self._see_task(params, params.task_id, context)
        configs = sorted(await self._all(params.task_id, context), key=lambda config: config.id)
        rest = [config for config in configs if position is None or config.id > position.task_id]
        page = rest[: params.page_size or MAX_PAGE_SIZE]
        token = encode_token(PagePosition(0, page[-1].id)) if len(page) < len(rest) else ''
        return ListTaskPushNotificationConfigsResponse(configs=map(self._shown, page), next_page_token=token)

    async def delete(self, params: DeleteTaskPushNotificationConfigRequest, context: ServerCallContext) -> None:
        """Removes a config; harmless when there is none (section 3.1.10)."""
        guards.check_push(self._card)
        guards.check_required(params)
        await self._see_task(params, params.task_id, context)
        if self._store is not None:
            await self._store.delete_info(params.task_id, context, params.id)
        else:
            await self._engine.drop_config(params.task_id, params.id)

    async def check_inline(self, params: SendMessageRequest) -> TaskPushNotificationConfig | None:
        """Returns the config that a message brings, checked."""
        if not params.configuration.HasField('task_push_notification_config'):
            return None
        config = params.configuration.task_push_notification_config
        guards.check_push(self._card)
        if config.task_id and config.task_id != params.message.task_id:
            raise InvalidFieldError(f'{INLINE}taskId', 'is not that of the message')
        await guards.check_config(INLINE, config, self._targets, self._validator)
        return config

    def for_journal(self, inline: TaskPushNotificationConfig | None, task_id: str) -> Configs:
        """Returns what the journal has to store together with a new task."""
        if inline is None or self._store is not None:
            return ()
        return (seal_config(self._complete(inline, task_id), self._box),)

    async def store_elsewhere(
        self, inline: TaskPushNotificationConfig | None, task_id: str, context: ServerCallContext
    ) -> TaskPushNotificationConfig | None:
        """Stores a new task's config in the user's own store, if there is one; returns what it has stored."""
        if inline is None or self._store is None:
            return None
        complete = self._complete(inline, task_id)
        await self._store.set_info(task_id, complete, context)
        return complete

    async def drop_elsewhere(self, stored: TaskPushNotificationConfig | None, context: ServerCallContext) -> None:
        """Removes what `store_elsewhere` has stored: its task was not made."""
        if stored is not None and self._store is not None:
            await self._store.delete_info(stored.task_id, context, stored.id)

    async def put(
        self,
        config: TaskPushNotificationConfig,
        task_id: str,
        caller: Caller,
        context: ServerCallContext,
        position: int | None = None,
    ) -> TaskPushNotificationConfig:
        """Stores a config and returns it with its id; it is sent what comes after record `position`, or now."""
        complete = self._complete(config, task_id)
        if self._store is not None:
            return await self._store.set_info(task_id, complete, context) or complete
        await self._engine.put_config(caller, seal_config(complete, self._box), position)
        return complete

    def _complete(self, config: TaskPushNotificationConfig, task_id: str) -> TaskPushNotificationConfig:
        complete = TaskPushNotificationConfig()
        complete.CopyFrom(config)
        complete.task_id = task_id
        complete.id = complete.id or self._ids.new()
        return complete

    def _shown(self, config: TaskPushNotificationConfig) -> TaskPushNotificationConfig:
        """Returns a stored config as clients see it. Raises: SettingsError: It was sealed with a key that is gone."""
        return without_secrets(config) if self._redacts else open_config(config, self._box)

    async def _all(self, task_id: str, context: ServerCallContext) -> AllConfigs:
        if self._store is not None:
            return await self._store.get_info(task_id, context) or []
        return await self._engine.configs(task_id)

    async def _see_task(self, params: HasTenant, task_id: str, context: ServerCallContext) -> Caller:
        """Refuses a caller that does not see the task."""
        caller = self._callers.of(params, context)
        await self._engine.find(task_id, caller)
        return caller

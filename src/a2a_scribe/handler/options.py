"""Arguments that `a2a-sdk`'s handler takes and that mean something else, or nothing, here."""

import dataclasses
import warnings

from a2a_scribe.settings import Settings, UnfinishedPolicy


def warn_of_unused(
    queue_manager: object | None, event_stream: object | None, interrupted_task_timeout: float | None
) -> None:
    """Says why arguments are not needed; refuses one that cannot be meant.

    Raises:
        ValueError: `interrupted_task_timeout` is not greater than 0.
    """
    if interrupted_task_timeout is not None and interrupted_task_timeout <= 0:
        raise ValueError('interrupted_task_timeout must be greater than 0')
    if queue_manager is not None:
        text = 'queue_manager is not used: readers follow the journal, and there are no queues to manage'
        warnings.warn(text, UserWarning, stacklevel=3)
    if event_stream is not None:
        text = 'event_stream is not used: other replicas follow the journal, which is in the database'
        warnings.warn(text, UserWarning, stacklevel=3)


def engine_settings(settings: Settings | None, unfinished: UnfinishedPolicy | None) -> Settings:
    """Returns the settings of an engine. Raises: SettingsError."""
    settings = settings or Settings()
    return settings if unfinished is None else dataclasses.replace(settings, unfinished=unfinished)

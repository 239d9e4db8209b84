"""Every number and choice that an operator can change, with its default; the one reader of the environment.

Seconds are floats, sizes are bytes. A limit that may be off is `None` then, `none` in the environment. Lists are
separated by commas or spaces there. A value that cannot work raises `SettingsError` and names the setting.
"""

import dataclasses
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Any, Literal, Self, get_args, get_origin

from a2a_scribe.errors import SettingsError

PREFIX = 'A2A_SCRIBE_'

UnfinishedPolicy = Literal['fail', 'keep']
CrashPolicy = Literal['fail', 'rerun']
FailureAnswer = Literal['raise', 'task']
WebhookEvents = Literal['all', 'status']


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How an engine behaves; immutable, checked when it is made."""

    unfinished: UnfinishedPolicy = 'fail'
    """What becomes of a task whose `execute` returns while it is neither terminal nor interrupted."""
    after_crash: CrashPolicy = 'fail'
    """What becomes of a turn whose server died: its task fails, or its message is executed again."""
    crash_attempts: int = 3
    """How often one message is executed, if `after_crash` has it executed again, before its task fails."""
    expose_errors: bool = False
    """Whether clients see the text of an executor's exception."""
    create_task_after: float = 0.5
    """Seconds of silence of the executor after which the task is created for callers who wait for its id."""
    cancel_deadline: float = 10.0
    """Seconds that `executor.cancel` may take."""
    cancel_grace: float = 5.0
    """Seconds that a cancelled `execute` may take to stop before it is left behind."""
    drain_deadline: float = 10.0
    """Seconds that closing waits for running turns."""
    leave_notice: float | None = None
    """Seconds for which `serve` works on, but says that it is not ready, before it closes; `None` for no time."""
    turn_timeout: float | None = None
    """Seconds that a turn may take, from the call of `execute` to its end; `None` for as long as it likes."""
    inactivity_timeout: float | None = None
    """Seconds for which a running turn may emit nothing; `None` for as long as it likes."""

    pending_records: int = 2_000
    """Records of one task that may wait for a commit before `enqueue_event` waits."""
    pending_bytes: int = 2_000_000
    """Bytes of one task that may wait for a commit before `enqueue_event` waits."""
    pending_age: float = 0.01
    """Seconds that a record may wait for a commit before `enqueue_event` waits."""
    history_bytes: int = 1_000_000
    """Bytes of history that one live task keeps in memory; a longer history is read from the journal when needed."""
    tail_records: int = 1_000
    """Recent durable records of one live task that are kept in memory for its readers."""
    tail_bytes: int = 256_000
    """Bytes of recent durable records of one live task that are kept in memory for its readers."""

    max_running_turns: int = 10_000
    """Turns that run at once; more of them wait."""
    max_running_turns_per_owner: int | None = None
    """Turns of one owner that run at once; `None` for as many as there is room for."""
    max_waiting_turns: int = 1_000
    """Turns that wait for room before messages are refused; one owner may hold as many as it leaves free."""

    event_bytes: int = 50_000_000
    """Bytes that one message of a client may have, and one event beside the message that it answers."""
    task_records: int = 1_000_000
    """Records that one task may have."""
    task_bytes: int = 1_000_000_000
    """Bytes of records that one task may have."""
    task_artifacts: int = 10_000
    """Artifacts that one task may have."""
    queued_messages: int = 100
    """Messages that may wait for one task's running turn to end."""

    journal_patience: float = 30.0
    """Seconds that a transaction is retried while the journal is away."""
    heartbeat: float = 2.0
    """Seconds between two signs of life of a node that owns tasks."""
    lease: float = 6.0
    """Seconds without a sign of life after which a node is dead; at least two heartbeats."""
    poll_interval: float = 1.0
    """Seconds after which a reader looks into the journal without having been woken."""

    retain_completed: float | None = None
    """Seconds for which completed tasks are kept after their end; `None` for ever."""
    retain_failed: float | None = None
    """Seconds for which failed tasks are kept after their end; `None` for ever."""
    retain_canceled: float | None = None
    """Seconds for which canceled tasks are kept after their end; `None` for ever."""
    retain_rejected: float | None = None
    """Seconds for which rejected tasks are kept after their end; `None` for ever."""
    retention_interval: float = 60.0
    """Seconds between two looks for tasks and keys that have been kept for long enough."""

    idempotency_retention: float = 86_400.0
    """Seconds for which the key of a message is kept: a message that is sent again later is executed again."""
    message_id_is_key: bool = False
    """Whether the message id is the key of a message that is sent without one."""

    webhook_workers: int = 64
    """Webhooks that are called at once; those that are slow or fail have half of it at most."""
    webhook_first_pause: float = 1.0
    """Seconds that a webhook is left alone for at most after its first failure; each further failure doubles it."""
    webhook_longest_pause: float = 3_600.0
    """Seconds that a webhook is left alone for at most after many failures, or because it asked for it."""
    webhook_give_up_after: float = 86_400.0
    """Seconds after the first failure of an event after which its webhook is suspended."""
    webhook_give_up_after_end: float = 259_200.0
    """The same where the task has ended, if that is longer."""
    webhook_events: WebhookEvents = 'all'
    """Which events webhooks are sent: `all`, or only changes of the `status`."""
    webhook_hmac_secrets: tuple[str, ...] = dataclasses.field(default=(), repr=False)
    """Secrets that sign webhooks as Standard Webhooks do, `whsec_...`; each of them signs."""
    webhook_signing_keys_file: str | None = None
    """Path of the file with the private keys that sign webhooks with a token; `None` for no tokens."""
    webhook_issuer: str = 'a2a-scribe'
    """Who signed, as the tokens of webhooks say it (`iss`)."""

    request_bytes: int = 60_000_000
    """Bytes that the body of one request may have."""
    request_values: int = 200_000
    """JSON values that the body of one request may have, names of members among them."""
    body_timeout: float = 30.0
    """Seconds that the body of one request may take to arrive; one more for each 10,000 bytes that have."""
    header_timeout: float = 10.0
    """Seconds that a connection may take to ask for something; where `serve` listens, and to begin over gRPC."""
    max_connections: int = 10_000
    """Connections to one process, where `serve` and `serve_grpc` listen; over gRPC, calls at once too."""
    message_parts: int = 1_000
    """Parts that one message of a client may have."""
    metadata_bytes: int = 1_000_000
    """Bytes that the metadata of one request may have, those of its message and parts among them."""
    history_messages: int | None = None
    """Messages of a task's history that answers show, the newest; `None` for all that are asked for."""
    page_size: int = 100
    """Tasks that one page of a list may have; more than 100 are never given."""
    requests_per_second: float | None = None
    """Requests that one owner may send each second, over a longer time; `None` for as many as it likes."""
    request_burst: int = 100
    """Requests that one owner may send at once, if `requests_per_second` is on."""
    max_streams: int = 10_000
    """Streams that are open at once."""
    max_streams_per_owner: int | None = None
    """Streams of one owner that are open at once; `None` for as many as there is room for."""
    audit_log: bool = False
    """Whether the logger `a2a_scribe.audit` tells who did what to which task, and what was refused."""
    stream_keep_alive: float = 15.0
    """Seconds of silence after which a stream sends a comment; looked at once per `poll_interval`."""
    stream_retry: float = 1.0
    """Seconds after which clients of event streams are told to connect again when the connection broke."""
    card_max_age: float = 300.0
    """Seconds for which clients may keep the agent card without asking whether it has changed."""

    webhook_allow: tuple[str, ...] = ()
    """Where webhooks may be although it is not public, or has no TLS: host names, `*.suffix`, addresses, networks."""
    webhook_http: bool = False
    """Whether webhooks may do without TLS at any host."""
    webhook_timeout: float = 15.0
    """Seconds that one call of a webhook may take."""
    webhook_ca_file: str | None = None
    """A PEM file of certificates that receivers' certificates may be signed with, besides the usual ones."""
    webhook_proxy: str | None = dataclasses.field(default=None, repr=False)
    """URL of the HTTP proxy through which webhooks are called; names are then resolved there, and not screened."""
    webhook_keys: tuple[str, ...] = dataclasses.field(default=(), repr=False)
    """Keys that the secrets of push configs are encrypted with in the database, the newest first."""
    webhook_keys_file: str | None = None
    """A file of such keys, one a line, in place of `webhook_keys`; read when the server starts."""
    webhook_redact: bool = False
    """Whether push configs are read and listed without their secrets."""

    def __post_init__(self) -> None:
        """Refuses what cannot work.

        Raises:
            SettingsError: A number is not positive, or a choice is unknown.
        """
        for field in dataclasses.fields(self):
            _check(field, getattr(self, field.name))
        if self.unfinished not in ('fail', 'keep'):
            raise SettingsError(f"unfinished must be 'fail' or 'keep', not {self.unfinished!r}")
        if self.after_crash not in ('fail', 'rerun'):
            raise SettingsError(f"after_crash must be 'fail' or 'rerun', not {self.after_crash!r}")
        if self.webhook_events not in ('all', 'status'):
            raise SettingsError(f"webhook_events must be 'all' or 'status', not {self.webhook_events!r}")
        if self.lease < 2 * self.heartbeat:
            raise SettingsError(f'lease must be at least two heartbeats ({2 * self.heartbeat:g}), not {self.lease!r}')

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Self:
        """Reads `A2A_SCRIBE_<SETTING>` for each setting that is given.

        Raises:
            SettingsError: A value has the wrong form; the message names the variable.
        """
        source = os.environ if environment is None else environment
        known = {PREFIX + field.name.upper() for field in dataclasses.fields(cls)}
        unknown = sorted(name for name in source if name.startswith(PREFIX) and name not in known)
        if unknown:
            raise SettingsError(f'{unknown[0]} is not a setting')
        given: dict[str, object] = {}
        for field in dataclasses.fields(cls):
            variable = PREFIX + field.name.upper()
            if variable in source:
                given[field.name] = _parse(variable, source[variable], field)
        return cls(**given)  # type: ignore[arg-type]


def _check(field: 'dataclasses.Field[Any]', value: object) -> None:
    """Refuses a value that is not of a setting's type, or no limit. Raises: SettingsError."""
    kind = _kind_of(field)
    if value is None and _may_be_off(field):
        return
    if kind is tuple:
        if not (isinstance(value, tuple) and all(isinstance(each, str) for each in value)):
            raise SettingsError(f'{field.name} must be a tuple of texts, not {type(value).__name__}')
    elif kind is bool:
        if not isinstance(value, bool):
            raise SettingsError(f'{field.name} must be True or False, not {value!r}')
    elif kind in (int, float) and not is_positive(value):
        raise SettingsError(f'{field.name} must be a number greater than 0, not {value!r}')


def is_positive(value: object) -> bool:
    """Whether a value is a number that can be a limit."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf


def _kind_of(field: 'dataclasses.Field[Any]') -> object:
    """Returns the type of a setting, `None` aside; choices are no type."""
    if get_origin(field.type) is tuple:
        return tuple
    kinds = [kind for kind in get_args(field.type) if kind is not NoneType]
    return kinds[0] if kinds else field.type


def _may_be_off(field: 'dataclasses.Field[Any]') -> bool:
    return NoneType in get_args(field.type)


def _parse(variable: str, text: str, field: 'dataclasses.Field[Any]') -> object:
    kind = _kind_of(field)
    if _may_be_off(field) and text.lower() == 'none':
        return None
    if kind is tuple:
        return tuple(text.replace(',', ' ').split())
    if kind is bool:
        if text.lower() not in ('true', 'false'):
            raise SettingsError(f'{variable} must be true or false, not {text!r}')
        return text.lower() == 'true'
    if kind is int or kind is float:
        try:
            return kind(text)
        except ValueError:
            raise SettingsError(f'{variable} must be a number, not {text!r}') from None
    return text

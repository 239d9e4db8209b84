"""Delivers the webhooks of one engine: a service that never stands in a writer's way.

Its loop is the only one that talks to the journal about configs, one write at a time: what came of the attempts of many
pumps, and which configs it takes. Attempts are made beside it, one at a time for each config, and look into the journal
by themselves for what is next. Wake-ups are hints: what is missed is found when the loop looks for what is due.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from a2a_scribe.errors import EnvironmentFault, JournalUnavailableError
from a2a_scribe.journal.deliveries import Delivery, DeliveryKey, DeliveryOutcome, Kept
from a2a_scribe.journal.writes import DropConfig, Group, Judged, PutConfig
from a2a_scribe.push.courier import Courier, Step
from a2a_scribe.push.desk import Desk, Wait
from a2a_scribe.push.lanes import Lanes, Place
from a2a_scribe.push.metrics import DeliveryCounters
from a2a_scribe.push.pump import Phase, Pump
from a2a_scribe.push.schedule import MICROS
from a2a_scribe.push.webhooks import Webhooks

logger = logging.getLogger(__name__)

MOST_CLAIMS: Final = 200
"""Configs that are taken at once."""
MOST_HELD: Final = 20_000
"""Configs that a process takes care of; others are left to others, or for later."""
MOST_WRITTEN: Final = 500
"""Outcomes that are written at once."""
MOST_UNSTORED: Final = 50
"""Events that a receiver is sent before it is written down that it has them: they are sent again after a crash."""
WRITE_AFTER: Final = 0.02
"""Seconds for which outcomes wait for others to be written with."""
LOOK_AFTER: Final = 0.1
"""Seconds between two looks at what others have done to our configs, at least."""
HOLD_FOR: Final = 5.0
"""Seconds until the next attempt for which a config is kept; for longer ones it is released."""
REST: Final = 20
"""How much longer than a look for what is due took the loop rests before the next one."""


class Dispatcher:
    """The pumps of one engine's session."""

    def __init__(self, desk: Desk, webhooks: Webhooks, counters: DeliveryCounters) -> None:
        """Holds nothing yet; must be made on the loop on which it runs."""
        self._desk = desk
        self._clock = desk.clock
        self._settings = desk.settings
        self._webhooks = webhooks
        self._counters = counters
        counters.age_of_oldest = self._age_of_oldest
        self._poster = webhooks.make_poster(desk.settings, desk.clock)
        self._courier = Courier(desk, webhooks, self._poster, counters)
        self._lanes = Lanes(desk.settings.webhook_workers)
        self._pumps: dict[DeliveryKey, Pump] = {}
        self._of_task: dict[str, dict[DeliveryKey, Pump]] = {}
        self._errands: dict[asyncio.Task[None], Place] = {}
        self._held_up: dict[Pump, None] = {}
        self._unwritten: dict[Pump, None] = {}
        self._write_at = math.inf
        self._claims: dict[DeliveryKey, None] = {}
        self._looks: dict[str, None] = {}
        self._check_at = math.inf
        """When to look what others have done to our configs."""
        self._checked_at = self._poll_at = -math.inf
        self._is_unclear = False
        """Configs may have become ours without our hearing of it."""
        self._wanted: Wait | None = None
        self._closing = False
        self._quiet: Wait | None = None
        """Opened when nothing runs, or nothing is held, for whoever closes."""
        self._is_quiet: Callable[[], bool] = lambda: True

    @property
    def holds(self) -> bool:
        """Whether the node takes care of configs, and so has to show that it lives."""
        return bool(self._pumps)

    # -- what the engine tells

    def note(self, group: Group) -> None:
        """Hears of what is durable."""
        for append in group.appends:
            for config in append.configs:
                self._claims[DeliveryKey(config.task_id, config.id)] = None
            if append.row.task_id in self._of_task:
                self._ring_task(append.row.task_id)
        for write in group.writes:
            if isinstance(write, Judged):
                self._looks[write.task_id] = None
                self._ring_task(write.task_id)
            elif isinstance(write, PutConfig):
                self._note_put(DeliveryKey(write.config.task_id, write.config.id))
            elif isinstance(write, DropConfig):
                self._drop(DeliveryKey(write.task_id, write.config_id))
        if self._claims or self._looks:
            self._wake()

    def _note_put(self, key: DeliveryKey) -> None:
        self._drop(key)
        if self._desk.is_live(key.task_id):
            self._claims[key] = None
        else:
            self._looks[key.task_id] = None

    def left(self, task_id: str) -> None:
        """Hears that the node does not work on a task any more: who has all of it may go."""
        self._ring_task(task_id)

    def heard(self, task_ids: Iterable[str] | None) -> None:
        """Hears that other processes have written to some tasks, `None` for any."""
        for task_id in tuple(self._of_task) if task_ids is None else task_ids:
            if task_id in self._of_task and not self._desk.is_live(task_id):
                self._ring_task(task_id)
            elif self._desk.is_live(task_id) and task_ids is not None:
                self._looks[task_id] = None
        self._check_at = min(self._check_at, max(self._clock.monotonic(), self._checked_at + LOOK_AFTER))
        self._wake()

    def give_up(self) -> None:
        """Hears that the node's tasks are others' now, and with them its configs."""
        for key in tuple(self._pumps):
            self._drop(key)

    # -- the loop

    async def run(self) -> None:
        """Takes configs and writes what came of them, until cancelled."""
        while True:
            await self._rest()
            try:
                await self._tend()
            except EnvironmentFault as error:
                logger.debug('Webhooks have to wait for the journal: %s', error)
                self._check_at = self._clock.monotonic()
                await self._desk.latch().wait(self._clock, self._settings.poll_interval)

    async def _rest(self) -> None:
        until = self._write_at
        if not self._closing:
            if self._claims or self._looks:
                return
            until = min(until, self._poll_at, self._check_at if self._may_hold else math.inf)
        seconds = until - self._clock.monotonic()
        if seconds <= 0:
            return
        self._wanted = self._desk.latch()
        try:
            await self._wanted.wait(self._clock, seconds)
        finally:
            self._wanted = None

    def _wake(self) -> None:
        if self._wanted is not None:
            self._wanted.open()

    async def _tend(self) -> None:
        if not self._closing:
            await self._look()
        pumps = list(self._unwritten)[:MOST_WRITTEN]
        claims = self._take_claims()
        if not pumps and not claims and self._write_at > self._clock.monotonic():
            return
        self._write_at = self._clock.monotonic() if len(self._unwritten) > len(pumps) else math.inf
        outcomes = {pump: self._take_outcome(pump) for pump in pumps}
        try:
            await self._desk.keep(tuple(outcomes.values()), claims, lambda kept: self._settle(outcomes, kept))
        except EnvironmentFault:
            self._is_unclear = True
            for pump in outcomes:
                self._note_unwritten(pump, at_once=True)
            raise

    def _take_outcome(self, pump: Pump) -> DeliveryOutcome:
        del self._unwritten[pump]
        pump.unstored = 0
        return pump.outcome(releases=pump.phase is Phase.LEAVING)

    def _take_claims(self) -> tuple[DeliveryKey, ...]:
        if self._closing:
            self._claims.clear()
        room = max(0, min(MOST_CLAIMS, MOST_HELD - len(self._pumps)))
        claims = tuple(key for key in list(self._claims)[:MOST_CLAIMS] if key not in self._pumps)[:room]
        for key in list(self._claims)[:MOST_CLAIMS]:
            del self._claims[key]
        return claims

    async def _look(self) -> None:
        """Looks for configs that are due, and for what others have done to ours."""
        now = self._clock.monotonic()
        looks = tuple(self._looks)
        self._looks.clear()
        if self._poll_at <= now:
            found = await self._poll()
        elif looks:
            found = await self._desk.due(MOST_CLAIMS, looks)
        else:
            found = []
        for key in found:
            self._drop(key)  # whoever could take it would find that nobody holds it
            self._claims[key] = None
        if self._check_at <= now and self._may_hold:
            await self._check()

    @property
    def _may_hold(self) -> bool:
        return bool(self._pumps) or self._is_unclear

    async def _poll(self) -> list[DeliveryKey]:
        """Looks for all that is due and at all that is held, the less often the longer that takes."""
        began = self._clock.monotonic()
        found = await self._desk.due(MOST_CLAIMS, None)
        if self._may_hold:
            await self._check()
        now = self._clock.monotonic()
        is_full = len(found) == MOST_CLAIMS and len(self._pumps) < MOST_HELD
        self._poll_at = now if is_full else now + max(self._settings.poll_interval, REST * (now - began))
        return found

    async def _check(self) -> None:
        """Drops what is not ours any more, and takes up what is without our knowing."""
        self._check_at, self._checked_at = math.inf, self._clock.monotonic()
        held = await self._desk.held()
        for key in [key for key in self._pumps if key not in held]:
            self._lose(key)
        for key in [key for key in held if key not in self._pumps]:
            found = await self._desk.find(key)
            if found is not None:
                self._take_up(found)
        self._is_unclear = False

    def _settle(self, outcomes: dict[Pump, DeliveryOutcome], kept: Kept) -> None:
        """Notes what has become durable, before anything else is written."""
        for pump, outcome in outcomes.items():
            if pump.phase is Phase.GONE:
                continue
            if outcome.key in kept.lost:
                self._lose(outcome.key)
                continue
            pump.stored = outcome.position
            if outcome.releases:
                self._drop(outcome.key)
                if pump.has_moved and outcome.state == 'active' and not self._closing:
                    self._looks[outcome.key.task_id] = None
        held_up, self._held_up = self._held_up, {}
        for pump in held_up:
            if pump.phase is Phase.HELD_UP:
                self._make_ready(pump)
        for delivery in kept.claimed:
            self._take_up(delivery)

    # -- pumps

    def _take_up(self, delivery: Delivery) -> None:
        """Begins with a config that is ours now."""
        key, known = delivery.key, self._pumps.get(delivery.key)
        if known is not None and (known.stored, known.config) == (delivery.position, delivery.config):
            return
        self._drop(key)
        if delivery.state != 'active':
            return
        choose = self._webhooks.events_of
        pump = Pump(delivery, self._settings.webhook_events if choose is None else choose(delivery.config))
        self._pumps[key] = pump
        self._of_task.setdefault(key.task_id, {})[key] = pump
        self._counters.held = len(self._pumps)
        if self._closing:
            self._leave(pump)
        else:
            self._pause(pump)

    def _pause(self, pump: Pump) -> None:
        """Has a pump run at the time of its next attempt."""
        seconds = ((pump.next_attempt_at or 0) - self._clock.now()) / MICROS
        if seconds <= 0:
            self._make_ready(pump)
        else:
            self._wait(pump, seconds)

    def _wait(self, pump: Pump, seconds: float) -> None:
        pump.phase = Phase.PAUSED
        pump.timer = self._clock.call_later(seconds, lambda: self._make_ready(pump))

    def _make_ready(self, pump: Pump) -> None:
        pump.stop_timer()
        if pump.phase is Phase.GONE:
            return
        if self._closing:
            self._leave(pump)
        else:
            self._lanes.add(pump)
            self._start()

    def _start(self) -> None:
        while not self._closing and (place := self._lanes.take()) is not None:
            errand = self._desk.spawn(self._run(place), f'webhook {place.pump.key.config_id}')
            self._errands[errand] = place
            place.pump.errand = errand
            errand.add_done_callback(self._end)

    def _end(self, errand: 'asyncio.Task[None]') -> None:
        """Makes room, however a run ended: also one that was abandoned before it began."""
        place = self._errands.pop(errand)
        if place.pump.errand is errand:
            place.pump.errand = None
        self._lanes.give_back(place)
        self._start()
        self._note_quiet()

    def _ring_task(self, task_id: str) -> None:
        """Has the pumps of a task look for what is new, or go."""
        for pump in tuple(self._of_task.get(task_id, {}).values()):
            pump.is_rung = True
            if pump.phase is Phase.IDLE:
                self._make_ready(pump)

    def _lose(self, key: DeliveryKey) -> None:
        """Lets a config go that is not ours any more, and looks whether it is anybody's."""
        self._drop(key)
        self._looks[key.task_id] = None

    def _drop(self, key: DeliveryKey) -> None:
        """Lets go of a config; an attempt that is under way is abandoned."""
        pump = self._pumps.pop(key, None)
        if pump is None:
            return
        pump.stop_timer()
        pump.phase = Phase.GONE
        self._unwritten.pop(pump, None)
        of_task = self._of_task[key.task_id]
        del of_task[key]
        if not of_task:
            del self._of_task[key.task_id]
        self._counters.held = len(self._pumps)
        if pump.errand is not None and pump.errand is not asyncio.current_task():
            pump.errand.cancel()
        self._note_quiet()

    def _leave(self, pump: Pump) -> None:
        """Has a pump's config released."""
        pump.stop_timer()
        pump.phase = Phase.LEAVING
        self._note_unwritten(pump, at_once=True)

    def _note_unwritten(self, pump: Pump, *, at_once: bool = False) -> None:
        if pump.phase is Phase.GONE:
            return
        self._unwritten[pump] = None
        now = self._clock.monotonic()
        write_at = now if at_once or len(self._unwritten) >= MOST_WRITTEN else now + WRITE_AFTER
        if write_at < self._write_at:
            self._write_at = write_at
            self._wake()

    # -- attempts

    async def _run(self, place: Place) -> None:
        """Brings one pump as far as it comes, or until others wait."""
        pump = place.pump
        try:
            while self._may_go_on(pump):
                step = await self._courier.step(pump)
                if not self._go_on(place, step):
                    return
        except JournalUnavailableError:
            self._put_off(pump)
        except Exception as error:
            logger.exception('Webhook %s of task %s could not go on', pump.key.config_id, pump.key.task_id)
            self._courier.stumble(pump, error)
            self._go_on(place, Step.FAILED)

    def _may_go_on(self, pump: Pump) -> bool:
        """Whether a pump may call its receiver: not before it is clear that nobody else does."""
        if self._desk.is_sure and pump.unstored < MOST_UNSTORED:
            return True
        self._hold_up(pump)
        return False

    def _hold_up(self, pump: Pump) -> None:
        """Lets a pump wait until the journal has been written."""
        pump.phase = Phase.HELD_UP
        self._held_up[pump] = None
        self._write_at = self._clock.monotonic()
        self._wake()

    def _put_off(self, pump: Pump) -> None:
        if pump.phase is not Phase.GONE:
            self._wait(pump, self._settings.poll_interval)

    def _go_on(self, place: Place, step: Step) -> bool:
        """Does what follows from a step; returns whether the pump goes on at once."""
        pump = place.pump
        if pump.phase is Phase.GONE:
            return False
        if pump.is_moved or step is Step.FAILED:
            self._note_unwritten(pump, at_once=step is Step.FAILED)
        if self._closing and step is not Step.SUSPENDED:
            self._leave(pump)
            return False
        if step is Step.PASSED:
            return True
        if step is Step.NOTHING:
            return self._rests(pump)
        if step is Step.DELIVERED:
            return self._takes_turns(place)
        self._stop(pump, step)
        return False

    def _takes_turns(self, place: Place) -> bool:
        """Lets others run if they wait; returns whether the pump goes on at once."""
        if self._lanes.should_yield(place):
            self._lanes.add(place.pump)
            return False
        return True

    def _stop(self, pump: Pump, step: Step) -> None:
        """Ends the calls of a receiver, for now or for good."""
        if step is Step.FAILED:
            self._put_back(pump)
        elif step is Step.SUSPENDED:
            self._leave(pump)
        else:
            self._lose(pump.key)
            self._wake()

    def _rests(self, pump: Pump) -> bool:
        """Lets a pump wait for what its task records, or go; returns whether there may be something already."""
        if pump.is_rung:
            return True
        if self._desk.is_live(pump.key.task_id):
            pump.phase = Phase.IDLE
        else:
            self._leave(pump)
        return False

    def _put_back(self, pump: Pump) -> None:
        """Keeps a config whose next attempt is soon, and releases any other until then."""
        assert pump.next_attempt_at is not None
        if pump.next_attempt_at - self._clock.now() > HOLD_FOR * MICROS:
            self._leave(pump)
        else:
            self._pause(pump)

    # -- the end

    async def close(self, seconds: float) -> None:
        """Makes no further attempts, lets those under way finish for `seconds`, and releases what it holds."""
        self._closing = True
        await self._wait_until_quiet(seconds, lambda: not self._errands)
        abandoned = list(self._errands)
        for errand in abandoned:
            errand.cancel()
        if abandoned:
            await asyncio.wait(abandoned)
        for pump in self._pumps.values():
            self._leave(pump)
        await self._wait_until_quiet(self._settings.cancel_grace, lambda: not self._pumps)
        self.give_up()
        with suppress(Exception):
            await self._poster.aclose()

    async def _wait_until_quiet(self, seconds: float, is_quiet: Callable[[], bool]) -> None:
        self._is_quiet = is_quiet
        if not is_quiet():
            self._quiet = self._desk.latch()
            await self._quiet.wait(self._clock, seconds)
            self._quiet = None

    def _note_quiet(self) -> None:
        if self._quiet is not None and self._is_quiet():
            self._quiet.open()

    def _age_of_oldest(self, now: int) -> float:
        since = [pump.waiting_since for pump in self._pumps.values() if pump.waiting_since is not None]
        return max(0, now - min(since)) / MICROS if since else 0.0

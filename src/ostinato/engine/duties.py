"""Duties of the engine: retries with growing pauses, loops that features declare, and upkeep of the database."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeVar

from ostinato.config import Settings
from ostinato.config.extras import install
from ostinato.core.errors import DatabaseReplaced, StoreError, StoreUnavailable
from ostinato.core.payload import LogMessage
from ostinato.engine.lease import MOST_BUGS
from ostinato.feature import Duty, Feature
from ostinato.outgoing import Outgoing
from ostinato.store.kernel import InStore, Kernel
from ostinato.telemetry.reports import Telemetry, log_line

Step = Callable[[], Awaitable[object]]

LOOK_EVERY: Final = 2.0  # seconds between looks at a feature that is asleep


@dataclass(frozen=True, slots=True)
class EngineParts:
    """The parts of an engine that a duty of a feature may use."""

    kernel: Kernel
    settings: Settings
    telemetry: Telemetry
    outgoing: Outgoing
    in_store: InStore
    troubles: Callable[[], list[str]]  # the problems of this process; it waits for the database


class FeatureDuty:
    """A duty of a feature: its file is imported when the feature is awake.

    Without the extra of the feature the duty is left to other workers; a log line says so once.
    """

    def __init__(self, feature: Feature, duty: Duty, parts: EngineParts) -> None:
        self._feature, self._duty, self._parts = feature, duty, parts
        self._step: Step | None = None
        self._left = False

    @property
    def pause(self) -> float:
        """Seconds until the next step."""
        return self._duty.every if self._step is not None else max(self._duty.every, LOOK_EVERY)

    async def step(self) -> None:
        if self._step is None and not self._left:
            self._step = await self._parts.in_store(self._wake)
        if self._step is not None:
            await self._step()

    def _wake(self) -> Step | None:
        if not self._duty.setting and not self._parts.kernel.store.is_awake(self._feature):
            return None
        if not self._feature.is_installed:
            self._leave()
            return None
        step: Step = self._feature.file(self._duty.file).start(self._parts)
        return step

    def _leave(self) -> None:
        self._left = True
        feature = self._feature
        command = install(feature.extra)
        log_line(logging.WARNING, "Extra missing; left to other workers", feature=feature.name, install=command)


def duties_of_features(parts: EngineParts) -> Iterator[FeatureDuty]:
    """Yield the duties of all features whose settings are given. Raise MissingExtra if such a setting needs one."""
    for feature in parts.kernel.store.database.features:
        for duty in feature.duties:
            if duty.setting and not getattr(parts.settings, duty.setting):
                continue
            if duty.setting:
                feature.require(f"The setting {duty.setting}")
            yield FeatureDuty(feature, duty, parts)


# -- Retries of duties, with growing pauses, until they succeed

T = TypeVar("T")

FIRST_RETRY: Final = 0.1  # seconds; doubles up to the last
LAST_RETRY: Final = 5.0
TELL_EVERY: Final = 60.0  # seconds between two log lines of a process that cannot start

log = logging.getLogger("ostinato.engine")


class Retrying:
    """Retries of duties while the database is unavailable."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self._in_trouble: set[object] = set()

    async def until_done(self, duty: Callable[[], Awaitable[T]]) -> T:
        """Run a duty, with retries while the database is unavailable; raise any other failure that repeats too
        often."""
        this, wait, bugs = object(), FIRST_RETRY, 0
        while True:
            try:
                done = await duty()
            except DatabaseReplaced:
                raise
            except StoreError as error:
                self._in_trouble.add(this)
                self._telemetry.store_away(error)
            except Exception:
                log.exception("A duty of the engine failed")
                bugs += 1
                if bugs == MOST_BUGS:
                    raise
            else:
                self._over(this)
                return done
            await asyncio.sleep(wait)
            wait = min(2 * wait, LAST_RETRY)

    def _over(self, trouble: object) -> None:
        """Note that a duty works again; the store is available when no duty has trouble."""
        if trouble in self._in_trouble:
            self._in_trouble.discard(trouble)
            if not self._in_trouble:
                self._telemetry.store_back()


class StoreWait:
    """Wait of a process that starts while its database is unavailable: pauses, and a log line a minute."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._pause = FIRST_RETRY
        self._since: float | None = None
        self._tell_at = monotonic()

    def away(self, error: StoreUnavailable) -> float:
        """Return the seconds until the next try; log the reason if the last line is a minute old."""
        now = self._monotonic()
        self._since = now if self._since is None else self._since
        if now >= self._tell_at:
            self._tell_at = now + TELL_EVERY
            why, waited = str(error).partition("\n")[0], f"{now - self._since:.0f}s"
            log.error(LogMessage("Database unavailable; retrying until it answers", {"error": why, "waited": waited}))
        pause, self._pause = self._pause, min(2 * self._pause, LAST_RETRY)
        return pause

    def over(self) -> None:
        """Log that the database answers, if there was a wait."""
        if self._since is not None:
            log.info(LogMessage("Database available", {"waited": f"{self._monotonic() - self._since:.0f}s"}))


def until_available(duty: Callable[[], T]) -> T:
    """Run a duty in this thread, as soon as the database is available."""
    waiting = StoreWait()
    while True:
        try:
            done = duty()
        except StoreUnavailable as error:
            time.sleep(waiting.away(error))
        else:
            waiting.over()
            return done


# -- Upkeep of the database, so that no claim is delayed: a short log on SQLite, no dead rows in the busy tables of
# PostgreSQL (see store/upkeep.py).

WANTED: Final = 2000  # pages of SQLite's log, roughly
OFTEN: Final = 0.2  # seconds
RARELY: Final = 5.0


async def keep_light(upkeep: Callable[[], Awaitable[int]]) -> None:
    """Repeat upkeep for ever: the more pages were written, the sooner."""
    pause = RARELY
    while True:
        await asyncio.sleep(pause)
        pause = next_pause(pause, await upkeep())


def next_pause(pause: float, pages: int) -> float:
    """Return the next pause from the number of pages written in the last one."""
    return min(max(pause * WANTED / max(pages, 1), OFTEN), RARELY)

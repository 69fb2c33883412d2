"""Results, from the claim of an execution until the store has settled or refused it.

An execution is held from its claim on: while it runs, while its result waits for a flush, and during the flush. A flush
offers many results in one transaction; a run that ends meanwhile goes with the next flush. If the database cannot write
now (unavailable, read-only, full, locked), the whole batch is kept and offered again. Only the store's answer removes
an execution from `held`, so a worker never releases one whose body has run.

Some results cannot be settled: their row is refused, their job cannot be read, or no rule can settle them. They are set
aside and offered once a minute. They use none of the worker's concurrency.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain
from typing import Any, Final

from ostinato.clock import Clock
from ostinato.core.errors import StoreError
from ostinato.core.model import Chance, Claimed, Event, FencedId, Finished, Json, Live
from ostinato.core.outcome import Deferred, Interrupted, Outcome
from ostinato.core.payload import encode
from ostinato.core.times import CLOCKS_AGREE
from ostinato.engine.logbook import LogBook
from ostinato.store.settling import Settled
from ostinato.store.store import Store
from ostinato.telemetry.reports import Telemetry

MOST_AT_ONCE: Final = 500  # settled in one transaction
MOST_UNSETTLED: Final = 5000  # so many results
LONGEST_UNSETTLED: Final = timedelta(milliseconds=250)  # and this long, claims may go before settles
LEFT_AGAIN: Final = 60.0  # seconds until a result set aside is offered again
MOST_LEFT: Final = 500  # results set aside; beyond this the worker claims no more
RELEASES: Final = frozenset({Interrupted, Deferred})


class Settler:
    """Executions that a worker has claimed, and results that the store has not answered yet."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        chance: Chance,
        telemetry: Telemetry,
        logs: LogBook,
        in_store: Callable[..., Awaitable[Any]],
        running: Mapping[Any, Claimed],
    ) -> None:
        self._store, self._clock, self._chance, self._telemetry = store, clock, chance, telemetry
        self._logs, self._in_store, self._running = logs, in_store, running
        self.ended = asyncio.Event()  # something to settle
        self._finished: list[Finished] = []  # for the next flush
        self._offered: list[Finished] = []  # in the flush that waits for its answer
        self._left: dict[FencedId, Finished] = {}  # the store could not settle these
        self._again: asyncio.TimerHandle | None = None  # the next offer of those

    @property
    def unsettled(self) -> int:
        """The number of results to be offered now."""
        return len(self._finished)

    @property
    def held(self) -> set[FencedId]:
        """Claimed executions that the store has neither settled nor refused."""
        return self.running | self.finished

    @property
    def running(self) -> set[FencedId]:
        """Executions that were started here and have not ended."""
        return {_hold(each) for each in self._running.values()}

    @property
    def finished(self) -> set[FencedId]:
        """Held executions whose body has run."""
        return {_hold(each) for each in chain(self._finished, self._offered)} | self._left.keys()

    @property
    def overfull(self) -> bool:
        """True if so many results cannot be saved that the worker must not claim more."""
        return len(self._left) >= MOST_LEFT

    @property
    def may_wait(self) -> bool:
        """True if a claim may go before the results: few and new, since a crash would repeat their runs."""
        if not self._finished or len(self._finished) >= MOST_UNSETTLED:
            return False
        return timedelta(0) <= self._clock.now() - self._finished[0].at < LONGEST_UNSETTLED

    def end(self, claimed: Claimed, outcome: Outcome, account: Json | None = None) -> None:
        """Add an outcome to the next flush."""
        live, now = claimed.live, self._clock.now()
        if live.started_at is not None and live.started_at > now:
            now = _not_before_its_start(live, now)
        self._finished.append(Finished(live, outcome, now, claimed.definition, account))
        if not self.ended.is_set():
            self.ended.set()

    def offer_left(self) -> None:
        """Offer the results set aside again, with the next flush."""
        if self._again is not None:
            self._again.cancel()
            self._again = None
        waiting = {_hold(each) for each in chain(self._finished, self._offered)}
        self._finished += [each for hold, each in self._left.items() if hold not in waiting]
        if self._finished:
            self.ended.set()

    async def flush(self) -> int:
        """Offer the results. Those that the store does not take now wait for the next flush."""
        self._offered, self._finished = self._finished[:MOST_AT_ONCE], self._finished[MOST_AT_ONCE:]
        if not self._offered:
            return 0
        batch = _not_in_the_future(self._offered, self._clock.now())
        try:
            if not self._logs.is_empty:  # logs first: an ended execution has a complete log
                with suppress(StoreError):
                    await self._logs.flush()
            settled = await self._in_store(self._store.queue.settle, batch)
        except BaseException:
            self._finished, self._offered = batch + self._finished, []
            raise
        new = self._set_aside(batch, settled.left) if self._left or settled.left else []
        self._offered = []
        if self._finished:
            self.ended.set()
        self._tell(batch, settled)
        if new:
            await self._tell_of_left(new)
        return len(batch)

    def _set_aside(self, batch: Sequence[Finished], left: Sequence[Finished]) -> list[Finished]:
        """Set aside the results that the store left, and drop the rest of the batch. Return those that were not set
        aside before."""
        new = [each for each in left if _hold(each) not in self._left]
        for hold in map(_hold, batch):
            self._left.pop(hold, None)
        self._left |= {_hold(each): each for each in left}
        if self._left and self._again is None:
            self._again = asyncio.get_running_loop().call_later(LEFT_AGAIN, self.offer_left)
        return new

    def _tell(self, batch: Sequence[Finished], settled: Settled) -> None:
        self._telemetry.completed(settled.plain)
        self._telemetry.changed(settled.changes)
        for each in settled.refused:
            self._telemetry.refused(each.live)
        given_back = [each for each in batch if type(each.outcome) in RELEASES]
        if given_back:
            queued = {live.id for change in settled.changes for live in change.alter}
            for each in given_back:
                if each.live.id in queued:
                    self._telemetry.released(each.live, type(each.outcome).__name__.lower())

    async def _tell_of_left(self, new: Sequence[Finished]) -> None:
        self._telemetry.held([each.live for each in new])
        if len(self._left) >= MOST_LEFT > len(self._left) - len(new):
            self._telemetry.overfull(len(self._left))
        with suppress(StoreError):  # already logged
            await self._in_store(self._store.history.tell, [self._event(each) for each in new])

    def _event(self, each: Finished) -> Event:
        now, live = self._clock.now(), each.live
        data = encode({"outcome": type(each.outcome).__name__, "fence": live.fence})
        return Event(self._chance.id(now), now, "result.held", live.job_id, live.id, live.worker_id, data=data)


def _hold(each: Claimed | Finished) -> FencedId:
    return each.live.id, each.live.fence


def _not_in_the_future(finished: Sequence[Finished], now: datetime) -> list[Finished]:
    """Cap end times at now. If the clock was set back since, a settle would compute the next due time from the
    future."""
    return [each if each.at <= now else replace(each, at=_not_before_its_start(each.live, now)) for each in finished]


def _not_before_its_start(live: Live, now: datetime) -> datetime:
    """Return now, or a start slightly ahead of it: this clock only estimates the database's.

    A start further ahead was written before the clock was set back.
    """
    started = live.started_at
    return started if started is not None and timedelta(0) < started - now <= CLOCKS_AGREE else now

"""Results, from the claim of an execution until the store has taken or refused its end.

An execution is held from its claim on. Its result is offered with the next flush, many in one transaction: a run that
ends during a flush goes with the next one. A database that cannot write now (away, read-only, full, locked) takes
nothing: the batch is kept whole and offered again. Only the store's answer takes an execution out of `held`, so a
worker never releases one whose body has run.

A result that the store leaves (its row is refused, its job cannot be read, no rule can settle it) is set aside and
offered once a minute. It takes no place of the worker's concurrency.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from ostinato.clock import Clock
from ostinato.core.errors import StoreError
from ostinato.core.model import Claimed, Event, Finished, Json, Live, Luck
from ostinato.core.outcome import Deferred, Interrupted, Outcome
from ostinato.core.payload import encode
from ostinato.engine.logbook import LogBook
from ostinato.store.settling import Settled
from ostinato.store.store import Store
from ostinato.telemetry import Telemetry

# An execution and its fence: one that was released by hand may come back here before its old run has ended.
Hold = tuple[UUID, int]

MOST_AT_ONCE: Final = 500  # settled in one transaction
MOST_UNSETTLED: Final = 5000  # so many, and
LONGEST_UNSETTLED: Final = timedelta(milliseconds=250)  # so long, claims may go before settles
LEFT_AGAIN: Final = 60.0  # seconds until a result that the store left is offered again
MOST_LEFT: Final = 500  # results that are set aside; then the worker claims no more
CLOCKS_DIFFER: Final = timedelta(seconds=1)
RELEASES: Final = frozenset({Interrupted, Deferred})


class Settler:
    """Holds what its worker has claimed, and offers each result until the store has taken or refused it."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        luck: Luck,
        telemetry: Telemetry,
        logs: LogBook,
        in_store: Callable[..., Awaitable[Any]],
    ) -> None:
        self._store, self._clock, self._luck, self._telemetry = store, clock, luck, telemetry
        self._logs, self._in_store = logs, in_store
        self.ended = asyncio.Event()  # something to settle
        self._held: dict[Hold, Claimed | Finished] = {}
        self._finished: list[Finished] = []  # to be offered by the next flush
        self._left: dict[Hold, Finished] = {}  # the store could not settle these

    @property
    def unsettled(self) -> int:
        """How many results may be offered now."""
        return len(self._finished)

    @property
    def held(self) -> set[Hold]:
        """All that was claimed, and whose end the store has neither taken nor refused."""
        return set(self._held)

    @property
    def finished(self) -> set[Hold]:
        """What is held, and whose body has run."""
        return {hold for hold, each in self._held.items() if isinstance(each, Finished)}

    @property
    def overfull(self) -> bool:
        """Whether so many results cannot be saved that the worker must not claim more."""
        return len(self._left) >= MOST_LEFT

    @property
    def may_wait(self) -> bool:
        """Whether there are results, so few and so new that a claim may go first: a crash would run them again."""
        if not self._finished or len(self._finished) >= MOST_UNSETTLED:
            return False
        return timedelta(0) <= self._clock.now() - self._finished[0].at < LONGEST_UNSETTLED

    def hold(self, claimed: Sequence[Claimed]) -> None:
        """Hold what was claimed."""
        for each in claimed:
            self._held[each.live.id, each.live.fence] = each

    def end(self, claimed: Claimed, outcome: Outcome, account: Json | None = None) -> None:
        """Keep what an execution came to, to be settled with the next flush."""
        live = claimed.live
        ended = Finished(
            live, outcome, _not_before_its_start(live, self._clock.now()), claimed.definition, account
        )
        self._held[live.id, live.fence] = ended
        self._finished.append(ended)
        if not self.ended.is_set():
            self.ended.set()

    def offer_left(self) -> None:
        """Offer again, with the next flush, what the store left."""
        waiting = {_hold(each) for each in self._finished}
        self._finished += [each for hold, each in self._left.items() if hold not in waiting]
        if self._finished:
            self.ended.set()

    async def flush(self) -> int:
        """Offer what has ended. What the store does not take now is kept for the next flush."""
        ended, self._finished = self._finished[:MOST_AT_ONCE], self._finished[MOST_AT_ONCE:]
        if not ended:
            return 0
        batch = _not_in_the_future(ended, self._clock.now())
        if not self._logs.is_empty:  # a reader who sees that it has ended sees all that it wrote
            with suppress(StoreError):
                await self._logs.flush()
        try:
            settled = await self._in_store(self._store.queue.settle, batch)
        except BaseException:
            self._finished = batch + self._finished
            raise
        self._let_go(batch, settled)
        self._tell(batch, settled)
        if settled.left:
            await self._set_aside(settled.left)
        if self._finished:
            self.ended.set()
        return len(batch)

    def _let_go(self, batch: Sequence[Finished], settled: Settled) -> None:
        """Hold no longer what the store has taken or refused."""
        left = {_hold(each) for each in settled.left}
        for each in batch:
            hold = each.live.id, each.live.fence
            if hold not in left:
                self._held.pop(hold, None)
                if self._left:
                    self._left.pop(hold, None)

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

    async def _set_aside(self, left: Sequence[Finished]) -> None:
        new = [each for each in left if _hold(each) not in self._left]
        was_overfull = self.overfull
        self._left |= {_hold(each): each for each in left}
        asyncio.get_running_loop().call_later(LEFT_AGAIN, self.offer_left)
        self._telemetry.held([each.live for each in new])
        if self.overfull and not was_overfull:
            self._telemetry.overfull(len(self._left))
        if new:
            with suppress(StoreError):  # the log has told it
                await self._in_store(self._store.history.tell, [self._event(each) for each in new])

    def _event(self, each: Finished) -> Event:
        now, live = self._clock.now(), each.live
        data = encode({"outcome": type(each.outcome).__name__, "fence": live.fence})
        return Event(self._luck.id(now), now, "result.held", live.job_id, live.id, live.worker_id, data=data)


def _hold(each: Finished) -> Hold:
    return each.live.id, each.live.fence


def _not_in_the_future(finished: Sequence[Finished], now: datetime) -> list[Finished]:
    """The clock may have been set back since a run ended; its settle would name the next time from there."""
    return [
        each if each.at <= now else replace(each, at=_not_before_its_start(each.live, now))
        for each in finished
    ]


def _not_before_its_start(live: Live, now: datetime) -> datetime:
    """Return now, or a start that is a little ahead: this clock only measures that of the database.

    A start that is further ahead was written before the clock was set back.
    """
    started = live.started_at
    return started if started is not None and timedelta(0) < started - now <= CLOCKS_DIFFER else now

"""The live feed: events, starts and finishes since a cursor. Without listeners it costs nothing.

Rows appear in the order of their commits, and no column has that order. So each reading begins a while before the last
one (`OVERLAP`) and may send an item twice, under the same id: a repeat is allowed, a gap is not.

    events      have ids in the order of time: they are read from the id of that instant on
    starts      come from running rows, or from the finished row if the run was too short to be seen
    finishes    an execution that finishes later is live now, or not queued yet. So the finishes since a reading are
                among the executions from the oldest live id on. Very old live rows (a paused job, an unknown task)
                would make that range long, so the cursor lists their ids one by one.

The cursor contains all that a reader must know, so that any process can continue where another stopped. A `Feed` that
gets its own last cursor remembers more: the live ids, the ended ids and the items sent. It then knows new rows of
`executions`, and rows that left `live`, by their ids, however late they were settled, and sends nothing twice.
"""

import base64
import binascii
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid4

from ostinato.clock import Clock
from ostinato.core.errors import NotFound
from ostinato.core.model import EPOCH, Event, Execution, Live
from ostinato.core.read_models import MOST_ITEMS, Item, is_wanted
from ostinato.store import rows
from ostinato.store.database import Database, Tx
from ostinato.store.rows import from_micros, to_micros, to_uuid

STARTED: Final = "execution.started"
FINISHED: Final = "execution.finished"
OVERLAP: Final = timedelta(seconds=40)  # a commit follows the times in its rows within 30 s, or fails
LISTED: Final = 16  # old live rows that a cursor lists one by one


@dataclass(frozen=True, slots=True)
class _FeedPosition:
    """A position in the feed. `then`: the position after all earlier finishes have been sent."""

    at: datetime
    events_from: UUID
    ended_from: UUID
    old: tuple[UUID, ...] = ()
    then: "_FeedPosition | None" = None

    def text(self) -> str:
        """Return the cursor. Its last part is random: no two readings return the same one, even at the same instant."""
        packed = json.dumps([*self._values(), uuid4().hex[:8]], separators=(",", ":")).encode()
        return base64.urlsafe_b64encode(packed).decode().rstrip("=")

    def _values(self) -> list[Any]:
        ids = [self.events_from.hex, self.ended_from.hex, *(each.hex for each in self.old)]
        return [to_micros(self.at), ids, None if self.then is None else self.then._values()]

    @classmethod
    def of(cls, text: str) -> "_FeedPosition":
        """Parse a cursor; raise NotFound if it is none."""
        try:
            values = json.loads(base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True))
            return cls._of(values[:3])
        except (
            ValueError,
            TypeError,
            LookupError,  # since Python 3.12, a slice of a dictionary raises KeyError
            OverflowError,
            RecursionError,
            AttributeError,
            binascii.Error,
        ):
            raise NotFound(
                "This is not a place in the feed of events: take the id of an event as it was sent."
            ) from None

    @classmethod
    def _of(cls, values: Any) -> "_FeedPosition":
        at, ids, then = values
        if at < 0:
            raise ValueError(at)
        events, ended, *old = [UUID(hex=each) for each in ids]
        after = None if then is None else cls._of(then)
        return cls(from_micros(int(at)), events, ended, tuple(old[:LISTED]), after)


@dataclass(frozen=True, slots=True)
class _Memory:
    """The part of a Feed's state that its last cursor does not contain."""

    cursor: str | None = None
    sent: Mapping[str, datetime] = field(default_factory=dict)  # item ids and when they were sent
    known: "_Known | None" = None


@dataclass(frozen=True, slots=True)
class _Known:
    """Ids of live rows, and of ended executions with a recent id."""

    live: frozenset[UUID]
    ended: frozenset[UUID]


@dataclass(frozen=True, slots=True)
class _Seen:
    """One reading of the database, from one snapshot. `more`: the last id, if there are more executions to read."""

    events: Sequence[Event]
    live: Sequence[UUID]
    running: Sequence[Live]
    recent: frozenset[UUID]
    ended: Sequence[Execution]
    more: UUID | None = None


class Feed:
    """Reader of events, of one job or of all. It serves one listener, or many that receive the same items."""

    def __init__(self, database: Database, clock: Clock, job_id: UUID | None = None) -> None:
        self._database, self._clock, self._job_id = database, clock, job_id
        self._memory = _Memory()

    def since(self, cursor: str | None, kinds: Collection[str] = ()) -> tuple[list[Item], str]:
        """Return the items since a cursor, and the next cursor; without a cursor, begin now.

        `kinds` filters items; `job.*` matches every kind with that prefix.
        """
        now = self._clock.now()
        place = _beginning(now) if cursor is None else _not_in_the_future(_FeedPosition.of(cursor), now)
        memory = self._memory if cursor is not None and cursor == self._memory.cursor else _Memory()
        with self._database.read() as tx:
            seen = self._look(tx, place, memory, now)
        found = [item for item in _items(seen, place.at - OVERLAP) if item.id not in memory.sent]
        following = _next(place, seen, now).text()
        self._memory = self._remembered(following, place, seen, memory, found, now)
        wanted = [] if cursor is None else [item for item in found if is_wanted(item.kind, kinds)]
        return wanted, following

    def _remembered(
        self,
        following: str,
        place: _FeedPosition,
        seen: _Seen,
        memory: _Memory,
        found: Sequence[Item],
        now: datetime,
    ) -> _Memory:
        since = min(place.at, now) - 2 * OVERLAP
        sent = {item_id: at for item_id, at in memory.sent.items() if at > since}
        sent |= {item.id: now for item in found}
        if place.then is not None or seen.more is not None:
            return _Memory(following, sent)  # the cursor alone finds runs that ended while it read in parts
        return _Memory(following, sent, _Known(frozenset(seen.live), seen.recent))

    def _look(self, tx: Tx, place: _FeedPosition, memory: _Memory, now: datetime) -> _Seen:
        live = [to_uuid(row[0]) for row in tx.rows("live_ids", job=self._job_id)]
        running = [rows.LIVE.of(row) for row in tx.rows("running_now", job=self._job_id)]
        events = tx.rows("events_since", after=place.events_from, job=self._job_id, limit=MOST_ITEMS)
        lately = now if memory.known is None else min(place.at, now)
        found = tx.rows("ended_ids", after=first_id(lately - OVERLAP), job=self._job_id)
        recent = frozenset(to_uuid(row[0]) for row in found)
        page = self._page(tx, place) if memory.known is None else []
        others = place.old if memory.known is None else _left_live(memory.known, live, recent)
        ended = page + self._by_id(tx, others)
        more = page[-1].id if len(page) == MOST_ITEMS else None
        finished = list({row.id: row for row in ended}.values())
        return _Seen([rows.EVENT.of(row) for row in events], live, running, recent, finished, more)

    def _page(self, tx: Tx, place: _FeedPosition) -> list[Execution]:
        given = {"after": place.ended_from, "since": place.at - OVERLAP, "limit": MOST_ITEMS}
        found = (
            tx.rows("ended_since", None, **given)
            if self._job_id is None
            else tx.rows("ended_since_of", None, **given, job=self._job_id)
        )
        return [rows.EXECUTION.of(row) for row in found]

    def _by_id(self, tx: Tx, ids: Sequence[UUID]) -> list[Execution]:
        found = [rows.EXECUTION.of(row) for row in tx.rows("executions_by_id", ids=list(ids))] if ids else []
        return [row for row in found if self._job_id is None or row.job_id == self._job_id]


def _left_live(known: _Known, live: Collection[UUID], recent: frozenset[UUID]) -> list[UUID]:
    """Return ids that left `live`, and ids that are new in history."""
    return [*known.live.difference(live), *recent.difference(known.ended)]


def first_id(instant: datetime) -> UUID:
    """Return the smallest id that can be made at an instant."""
    milliseconds = max((instant - EPOCH) // timedelta(milliseconds=1), 0)
    return UUID(int=milliseconds << 80)


def _beginning(now: datetime) -> _FeedPosition:
    begin = first_id(now - OVERLAP)
    return _FeedPosition(now, begin, begin)


def _not_in_the_future(place: _FeedPosition, now: datetime) -> _FeedPosition:
    """Reset a position in the future: it was made by a clock that has been set back since."""
    if place.at <= now + OVERLAP:
        return place
    begin = _beginning(now)
    return replace(begin, ended_from=min(begin.ended_from, place.ended_from), old=place.old)


def _next(place: _FeedPosition, seen: _Seen, now: datetime) -> _FeedPosition:
    """Return the next position: the next part of the finishes, or the current state."""
    events_from = seen.events[-1].id if len(seen.events) == MOST_ITEMS else first_id(now - OVERLAP)
    after = place.then or _complete(seen, events_from, now)
    if seen.more is None:
        return replace(after, events_from=events_from)
    return replace(place, events_from=events_from, ended_from=seen.more, old=(), then=after)


def _complete(seen: _Seen, events_from: UUID, now: datetime) -> _FeedPosition:
    """Return the position after a complete reading."""
    recent = first_id(now - OVERLAP)
    old = [each for each in seen.live if each < recent]
    return _FeedPosition(now, events_from, old[LISTED] if len(old) > LISTED else recent, tuple(old[:LISTED]))


def _items(seen: _Seen, since: datetime) -> list[Item]:
    """Return the items in the order of their times."""
    items = [_event(event) for event in seen.events]
    items += [_start(row) for row in seen.running if row.started_at and row.started_at >= since]
    items += [_start(row) for row in seen.ended if row.started_at and row.started_at >= since]
    items += [_finish(row) for row in seen.ended]
    return sorted(items, key=lambda item: item.at)


def _event(event: Event) -> Item:
    data = json.loads(event.data)
    return Item(
        f"event-{event.id}",
        event.kind,
        event.at,
        event.job_id,
        event.execution_id,
        event.worker_id,
        event.by,
        data,
    )


def _start(row: Execution | Live) -> Item:
    at = row.started_at or row.run_at
    return Item(f"start-{row.id}-{row.fence}", STARTED, at, row.job_id, row.id, row.worker_id, "", _about(row))


def _finish(row: Execution) -> Item:
    took = None if row.started_at is None else (row.finished_at - row.started_at) // timedelta(milliseconds=1)
    data = _about(row) | {
        "outcome": row.outcome.value, "duration_ms": took, "error_kind": row.error_kind, "error": row.error,
    }  # fmt: skip
    return Item(f"finish-{row.id}", FINISHED, row.finished_at, row.job_id, row.id, row.worker_id, row.by, data)


def _about(row: Execution | Live) -> dict[str, Any]:
    about: dict[str, Any] = {
        "task": row.task, "queue": row.queue, "number": row.number, "attempt": row.attempt,
        "execution_number": row.execution_number, "due_at": row.due_at.isoformat(),
    }  # fmt: skip
    return about | {"step": row.step} if row.step else about

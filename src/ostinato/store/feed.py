"""The live feed: events, starts and finishes since a cursor. Without listeners it costs nothing.

Rows appear in the order of their commits, and no column has that order. So each reading begins a while before the last
one (`OVERLAP`), and what it finds twice it may tell twice, under the same id: a repeat is allowed, a gap is not.

    events      have ids in the order of time: read from the id of that instant on
    starts      are told from what runs now, or from the finished row when it ran too briefly to be seen
    finishes    whatever finishes later is live now, or not queued yet. So the finishes since a reading are among the
                executions from the oldest id that was live then. A few very old live rows (a job that is paused, a
                task nobody knows) would make that a long way: their ids stand in the cursor one by one.

All that a reader must know is in the cursor, so that any process can go on where another was. A `Feed` that is asked
again with the cursor it gave last does better: it remembers what was live, what had ended and what it told. What is new
in `executions`, or has vanished from `live`, is then known by its id, however late it was settled, and nothing is told
twice.
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
from ostinato.core.ids import EPOCH
from ostinato.core.model import Event, Execution, Live
from ostinato.store import rows
from ostinato.store.adapt import from_micros, to_micros, to_uuid
from ostinato.store.database import Database, Tx

STARTED: Final = "execution.started"
FINISHED: Final = "execution.finished"
OVERLAP: Final = timedelta(seconds=40)  # a commit follows the times in its rows within 30 s, or fails
MOST_ROWS: Final = 5_000  # events, and executions, of one reading; the rest comes with the next
LISTED: Final = 16  # old live rows that a cursor names one by one


@dataclass(frozen=True, slots=True)
class Item:
    """Something that happened. Its id is the same whenever and by whomever it is told."""

    id: str
    kind: str
    at: datetime
    job_id: UUID | None
    execution_id: UUID | None
    worker_id: UUID | None
    by: str
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class FeedPosition:
    """A position in the feed. `then`: the position after all earlier finishes have been sent."""

    at: datetime
    events_from: UUID
    ended_from: UUID
    old: tuple[UUID, ...] = ()
    then: "FeedPosition | None" = None

    def text(self) -> str:
        """A cursor. The last part is chance: no two readings give the same one, though no time had passed."""
        packed = json.dumps([*self._values(), uuid4().hex[:8]], separators=(",", ":")).encode()
        return base64.urlsafe_b64encode(packed).decode().rstrip("=")

    def _values(self) -> list[Any]:
        ids = [self.events_from.hex, self.ended_from.hex, *(each.hex for each in self.old)]
        return [to_micros(self.at), ids, None if self.then is None else self.then._values()]

    @classmethod
    def of(cls, text: str) -> "FeedPosition":
        """Read a cursor; anything else is NotFound."""
        try:
            values = json.loads(base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True))
            return cls._of(values[:3])
        except (
            ValueError,
            TypeError,
            LookupError,  # from Python 3.12 on, a slice of a dictionary is a KeyError
            OverflowError,
            RecursionError,
            AttributeError,
            binascii.Error,
        ):
            raise NotFound(
                "This is not a place in the feed of events: take the id of an event as it was sent."
            ) from None

    @classmethod
    def _of(cls, values: Any) -> "FeedPosition":
        at, ids, then = values
        if at < 0:
            raise ValueError(at)
        events, ended, *old = [UUID(hex=each) for each in ids]
        after = None if then is None else cls._of(then)
        return cls(from_micros(int(at)), events, ended, tuple(old[:LISTED]), after)


@dataclass(frozen=True, slots=True)
class _Memory:
    """The state of a Feed that is not in its last cursor."""

    cursor: str | None = None
    told: Mapping[str, datetime] = field(default_factory=dict)  # which item, and when
    known: "_Known | None" = None


@dataclass(frozen=True, slots=True)
class _Known:
    """Ids of live rows, and of ended executions with a recent id."""

    live: frozenset[UUID]
    ended: frozenset[UUID]


@dataclass(frozen=True, slots=True)
class _Seen:
    """One reading of the database, from one snapshot. `more`: the last id, if there are further executions to read."""

    events: Sequence[Event]
    live: Sequence[UUID]
    running: Sequence[Live]
    recent: frozenset[UUID]
    ended: Sequence[Execution]
    more: UUID | None = None


class Feed:
    """Reads what has happened, of one job or of all. For one listener, or for many who are told the same."""

    def __init__(self, database: Database, clock: Clock, job_id: UUID | None = None) -> None:
        self._database, self._clock, self._job_id = database, clock, job_id
        self._memory = _Memory()

    def since(self, cursor: str | None, kinds: Collection[str] = ()) -> tuple[list[Item], str]:
        """Return the items since a cursor, and the next cursor; without a cursor, begin now.

        `kinds` filters items; `job.*` matches every kind with that prefix.
        """
        now = self._clock.now()
        place = _beginning(now) if cursor is None else _sane(FeedPosition.of(cursor), now)
        memory = self._memory if cursor is not None and cursor == self._memory.cursor else _Memory()
        with self._database.read() as tx:
            seen = self._look(tx, place, memory, now)
        found = [item for item in _items(seen, place.at - OVERLAP) if item.id not in memory.told]
        following = _next(place, seen, now).text()
        self._memory = self._remembered(following, place, seen, memory, found, now)
        told = [] if cursor is None else [item for item in found if is_wanted(item.kind, kinds)]
        return told, following

    def _remembered(
        self,
        following: str,
        place: FeedPosition,
        seen: _Seen,
        memory: _Memory,
        found: Sequence[Item],
        now: datetime,
    ) -> _Memory:
        kept = min(place.at, now) - 2 * OVERLAP
        told = {item_id: at for item_id, at in memory.told.items() if at > kept}
        told |= {item.id: now for item in found}
        if place.then is not None or seen.more is not None:
            return _Memory(following, told)  # what ended while it read in parts is found by the cursor alone
        return _Memory(following, told, _Known(frozenset(seen.live), seen.recent))

    def _look(self, tx: Tx, place: FeedPosition, memory: _Memory, now: datetime) -> _Seen:
        live = [to_uuid(row[0]) for row in tx.rows("live_ids", job=self._job_id)]
        running = [rows.LIVE.of(row) for row in tx.rows("running_now", job=self._job_id)]
        events = tx.rows("events_since", after=place.events_from, job=self._job_id, limit=MOST_ROWS)
        lately = now if memory.known is None else min(place.at, now)
        found = tx.rows("ended_ids", after=first_id(lately - OVERLAP), job=self._job_id)
        recent = frozenset(to_uuid(row[0]) for row in found)
        page = self._page(tx, place) if memory.known is None else []
        others = place.old if memory.known is None else _gone(memory.known, live, recent)
        ended = page + self._by_id(tx, others)
        more = page[-1].id if len(page) == MOST_ROWS else None
        told = list({row.id: row for row in ended}.values())
        return _Seen([rows.EVENT.of(row) for row in events], live, running, recent, told, more)

    def _page(self, tx: Tx, place: FeedPosition) -> list[Execution]:
        given = {"after": place.ended_from, "since": place.at - OVERLAP, "limit": MOST_ROWS}
        found = (
            tx.rows("ended_since", None, **given)
            if self._job_id is None
            else tx.rows("ended_since_of", None, **given, job=self._job_id)
        )
        return [rows.EXECUTION.of(row) for row in found]

    def _by_id(self, tx: Tx, ids: Sequence[UUID]) -> list[Execution]:
        found = [rows.EXECUTION.of(row) for row in tx.rows("executions_by_id", ids=list(ids))] if ids else []
        return [row for row in found if self._job_id is None or row.job_id == self._job_id]


def _gone(known: _Known, live: Collection[UUID], recent: frozenset[UUID]) -> list[UUID]:
    """Return ids that left `live`, and ids that are new in history."""
    return [*known.live.difference(live), *recent.difference(known.ended)]


def first_id(instant: datetime) -> UUID:
    """The smallest id that anything made at an instant can have."""
    milliseconds = max((instant - EPOCH) // timedelta(milliseconds=1), 0)
    return UUID(int=milliseconds << 80)


def is_wanted(kind: str, kinds: Collection[str]) -> bool:
    """Return True if a kind matches: `job.*` matches every kind with that prefix; no kinds match all."""
    return not kinds or any(kind.startswith(k[:-1]) if k.endswith("*") else kind == k for k in kinds)


def _beginning(now: datetime) -> FeedPosition:
    begin = first_id(now - OVERLAP)
    return FeedPosition(now, begin, begin)


def _sane(place: FeedPosition, now: datetime) -> FeedPosition:
    """A place in the future was made by a clock that has been set back: ids and times begin anew."""
    if place.at <= now + OVERLAP:
        return place
    begin = _beginning(now)
    return replace(begin, ended_from=min(begin.ended_from, place.ended_from), old=place.old)


def _next(place: FeedPosition, seen: _Seen, now: datetime) -> FeedPosition:
    """Return the next position: the next part of the finishes, or from here."""
    events_from = seen.events[-1].id if len(seen.events) == MOST_ROWS else first_id(now - OVERLAP)
    after = place.then or _resting(seen, events_from, now)
    if seen.more is None:
        return replace(after, events_from=events_from)
    return replace(place, events_from=events_from, ended_from=seen.more, old=(), then=after)


def _resting(seen: _Seen, events_from: UUID, now: datetime) -> FeedPosition:
    """Return the position after a reading that has seen everything."""
    recent = first_id(now - OVERLAP)
    old = [each for each in seen.live if each < recent]
    return FeedPosition(now, events_from, old[LISTED] if len(old) > LISTED else recent, tuple(old[:LISTED]))


def _items(seen: _Seen, since: datetime) -> list[Item]:
    """In the order of their times."""
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
    return Item(
        f"start-{row.id}-{row.fence}", STARTED, at, row.job_id, row.id, row.worker_id, "", _about(row)
    )


def _finish(row: Execution) -> Item:
    took = None if row.started_at is None else (row.finished_at - row.started_at) // timedelta(milliseconds=1)
    data = _about(row) | {
        "outcome": row.result.value, "duration_ms": took, "error_kind": row.error_kind, "error": row.error,
    }  # fmt: skip
    return Item(
        f"finish-{row.id}", FINISHED, row.finished_at, row.job_id, row.id, row.worker_id, row.by, data
    )


def _about(row: Execution | Live) -> dict[str, Any]:
    about: dict[str, Any] = {
        "task": row.task, "queue": row.queue, "number": row.number, "attempt": row.attempt,
        "execution_number": row.execution_number, "due_at": row.due_at.isoformat(),
    }  # fmt: skip
    return about | {"step": row.step} if row.step else about

"""Claiming: a worker takes and starts executions that may start now.

A claim waits only for an operator who is pausing a queue, or a sweeper that is closing this worker; it skips rows that
another claim has locked. Executions of tasks unknown here are set apart, never failed (G12).
"""

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Final
from uuid import UUID

from ostinato.core.model import EPOCH, Claimed, Definition
from ostinato.store import rows
from ostinato.store.database import Tx
from ostinato.store.dialect import DatabaseKind
from ostinato.store.locking import QueueDuty
from ostinato.store.rows import from_micros, to_bytes, to_micros

ROUNDS: Final = 20  # attempts per claim
MOST_UNKNOWN: Final = 50  # rows of unknown tasks that one claim sets apart: a few milliseconds of work
# Delay of an execution whose definition cannot be read here.
UNREADABLE: Final = timedelta(minutes=1)
# Interval at which a worker that is never idle looks for parked rows.
UNPARKING: Final = timedelta(seconds=1)


COLUMNS: Final = [name for name in rows.STARTED.columns if name not in rows.GIVEN]  # of a claimed row
WIDTH, JOB_ID, VERSION, QUEUE, QUEUED_AT = (
    len(COLUMNS),
    *map(COLUMNS.index, ("job_id", "version", "queue", "queued_at")),
)
LAST_TIME: Final = sys.maxsize  # later than any instant, in microseconds
# Columns with a definition, as `rows.definition_of` reads it; on PostgreSQL also whether the queue is bounded.
DEFINED: Final = WIDTH + 16
IN_ORDER: Final = itemgetter(*(COLUMNS.index(name) for name in ("priority", "run_at", "id")))


@dataclass(frozen=True, slots=True)
class Claim:
    """The executions that a worker claimed, and the time of the next claim."""

    claimed: tuple[Claimed, ...] = ()
    parked: Mapping[str, int] | None = None  # tasks unknown here → rows set apart
    next_at: datetime | None = None  # only set if fewer came than wanted; a past time means: look again soon


@dataclass(slots=True)
class _ClaimedRows:
    """Rows that a claim has started, and cached definitions, which the rows may omit."""

    found: list[rows.Row] = field(default_factory=list)
    known: dict[bytes, Definition] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _ClaimSearch:
    """The parameters of a claim."""

    worker: UUID
    tasks: Sequence[str]
    queues: Sequence[str]
    now: datetime
    limit: int
    at_least: datetime  # the renewal of the worker that the database must have


class Claiming(QueueDuty):
    """Claims: due executions start under a worker."""

    _unparked: tuple[UUID, datetime] | None = None
    _knows_all = False  # True if the last claim needed only cached definitions: the next may, too
    _strangers_first = False  # True if the fast path has just found due rows, but none of a task known here

    def claim(
        self,
        worker: UUID,
        tasks: Sequence[str],
        queues: Sequence[str],
        clock: Callable[[], datetime],
        limit: int,
        at_least: datetime = EPOCH,
    ) -> Claim:
        """Claim and start up to `limit` executions. A closed worker gets none, and neither does one whose last renewal
        (`at_least`) the database has lost.

        The clock is read under the write lock: a start must not be earlier than the end that it waited for.
        """
        search = _ClaimSearch(worker, tasks, queues, clock(), limit, at_least)
        claim = self._in_one_statement(search, clock) if self._fast_path else None
        return self._in_full(search, clock) if claim is None else claim

    def _in_one_statement(self, wanted: _ClaimSearch, clock: Callable[[], datetime]) -> Claim | None:
        """Claim with one statement, which is its own transaction: one round trip instead of four.

        None: claim in full. That is always so in SQLite, which has no round trips, and when rows may have to be parked
        or unparked.
        """
        if not self._database.elsewhere or self._is_time_to_unpark(wanted):
            return None
        with self._database.alone() as tx:
            search = replace(wanted, now=clock())
            taken = self._start(tx, search, _ClaimedRows())
        if any(bounded for *_, bounded in taken.found):
            self._database.notify()
        claimed = self._ready(taken, search)
        if claimed:  # start these now; the next claim finds out whether there are more, and when
            return Claim(claimed, None, None if len(claimed) == search.limit else wanted.now)
        with self._database.alone() as tx:
            next_at, set_apart = self._outlook(tx, search)
        if not set_apart and (next_at is None or next_at > wanted.now):
            return Claim(next_at=next_at)
        self._strangers_first = not set_apart
        return None

    def _in_full(self, wanted: _ClaimSearch, clock: Callable[[], datetime]) -> Claim:
        """Claim, park and unpark rows, and find the next time to claim."""
        with self._database.write() as tx:
            served = self._open_queues(tx, wanted)
            if not served:
                return Claim()
            search = replace(wanted, queues=list(served), now=clock())
            parked = Counter[str]()
            if self._strangers_first:
                self._strangers_first = False
                self._park_unknown(tx, search, parked)
            taken, next_at = self._take(tx, search, parked)
            if any(served[row[QUEUE]] is not None for row in taken.found):
                tx.notify()  # the schedule may now fire into a bounded queue
        return Claim(self._ready(taken, search), parked or None, next_at)

    def parked(self) -> list[tuple[str, int, datetime]]:
        """List tasks that no worker could run: name, number of waiting rows, since when."""
        with self._database.read() as tx:
            return [(task, count, from_micros(since)) for task, count, since in tx.rows("parked_tasks")]

    def has_work(self, worker: UUID, tasks: Sequence[str], queues: Sequence[str], now: datetime) -> bool:
        """Return True if this worker holds an execution, or one of its queues and tasks may start now."""
        with self._database.read() as tx:
            ((found,),) = tx.rows(
                "has_work", worker=worker, tasks=list(tasks), queues=list(queues), every_queue=not queues, now=now
            )
            return bool(found)

    # -- within

    def _open_queues(self, tx: Tx, search: _ClaimSearch) -> dict[str, int | None]:
        """Return the queues to serve with their bounds; none for a closed worker."""
        found = tx.rows("open_queues", worker=search.worker, at_least=search.at_least)
        return {name: most for name, most in found if not search.queues or name in search.queues}

    def _take(self, tx: Tx, search: _ClaimSearch, parked: Counter[str]) -> tuple[_ClaimedRows, datetime | None]:
        """Start executions; return them and the time of the next claim. Count rows of unknown tasks in `parked`."""
        taken = _ClaimedRows()
        next_at: datetime | None = search.now
        self._unpark_at_intervals(tx, search)
        for _ in range(ROUNDS):
            if parked.total() >= MOST_UNKNOWN:
                break  # the next claim continues here
            self._start(tx, search, taken)
            if len(taken.found) == search.limit:
                return taken, None
            next_at, set_apart = self._outlook(tx, search)
            if set_apart and self._unpark(tx, search):
                continue
            if next_at is None or next_at > search.now or not self._park_unknown(tx, search, parked):
                break  # nothing is due, or other claims have locked it
        return taken, next_at

    def _start(self, tx: Tx, search: _ClaimSearch, taken: _ClaimedRows) -> _ClaimedRows:
        """Claim the first rows of known tasks."""
        now, queues, tasks = search.now, list(search.queues), list(search.tasks)
        room = search.limit - len(taken.found)
        if self._database.dialect.kind is DatabaseKind.POSTGRES:
            taken.found += tx.rows(
                "claim", worker=search.worker, now=now, limit=room, tasks=tasks, every_queue=not queues,
                queues=queues, at_least=search.at_least,
            )  # fmt: skip
            return taken
        all_known = self._fast_path and self._knows_all  # read once: definitions omitted now must be found below
        found = tx.rows(
            "claim_of_known" if all_known else "claim",
            [(name,) for name in queues],
            tasks=tasks,
            now=now,
            limit=room,
        )
        if found:
            tx.run("start", ids=[row[0] for row in found], worker=search.worker, now=search.now)
        if all_known:
            known, missing = self._definitions.looked_up({row[JOB_ID]: row[VERSION] for row in found})
            taken.known |= known
            if missing:
                self._knows_all = False
                taken.known |= self._definitions.read(tx.rows("definitions", ids=missing))
        taken.found += found
        return taken

    def _park_unknown(self, tx: Tx, search: _ClaimSearch, parked: Counter[str]) -> int:
        """Set apart the first rows of unknown tasks; return their number."""
        queues, look = [(name,) for name in search.queues], MOST_UNKNOWN - parked.total()
        found = tx.rows("park_unknown", queues, now=search.now, tasks=list(search.tasks), limit=look)
        parked.update(task for (task,) in found)
        return len(found)

    def _unpark_at_intervals(self, tx: Tx, search: _ClaimSearch) -> None:
        """Unpark rows at intervals even on a busy worker: parked rows may be more urgent."""
        if self._is_time_to_unpark(search):
            self._unparked = search.worker, search.now
            self._unpark(tx, search)

    def _is_time_to_unpark(self, search: _ClaimSearch) -> bool:
        worker, at = self._unparked or (None, search.now)
        return worker != search.worker or not timedelta(0) <= search.now - at < UNPARKING

    def _unpark(self, tx: Tx, search: _ClaimSearch) -> int:
        if not search.tasks:
            return 0
        return tx.run("unpark", tasks=list(search.tasks), queues=list(search.queues), limit=search.limit)

    def _outlook(self, tx: Tx, search: _ClaimSearch) -> tuple[datetime | None, bool]:
        """Return the time of the next execution, and whether rows of known tasks are parked."""
        queues, tasks = list(search.queues), list(search.tasks)
        ((at, set_apart),) = tx.rows("outlook", tasks=tasks, queues=queues, every_queue=not queues)
        return None if at is None else from_micros(at), bool(set_apart)

    def _ready(self, taken: _ClaimedRows, search: _ClaimSearch) -> tuple[Claimed, ...]:
        """Return the executions to start, with their definitions; defer those whose definition cannot be read.

        This runs after the transaction, so that no writer waits for it: SQLite has only one.
        """
        claimed, unreadable = self._read(taken, search)
        if not unreadable and not any(each.live.step for each in claimed):
            return tuple(claimed)
        with self._database.write() as tx:
            ready = self._with_steps(tx, claimed, search.now)
            kept = {each.live.id for each in ready}
            left = [*unreadable, *(to_bytes(each.live.id) for each in claimed if each.live.id not in kept)]
            if left:
                tx.run("put_off", ids=left, worker=search.worker, until=search.now + UNREADABLE)
            return tuple(ready)

    def _read(self, taken: _ClaimedRows, search: _ClaimSearch) -> tuple[Sequence[Claimed], Sequence[bytes]]:
        """Return the claimed executions in their order, and the ids of those whose definition cannot be read."""
        found = self._defined(taken)
        unreadable = [row[0] for row in taken.found if row[JOB_ID] not in found]
        # On PostgreSQL no execution starts before it was queued (see `claim`): clocks of two hosts differ a little.
        latest = to_micros(search.now) if self._database.elsewhere else LAST_TIME
        claimed = [
            Claimed(
                rows.STARTED.of(
                    row[:WIDTH],
                    None,
                    search.worker,
                    search.now if row[QUEUED_AT] <= latest else from_micros(row[QUEUED_AT]),
                    None,
                ),
                found[row[JOB_ID]],
            )
            for row in sorted(taken.found, key=IN_ORDER)
            if row[JOB_ID] in found
        ]
        return claimed, unreadable

    def _defined(self, taken: _ClaimedRows) -> dict[bytes, Definition]:
        brought = [row for row in taken.found if len(row) > WIDTH]
        if not brought:
            return taken.known
        versions = {row[JOB_ID]: row[VERSION] for row in brought}
        known, missing = self._definitions.looked_up(versions)
        self._knows_all = not missing
        if missing:
            at_hand = {row[JOB_ID]: row[WIDTH:DEFINED] for row in brought}
            known |= self._definitions.read([at_hand[job_id] for job_id in missing])
        return taken.known | known

    def _with_steps(self, tx: Tx, claimed: Sequence[Claimed], now: datetime) -> list[Claimed]:
        """Return the executions, steps with policies of their own; leave out steps whose rules are missing here."""
        steps = [each.live for each in claimed if each.live.step]
        found = {each.live.job_id: each.definition for each in claimed}
        own = self._steps.definitions(tx, steps, found, now) if steps else {}
        chosen = ((each.live, own.get(each.live.id, each.definition)) for each in claimed)
        return [Claimed(live, definition) for live, definition in chosen if definition is not None]

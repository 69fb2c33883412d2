"""Claiming: a worker takes and starts what may start now.

A claim waits for nobody but an operator who is just pausing a queue, or a sweeper who is just closing this worker;
rows that another claim has locked are passed over. What nobody here knows is set apart, never failed (G12).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Final
from uuid import UUID

from ostinato.core.model import Claimed, Live
from ostinato.store import rows
from ostinato.store.database import Tx
from ostinato.store.dialect import from_micros, to_bytes
from ostinato.store.locking import Duty

ROUNDS: Final = 20  # how often a claim looks again
STRANGERS: Final = 300  # rows of tasks that nobody here knows that one claim sets apart: a few milliseconds' worth
UNREADABLE: Final = timedelta(
    minutes=1
)  # an execution whose definition cannot be read here is put off by this
UNPARKING: Final = timedelta(
    seconds=1
)  # a worker that is never idle looks this often for what others set apart


@dataclass(frozen=True, slots=True)
class Claim:
    """What a worker got, and when there may be more."""

    claimed: tuple[Claimed, ...] = ()
    parked: Mapping[str, int] | None = None  # tasks that nobody here knows → rows set apart
    next_at: datetime | None = None  # asked for only when less was there than wanted; past: look again soon


@dataclass(frozen=True, slots=True)
class Search:
    """Who looks for what, where."""

    worker: UUID
    tasks: Sequence[str]
    queues: Sequence[str]
    now: datetime
    limit: int


class Claiming(Duty):
    """What a worker asks of the queue before it runs anything."""

    _unparked: tuple[UUID, datetime] | None = None

    def claim(
        self, worker: UUID, tasks: Sequence[str], queues: Sequence[str], now: datetime, limit: int
    ) -> Claim:
        """Take and start up to `limit` executions. A worker that was closed takes nothing."""
        with self._database.write() as tx:
            if tx.row("working", id=worker) is None:
                return Claim()
            served = self._open_queues(tx, queues)
            if not served:
                return Claim()
            search = Search(worker, tasks, list(served), now, limit)
            taken, parked = self._take(tx, search)
            next_at = None if len(taken) == limit else self._next_startable(tx, search)
            claimed = self._with_definitions(tx, taken, now)
            if any(served[live.queue] is not None for live in taken):
                tx.ring()  # the schedule may fire into a bounded queue again
        return Claim(claimed, parked or None, next_at)

    def parked(self) -> list[tuple[str, int, datetime]]:
        """Tasks that nobody could run: name, how many wait, since when."""
        with self._database.read() as tx:
            return [(task, count, from_micros(since)) for task, count, since in tx.rows("parked_tasks")]

    # -- within

    def _open_queues(self, tx: Tx, wanted: Sequence[str]) -> dict[str, int | None]:
        """The queues to serve, with their bounds."""
        return {name: most for name, most in tx.rows("open_queues") if not wanted or name in wanted}

    def _take(self, tx: Tx, search: Search) -> tuple[list[Live], dict[str, int]]:
        known, parked, taken = frozenset(search.tasks), dict[str, int](), list[Live]()
        self._unpark_now_and_then(tx, search)
        for _ in range(ROUNDS):
            room = search.limit - len(taken)
            look = max(STRANGERS - sum(parked.values()), room) if parked else room
            found = tx.rows("startable", [(name,) for name in search.queues], now=search.now, limit=look)
            good = self._keep_known(tx, found, known, parked)[:room]
            if good:
                taken += self._start(tx, good, search)
            if len(taken) == search.limit or (len(found) < look and not self._unpark(tx, search)):
                break
            if sum(parked.values()) >= STRANGERS:
                break  # the next claim goes on from here
        return sorted(taken, key=attrgetter("priority", "run_at")), parked

    def _start(self, tx: Tx, ids: Sequence[bytes], search: Search) -> list[Live]:
        started = tx.rows("claim", ids=ids, worker=search.worker, now=search.now)
        return [rows.STARTED.of(row, None, search.worker, search.now, None) for row in started]

    def _keep_known(
        self, tx: Tx, found: Sequence[rows.Row], known: frozenset[str], parked: dict[str, int]
    ) -> list[bytes]:
        strange = [row for row in found if row[1] not in known]
        if strange:
            tx.run("park", ids=[live_id for live_id, _ in strange])
            for _, task in strange:
                parked[task] = parked.get(task, 0) + 1
        return [live_id for live_id, task in found if task in known]

    def _unpark_now_and_then(self, tx: Tx, search: Search) -> None:
        """Also when there is always enough to do: what others set apart may be more urgent."""
        worker, at = self._unparked or (None, search.now)
        if worker != search.worker or not timedelta(0) <= search.now - at < UNPARKING:
            self._unparked = search.worker, search.now
            self._unpark(tx, search)

    def _unpark(self, tx: Tx, search: Search) -> int:
        if not search.tasks:
            return 0
        return tx.run("unpark", tasks=list(search.tasks), queues=list(search.queues), limit=search.limit)

    def _next_startable(self, tx: Tx, search: Search) -> datetime | None:
        row = tx.row("next_startable", [(name,) for name in search.queues])
        return None if row is None or row[0] is None else from_micros(row[0])

    def _with_definitions(self, tx: Tx, lives: Sequence[Live], now: datetime) -> tuple[Claimed, ...]:
        jobs = [to_bytes(live.job_id) for live in lives]
        versions = {job_id: live.version or 0 for job_id, live in zip(jobs, lives, strict=True)}
        found = self._definitions.of(tx, versions) if lives else {}
        unreadable = [live.id for job_id, live in zip(jobs, lives, strict=True) if job_id not in found]
        if unreadable:
            tx.run("put_off", ids=unreadable, until=now + UNREADABLE)
        with_theirs = zip(lives, map(found.get, jobs), strict=True)
        return tuple(Claimed(live, definition) for live, definition in with_theirs if definition is not None)

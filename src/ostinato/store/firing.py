"""Firing: a due job, or one that follows another, becomes a queued execution and gets its next time.

A job that cannot be fired never stops the others: it is set aside for a minute, with its due time unchanged, and then
tried again.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from ostinato.core.errors import RowRefused, StoreError
from ostinato.core.lifecycle import Dealt, fire, follow, rewind
from ostinato.core.lifecycle.fast_path import fire_plainly
from ostinato.core.model import FIRST_ID, Change, Facts, Job, Live, Skip
from ostinato.core.times import CLOCKS_AGREE
from ostinato.store import locking, rows
from ostinato.store.database import Tx
from ostinato.store.fast_path import save_fired
from ostinato.store.locking import Lives, QueueDuty
from ostinato.store.rows import from_micros, to_uuid

log = logging.getLogger("ostinato.store")

SET_ASIDE: Final = timedelta(minutes=1)
REWOUND: Final = 200  # jobs whose next time is computed again in one transaction

Found = list[tuple[UUID, Facts]]


class Firing(QueueDuty):
    """Firing: the dispatcher turns due times into executions."""

    def fire_due(self, clock: Callable[[], datetime], ahead: timedelta, limit: int) -> list[Change]:
        """Lock the due jobs, fire each, and save the results. The clock is read under the lock."""
        try:
            return self._fire_found(lambda tx, now: self._lock_due(tx, now, ahead, limit), clock, ahead)
        except RowRefused:
            return self._fire_one_by_one(clock, ahead, limit)  # a bad row must not fail the batch

    def time_has_come(self, now: datetime, limit: int) -> int:
        """Admit executions that waited for a time."""
        with self._database.write() as tx:
            count = tx.run("time_has_come", now=now, limit=limit)
            if count:
                tx.notify()
        return count

    def bounded(self) -> frozenset[str]:
        """List the queues that have a bound: the first run of a new job waits for a place in them."""
        with self._database.read() as tx:
            return frozenset(name for name, *_ in tx.rows("bounded_queues"))

    def next_wake(self) -> datetime | None:
        """Return the next time with a job to fire or to admit. A past time means: rows were locked, look again."""
        with self._database.read() as tx:
            full = [name for name, most, startable in tx.rows("bounded_queues") if startable >= most]
            times = [tx.row("next_due", full=full), tx.row("next_waiting")]
        return min((from_micros(row[0]) for row in times if row and row[0] is not None), default=None)

    def rewind(self, now: datetime) -> int:
        """Compute again the next times computed by a clock that was ahead of this one."""
        ahead = now + CLOCKS_AGREE
        return self._rewind_all(
            now, lambda tx, after: tx.rows("lock_wrong_clock", now=ahead, after=after, limit=REWOUND)
        )

    def rezone(self, now: datetime) -> int:
        """Compute again the next times of all cron jobs: the zone data has changed."""
        return self._rewind_all(now, lambda tx, after: tx.rows("lock_zoned", after=after, limit=REWOUND))

    # -- fire

    def _lock_due(self, tx: Tx, now: datetime, ahead: timedelta, limit: int) -> Found:
        bounded = [name for (name,) in tx.rows("lock_bounded")]
        held_back = self._lock_due_in_bounded(tx, now, limit) if bounded else []
        due = tx.rows("lock_due", now=now, horizon=now + ahead, limit=limit, bounded=bounded)
        return [rows.facts_of(row) for row in (*held_back, *due)]

    def _lock_due_in_bounded(self, tx: Tx, now: datetime, limit: int) -> list[rows.Row]:
        found: list[rows.Row] = []
        for name, most, startable in tx.rows("bounded_queues"):
            room = min(most - startable, limit)
            if room > 0:
                found += tx.rows("lock_due_in", queue=name, now=now, limit=room)
        return found

    def _fire_found(
        self, find: Callable[[Tx, datetime], Found], clock: Callable[[], datetime], ahead: timedelta
    ) -> list[Change]:
        with self._database.write() as tx:
            now = clock()
            found = find(tx, now)
            if not found:
                return []
            before = dict(found)
            jobs = locking.with_definitions(tx, self._definitions, before)
            lives = locking.lives_of(tx, sorted(jobs))
            ready = [job for job in jobs.values() if _ready(job, lives[job.id], now, ahead)]
            plain = dict[UUID, Change]()

            def decide(job: Job, own: Sequence[Live]) -> Change:
                if self._fast_path and not own and (change := fire_plainly(job, now, self._chance)) is not None:
                    plain[job.id] = change
                    return change
                return self._fire(tx, job, own, now)

            decided, failed = _each(ready, lives, decide)
            changes = [each for each in decided if each.job.id in plain or each.job.facts != before[each.job.id]]
            save_fired(tx, list(plain.values()), now)
            locking.save(tx, [each for each in changes if each.job.id not in plain], before)
            self._writers.write(tx, changes)
            self._set_aside(tx, [*failed, *(job_id for job_id, _ in found if job_id not in jobs)], now)
            if any(change.add for change in changes):
                tx.notify()
        return changes

    def _fire_one_by_one(self, clock: Callable[[], datetime], ahead: timedelta, limit: int) -> list[Change]:
        with self._database.write() as tx:
            ids = [job_id for job_id, _ in self._lock_due(tx, clock(), ahead, limit)]
        changes: list[Change] = []
        for job_id in ids:
            try:
                changes += self._fire_found(lambda tx, _, one=job_id: lock_one(tx, one), clock, ahead)  # type: ignore[misc]
            except RowRefused as error:
                log.error("Job set aside, since its execution cannot be saved: job_id=%s error=%s", job_id, error)
                with self._database.write() as tx:
                    self._set_aside(tx, [job_id], clock())
        return changes

    def _set_aside(self, tx: Tx, ids: Sequence[UUID], now: datetime) -> None:
        if ids:
            tx.run("set_aside", ids=list(ids), until=now + SET_ASIDE)

    def _fire(self, tx: Tx, job: Job, lives: Sequence[Live], now: datetime) -> Change:
        due, dealt, last = job.facts.next_due_at, Dealt(), None
        if due is not None and job.facts.last_due_at is not None and due <= job.facts.last_due_at:
            dealt = self._dealt(tx, job.id, due, max(due, now))
        if job.facts.reset_at is not None:
            last = locking.last_failure(tx, job)
        return fire(job, lives, now, self._chance, dealt, last)

    def _dealt(self, tx: Tx, job_id: UUID, since: datetime, until: datetime) -> Dealt:
        found = tx.rows("dealt_times", job=job_id, since=since, until=until)
        times = frozenset(from_micros(due) for (due,) in found)
        ranges = tuple((s.first_due_at, s.last_due_at) for s in self._skips_since(tx, job_id, since))
        return Dealt(times, ranges)

    def _skips_since(self, tx: Tx, job_id: UUID, since: datetime) -> list[Skip]:
        return [rows.SKIP.of(row) for row in tx.rows("dealt_ranges", job=job_id, since=since)]

    # -- rewind

    def _rewind_all(self, now: datetime, locked: Callable[[Tx, UUID], Sequence[rows.Row]]) -> int:
        after, count = FIRST_ID, 0
        while True:
            with self._database.write() as tx:
                found = [rows.facts_of(row) for row in locked(tx, after)]
                jobs = locking.with_definitions(tx, self._definitions, dict(found))
                lives = locking.lives_of(tx, sorted(jobs)) if jobs else {}
                changes, _ = _each(jobs.values(), lives, lambda job, own: self._rewind(tx, job, own, now))
                locking.save(tx, changes)
                if changes:
                    tx.notify()
            if not found:
                return count
            after, count = found[-1][0], count + len(changes)

    def _rewind(self, tx: Tx, job: Job, lives: Sequence[Live], now: datetime) -> Change:
        return rewind(job, lives, now, self._chance, self._skips_since(tx, job.id, now))


def _each(
    jobs: Iterable[Job], lives: Lives, rule: Callable[[Job, Sequence[Live]], Change]
) -> tuple[list[Change], list[UUID]]:
    """Apply a rule to each job; return the changes, and the jobs for which the rule failed."""
    changes: list[Change] = []
    failed: list[UUID] = []
    for job in jobs:
        try:
            changes.append(rule(job, lives[job.id]))
        except StoreError:
            raise
        except Exception:
            log.exception("Job set aside, since its rule failed: job_id=%s", job.id)
            failed.append(job.id)
    return changes, failed


def _ready(job: Job, lives: Sequence[Live], now: datetime, ahead: timedelta) -> bool:
    """Return True if a locked job is still due; overlap is decided at the due time, not ahead of it."""
    due = job.facts.next_due_at
    return due is not None and (due <= now or (due <= now + ahead and not lives))


def lock_one(tx: Tx, job_id: UUID) -> Found:
    """Lock one job and return its facts."""
    return [rows.facts_of(row) for row in tx.rows("lock_facts", ids=[job_id])]


# -- Following: a job runs because another has completed.
#
# The settle of the other job raises its counter in its own transaction. That serves as the note: once per completion,
# safe across crashes, and free for jobs without followers. Here the counter is compared with the follower's position.
# Each missing completion starts a run, in one transaction with the position: exactly once. No transaction locks two
# jobs
# at once, so the order of locks is kept.

BATCH: Final = 100
NOBODY: Final[Mapping[UUID, UUID]] = {}


@dataclass(frozen=True, slots=True)
class _Followed:
    """The executions that were started, and whether any job follows another."""

    changes: tuple[Change, ...] = ()
    any: bool = False


class Following(QueueDuty):
    """Following: the dispatcher starts jobs that run after others."""

    def follow(self, now: datetime) -> _Followed:
        """Start jobs whose other job has completed, once per completion, as soon as they have room."""
        with self._database.read() as tx:
            if not tx.rows("dependencies_there")[0][0]:
                return _Followed()
            ids = [to_uuid(job_id) for (job_id,) in tx.rows("to_follow", limit=BATCH)]
        changes = [change for job_id in ids if (change := self._follow(job_id, now)) is not None]
        return _Followed(tuple(changes), any=True)

    def _follow(self, job_id: UUID, now: datetime) -> Change | None:
        with self._database.write() as tx:
            job = locking.locked_jobs(tx, self._definitions, [job_id]).get(job_id)
            if job is None:
                return None
            change = follow(job, locking.lives_of(tx, [job_id])[job_id], now, self._chance)
            if change is None or not tx.run("followed", id=job_id):
                return None
            locking.save(tx, [change])
            self._writers.write(tx, [change])
            tx.notify()
        return change


def come_after(tx: Tx, after: Mapping[UUID, UUID]) -> None:
    """Set which jobs these jobs follow."""
    tx.run("delete_dependencies_of", ids=list(after))
    tx.run("insert_dependencies", [*after.items()])
    tx.notify()


def chain(tx: Tx, job_id: UUID, most: int = 1000) -> list[UUID]:
    """List a job, the job that it runs after, and so on."""
    found = [job_id]
    while len(found) < most and (row := tx.row("dependencies_of", ids=[found[-1]])) is not None:
        found.append(to_uuid(row[1]))
    return found

"""The run queue: what is due is fired into it, workers claim from it, and what they did is settled out of it."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from ostinato.core.errors import StoreError, StoreUnavailable
from ostinato.core.lifecycle import Dealt, fire, rewind, settle
from ostinato.core.model import Change, Claimed, Event, Execution, Facts, Finished, Job, Live, Luck, Skip
from ostinato.core.outcome import Deferred, Interrupted
from ostinato.store import locking, rows
from ostinato.store.database import Database, Tx
from ostinato.store.dialect import from_micros, to_uuid
from ostinato.store.locking import Definitions, Lives

log = logging.getLogger("ostinato.store")

SET_ASIDE: Final = timedelta(minutes=1)  # a job that a rule cannot deal with is looked at again after this
ROUNDS: Final = 20  # how often a claim looks again because nobody here knew the tasks it found
STRANGERS: Final = 500  # how many it then looks at each time
REWOUND: Final = 200  # jobs whose next time one transaction computes anew
FIRST_ID: Final = UUID(int=0)


@dataclass(frozen=True, slots=True)
class Claim:
    """What a worker got, and when there may be more."""

    claimed: tuple[Claimed, ...] = ()
    parked: Mapping[str, int] | None = None  # tasks that nobody here knows → rows set apart
    next_at: datetime | None = None  # asked for only when less was there than wanted


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of a batch of finished executions."""

    changes: tuple[Change, ...] = ()
    refused: tuple[Finished, ...] = ()  # their fence was stale: somebody else has them, or had them ended


@dataclass(frozen=True, slots=True)
class Mark:
    """What others have decided about a running execution."""

    fence: int
    cancel_asked_at: datetime | None
    cancel_by: str


class Queue:
    """The table of what is now."""

    def __init__(self, database: Database, definitions: Definitions, luck: Luck) -> None:
        self._database = database
        self._definitions = definitions
        self._luck = luck

    # -- fire

    def fire_due(self, now: datetime, ahead: timedelta, limit: int) -> list[Change]:
        """Lock the jobs that are due, fire each, and save what came of it."""
        with self._database.write() as tx:
            found = [
                rows.facts_of(row) for row in tx.rows("lock_due", now=now, horizon=now + ahead, limit=limit)
            ]
            found += self._due_in_bounded_queues(tx, now, limit)
            jobs = locking.with_definitions(tx, self._definitions, found)
            lives = locking.lives_of(tx, sorted(jobs)) if jobs else {}
            changes = self._each(jobs.values(), lives, lambda job, own: self._fire(tx, job, own, now), now)
            changes += [_set_aside(job_id, now) for job_id, _ in found if job_id not in jobs]
            self._save(tx, changes)
        return [change for change in changes if isinstance(change, Change)]

    def time_has_come(self, now: datetime, limit: int) -> int:
        """Let in what waited for a time."""
        with self._database.write() as tx:
            count = tx.run("time_has_come", now=now, limit=limit)
            if count:
                tx.ring()
        return count

    def next_wake(self) -> datetime | None:
        """When there is something to fire, or to let in."""
        with self._database.read() as tx:
            due, waiting = tx.row("next_due"), tx.row("next_waiting")
        times = [from_micros(row[0]) for row in (due, waiting) if row is not None and row[0] is not None]
        return min(times, default=None)

    def rewind(self, now: datetime) -> int:
        """Compute anew the next times that were named by a clock ahead of this one."""
        return self._rewind_all(
            now, lambda tx, after: tx.rows("lock_wrong_clock", now=now, after=after, limit=REWOUND)
        )

    def rezone(self, now: datetime) -> int:
        """Compute anew the next times of all cron jobs: the zone data has changed."""
        return self._rewind_all(now, lambda tx, after: tx.rows("lock_zoned", after=after, limit=REWOUND))

    def _rewind_all(self, now: datetime, locked: Callable[[Tx, UUID], Sequence[rows.Row]]) -> int:
        after, count = FIRST_ID, 0
        while True:
            with self._database.write() as tx:
                found = [rows.facts_of(row) for row in locked(tx, after)]
                jobs = locking.with_definitions(tx, self._definitions, found)
                lives = locking.lives_of(tx, sorted(jobs)) if jobs else {}
                locking.save(tx, [self._rewind(tx, job, lives[job.id], now) for job in jobs.values()])
            if not found:
                return count
            after, count = found[-1][0], count + len(jobs)

    def _rewind(self, tx: Tx, job: Job, lives: Sequence[Live], now: datetime) -> Change:
        return rewind(job, lives, now, self._luck, self._skips_since(tx, job.id, now))

    def _due_in_bounded_queues(self, tx: Tx, now: datetime, limit: int) -> list[tuple[UUID, Facts]]:
        found = []
        for name, most, startable in tx.rows("bounded_queues", now=now):
            room = min(most - startable, limit)
            if room > 0:
                found += [
                    rows.facts_of(row) for row in tx.rows("lock_due_in", queue=name, now=now, limit=room)
                ]
        return found

    def _fire(self, tx: Tx, job: Job, lives: Sequence[Live], now: datetime) -> Change:
        due, dealt, last = job.facts.next_due_at, Dealt(), None
        if due is not None and job.facts.last_due_at is not None and due <= job.facts.last_due_at:
            dealt = self._dealt(tx, job.id, due)
        if job.facts.reset_at is not None:
            last = self._last(tx, job.id)
        return fire(job, lives, now, self._luck, dealt, last)

    def _dealt(self, tx: Tx, job_id: UUID, since: datetime) -> Dealt:
        times = frozenset(from_micros(due) for (due,) in tx.rows("dealt_times", job=job_id, since=since))
        ranges = tuple((s.first_due_at, s.last_due_at) for s in self._skips_since(tx, job_id, since))
        return Dealt(times, ranges)

    def _skips_since(self, tx: Tx, job_id: UUID, since: datetime) -> list[Skip]:
        return [rows.SKIP.of(row) for row in tx.rows("dealt_ranges", job=job_id, since=since)]

    def _last(self, tx: Tx, job_id: UUID) -> Execution | None:
        row = tx.row("last_executions", ids=[job_id])
        return None if row is None else rows.EXECUTION.of(row)

    # -- claim

    def claim(
        self, worker: UUID, tasks: Sequence[str], queues: Sequence[str], now: datetime, limit: int
    ) -> Claim:
        """Take and start up to `limit` executions. What nobody here knows is set apart, never failed (G12)."""
        known, parked, taken = frozenset(tasks), dict[str, int](), list[Live]()
        with self._database.write() as tx:
            served = self._open_queues(tx, queues)
            for _ in range(ROUNDS if served else 0):
                look = limit - len(taken) if not parked else STRANGERS
                found = tx.rows("startable", [(name,) for name in served], now=now, limit=look)
                good = self._keep_known(tx, found, known, parked)[: limit - len(taken)]
                if good:
                    taken += [rows.LIVE.of(row) for row in tx.rows("claim", ids=good, worker=worker, now=now)]
                if len(taken) == limit or (len(found) < look and not self._unpark(tx, tasks, served, limit)):
                    break
            next_at = None if len(taken) == limit else self._next_startable(tx, served, now)
            claimed = self._with_definitions(tx, taken)
        return Claim(claimed, parked or None, next_at)

    def _open_queues(self, tx: Tx, wanted: Sequence[str]) -> list[str]:
        names = [name for (name,) in tx.rows("open_queues")]
        return [name for name in names if not wanted or name in wanted]

    def _keep_known(
        self, tx: Tx, found: Sequence[rows.Row], known: frozenset[str], parked: dict[str, int]
    ) -> list[UUID]:
        strange = [(to_uuid(row[0]), row[1]) for row in found if row[1] not in known]
        if strange:
            tx.run("park", ids=[live_id for live_id, _ in strange])
            for _, task in strange:
                parked[task] = parked.get(task, 0) + 1
        return [to_uuid(row[0]) for row in found if row[1] in known]

    def _unpark(self, tx: Tx, tasks: Sequence[str], queues: Sequence[str], limit: int) -> int:
        if not tasks or not queues:
            return 0
        return tx.run("unpark", tasks=list(tasks), queues=list(queues), limit=limit)

    def _next_startable(self, tx: Tx, queues: Sequence[str], now: datetime) -> datetime | None:
        row = tx.row("next_startable", queues=list(queues), now=now) if queues else None
        return None if row is None or row[0] is None else from_micros(row[0])

    def _with_definitions(self, tx: Tx, lives: Sequence[Live]) -> tuple[Claimed, ...]:
        versions = {live.job_id: live.version or 0 for live in lives}
        found = self._definitions.of(tx, versions) if lives else {}
        return tuple(Claimed(live, found[live.job_id]) for live in lives if live.job_id in found)

    # -- settle

    def settle(self, finished: Sequence[Finished]) -> Settled:
        """End executions with their outcomes, all in one transaction; a stale fence is refused.

        Safe to repeat: what an earlier call has settled, though its answer was lost, is not settled twice.
        """
        try:
            return self._settle(finished)
        except StoreUnavailable:
            raise
        except StoreError as error:
            if len(finished) == 1:
                log.error("An execution cannot be settled: execution=%s error=%s", finished[0].live.id, error)
                return Settled()
            middle = len(finished) // 2  # one bad row never fails a batch
            first, second = self.settle(finished[:middle]), self.settle(finished[middle:])
            return Settled(first.changes + second.changes, first.refused + second.refused)

    def _settle(self, finished: Sequence[Finished]) -> Settled:
        with self._database.write() as tx:
            changes, stale = self.settle_in(tx, finished)
            refused = self._truly_refused(tx, stale)
            if refused:
                tx.run("insert_events", [rows.EVENT.row(self._refusal(each)) for each in refused])
        return Settled(tuple(changes), tuple(refused))

    def settle_in(self, tx: Tx, finished: Sequence[Finished]) -> tuple[list[Change], list[Finished]]:
        """The heart of settle, for a transaction that is open already: what was saved, and what was stale."""
        jobs = locking.locked_jobs(tx, self._definitions, {each.live.job_id for each in finished})
        lives = locking.lives_of(tx, sorted(jobs)) if jobs else {}
        changes: list[Change] = []
        stale: list[Finished] = []
        for each in finished:
            job = jobs.get(each.live.job_id)
            current = _still_held(lives, each)
            if job is None or current is None:
                stale.append(each)
                continue
            change = settle(job, lives[job.id], current, each.outcome, each.at, self._luck)
            changes.append(change)
            jobs[job.id], lives[job.id] = change.job, _after(lives[job.id], change)
        self._save(tx, _one_per_job(changes))
        return changes, stale

    def _truly_refused(self, tx: Tx, stale: Sequence[Finished]) -> list[Finished]:
        """Not those that an earlier call has settled, nor what was only handed back."""
        asked = [each for each in stale if not isinstance(each.outcome, Interrupted | Deferred)]
        if not asked:
            return []
        settled = {
            to_uuid(row[0]): row[1] for row in tx.rows("already_settled", ids=[e.live.id for e in asked])
        }
        return [each for each in asked if settled.get(each.live.id) != each.live.fence]

    def _refusal(self, each: Finished) -> Event:
        live = each.live
        return Event(
            self._luck.id(each.at), each.at, "result.refused", live.job_id, live.id, live.worker_id,
            data=f'{{"outcome": "{type(each.outcome).__name__}", "fence": {live.fence}}}',
        )  # fmt: skip

    # -- while it runs

    def marks(self, ids: Sequence[UUID]) -> dict[UUID, Mark]:
        """What others have decided about running executions. One that is missing has been taken away."""
        with self._database.read() as tx:
            found = tx.rows("marks", ids=list(ids))
        return {
            to_uuid(live_id): Mark(fence, None if asked is None else from_micros(asked), by)
            for live_id, fence, asked, by in found
        }

    def save_progress(self, progress: Sequence[tuple[UUID, int, str]]) -> None:
        """How far runs are: (execution, fence, JSON)."""
        with self._database.write() as tx:
            tx.run("save_progress", list(progress))

    def save_checkpoint(self, execution_id: UUID, fence: int, checkpoint: str) -> bool:
        """Where a run can go on from; False when the fence is stale."""
        with self._database.write() as tx:
            return tx.run("save_checkpoint", id=execution_id, fence=fence, checkpoint=checkpoint) == 1

    def parked(self) -> list[tuple[str, int, datetime]]:
        """Tasks that nobody could run: name, how many wait, since when."""
        with self._database.read() as tx:
            return [(task, count, from_micros(since)) for task, count, since in tx.rows("parked_tasks")]

    # -- within

    def _each(
        self, jobs: Iterable[Job], lives: Lives, rule: Callable[[Job, Sequence[Live]], Change], now: datetime
    ) -> list["Change | SetAside"]:
        """Apply a rule to each job. One that it cannot deal with is set aside; the others go on."""
        changes: list[Change | SetAside] = []
        for job in jobs:
            try:
                changes.append(rule(job, lives[job.id]))
            except StoreError:
                raise
            except Exception:
                log.exception("A job cannot be fired and is set aside: job_id=%s", job.id)
                changes.append(_set_aside(job.id, now))
        return changes

    def _save(self, tx: Tx, changes: Sequence["Change | SetAside"]) -> None:
        good = [change for change in changes if isinstance(change, Change)]
        locking.save(tx, good)
        aside = [(change.job_id, change.until) for change in changes if isinstance(change, SetAside)]
        if aside:
            tx.run("set_aside", aside)
        if any(change.add for change in good):
            tx.ring()


@dataclass(frozen=True, slots=True)
class SetAside:
    """A job that could not be dealt with, and when to try again."""

    job_id: UUID
    until: datetime


def _set_aside(job_id: UUID, now: datetime) -> SetAside:
    return SetAside(job_id, now + SET_ASIDE)


def _still_held(lives: Lives, each: Finished) -> Live | None:
    """The live row, if the worker that finished it still holds it: the fence."""
    for live in lives.get(each.live.job_id, ()):
        if live.id == each.live.id:
            return live if live.fence == each.live.fence and live.worker_id is not None else None
    return None


def _after(lives: Sequence[Live], change: Change) -> list[Live]:
    """The live rows of a job after a change, for the next one of the same batch."""
    gone = {*change.drop, *(live.id for live in change.alter)}
    return [live for live in lives if live.id not in gone] + [*change.alter, *change.add]


def _one_per_job(changes: Sequence[Change]) -> list[Change]:
    """Several changes of one job in one batch, as one."""
    merged: dict[UUID, Change] = {}
    for change in changes:
        before = merged.get(change.job.id)
        merged[change.job.id] = change if before is None else _merge(before, change)
    return list(merged.values())


def _merge(first: Change, second: Change) -> Change:
    """What the second added to the first; a row that the first added and the second changed is added changed."""
    altered = {live.id: live for live in second.alter}
    gone = set(second.drop)
    added = [altered.pop(live.id, live) for live in first.add if live.id not in gone]
    kept = [live for live in first.alter if live.id not in altered and live.id not in gone]
    never = {live.id for live in first.add}
    return replace(
        second,
        add=(*added, *second.add),
        alter=(*kept, *altered.values()),
        drop=(*first.drop, *(live_id for live_id in second.drop if live_id not in never)),
        ended=first.ended + second.ended,
        skips=first.skips + second.skips,
        events=first.events + second.events,
        rewritten=first.rewritten + second.rewritten,
    )

"""Settling: executions end with their outcomes, many in one transaction, each under its fence.

The fence is a number that rises with each claim and release. A run with an older fence was declared lost or was
released: its result is refused and counted, and changes nothing.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final
from uuid import UUID

from ostinato.core.errors import RowRefused, StoreError
from ostinato.core.lifecycle import settle, time_out_run
from ostinato.core.model import Change, Event, Facts, Finished, Job, Live
from ostinato.core.outcome import (
    Begun,
    Cancelled,
    Completed,
    Deferred,
    Error,
    Failed,
    TimedOut,
    without_value,
)
from ostinato.store import locking, rows
from ostinato.store.database import Duplicate, Tx
from ostinato.store.fast_path import EXPECTING, EXPECTS_NOTHING, Expected, expected_of, settle_plainly
from ostinato.store.locking import Lives, QueueDuty
from ostinato.store.rows import from_micros, to_uuid

log = logging.getLogger("ostinato.store")

MOST_RUNS: Final = 10_000  # with steps, checked in one call

# Errors caused by a row: from the database, or from a driver that cannot convert a value.
# Outcomes that a task can have and that history stores.
RECORDED: Final = (Completed, Failed, TimedOut, Cancelled)
UNFIT: Final = (RowRefused, ValueError, OverflowError)


@dataclass(frozen=True, slots=True)
class Settled:
    """The result of settling a batch of finished executions."""

    changes: tuple[Change, ...] = ()
    plain: tuple[Finished, ...] = ()  # settled too: plain successes, which need no report
    refused: tuple[Finished, ...] = ()  # their fence was stale: another worker has them, or they have ended
    left: tuple[Finished, ...] = ()  # not settled here, and still under their worker

    def __add__(self, other: "Settled") -> "Settled":
        return Settled(
            self.changes + other.changes,
            self.plain + other.plain,
            self.refused + other.refused,
            self.left + other.left,
        )


@dataclass(frozen=True, slots=True)
class Mark:
    """The state of a running execution as others changed it: its fence, and a cancel request."""

    fence: int
    cancel_asked_at: datetime | None
    cancel_by: str


class Settling(QueueDuty):
    """Settles: a worker ends executions, and saves their progress before."""

    def settle(self, finished: Sequence[Finished]) -> Settled:
        """End executions with their outcomes, all in one transaction; refuse those with a stale fence.

        Only a row that the database refuses is settled on its own. Any other error is raised, and nothing is left out.
        Safe to repeat: an execution settled by an earlier call, whose answer was lost, is not settled twice.
        """
        try:
            return self._settle([_storable(each) for each in finished])
        except UNFIT as error:
            if len(finished) > 1:
                middle = len(finished) // 2  # a bad row must not fail the batch
                return self.settle(finished[:middle]) + self.settle(finished[middle:])
            return self._settle_without_value(finished[0], error)

    def _settle_without_value(self, each: Finished, refusal: Exception) -> Settled:
        """Settle an execution whose row was refused, with the refusal as its value; if that is refused too, leave
        it."""
        try:
            if isinstance(refusal, Duplicate):
                raise refusal  # no unique index holds a value
            settled = self._settle([replace(each, outcome=without_value(each.outcome, str(refusal)), account=None)])
        except UNFIT as error:
            log.error("An execution cannot be settled: execution=%s error=%s", each.live.id, error)
            return Settled(left=(each,))
        log.error("The value of a result cannot be saved: execution=%s error=%s", each.live.id, refusal)
        return settled

    def settle_in(self, tx: Tx, finished: Sequence[Finished], expected: Expected = EXPECTS_NOTHING) -> Settled:
        """Settle in an open transaction. Here `refused` are all results with a stale fence."""
        plain = tuple(settle_plainly(tx, self._database.dialect.kind, expected))
        if len(plain) == len(finished):
            return Settled(plain=plain)
        # Not by execution: the batch may contain the late result of an older claim.
        done = set(map(id, plain))
        rest = [each for each in finished if id(each) not in done]
        return replace(self._settle_fully(tx, rest), plain=plain)

    def _settle_fully(self, tx: Tx, finished: Sequence[Finished]) -> Settled:
        facts, lives = locking.lock_running(tx, [each.live for each in finished])
        jobs = locking.with_definitions(tx, self._definitions, facts)
        several = len(facts) < len(finished)
        changes, stale, left = list[Change](), list[Finished](), list[Finished]()
        for each in finished:
            job, current = jobs.get(each.live.job_id), _still_held(lives, each)
            if job is None or current is None:
                (left if job is None and each.live.job_id in facts else stale).append(each)
                continue
            change = self._end(tx, job, lives[job.id], current, each)
            if change is None:
                left.append(each)
                continue
            changes.append(change)
            if several:
                jobs[job.id], lives[job.id] = change.job, _after(lives[job.id], change)
        self._save(tx, _one_per_job(changes) if several else changes, facts)
        deferred = [*_deferrals(finished, changes)]
        if deferred:
            tx.run("save_deferrals", deferred)
        if any(each.live.limit_key is not None or each.live.step for each in finished):
            tx.notify()  # a worker or dispatcher may wait for its place
        return Settled(tuple(changes), (), tuple(stale), tuple(left))

    def time_out_runs(self, now: datetime) -> list[Change]:
        """Stop the runs that wait for steps beyond the timeout of their job. (A worker times the step that runs.)"""
        with self._database.read() as tx:
            found = [
                (to_uuid(run_id), to_uuid(job_id), from_micros(began))
                for run_id, job_id, began in tx.rows("runs_under_way", limit=MOST_RUNS)
            ]
            if not found:
                return []
            facts = dict(map(rows.facts_of, tx.rows("facts", ids=list({job_id for _, job_id, _ in found}))))
            jobs = locking.with_definitions(tx, self._definitions, facts)
        late = [
            (run_id, job_id) for run_id, job_id, began in found if job_id in jobs and _is_over(jobs[job_id], began, now)
        ]
        return [change for run_id, job_id in late if (change := self._time_out(run_id, job_id, now)) is not None]

    def _time_out(self, run_id: UUID, job_id: UUID, now: datetime) -> Change | None:
        with self._database.write() as tx:
            job = locking.locked_jobs(tx, self._definitions, [job_id]).get(job_id)
            lives = locking.lives_of(tx, [job_id])[job_id]
            run = next((live for live in lives if live.id == run_id), None)
            rules = None if run is None else self._steps.of(run.task)
            if job is None or run is None or rules is None or not _is_over(job, run.started_at, now):
                return None
            change = time_out_run(job, lives, run, now, self._chance, rules.time_out)
            if not change.alter and not change.ended:
                return None  # its steps were already asked to stop
            self._save(tx, [change], {job_id: job.facts})
        return change

    # -- while it runs

    def marks(self, ids: Sequence[UUID]) -> dict[UUID, Mark]:
        """Read the marks of running executions. A missing execution is no longer held by this worker."""
        with self._database.read() as tx:
            found = tx.rows("marks", ids=list(ids))
        return {
            to_uuid(live_id): Mark(fence, None if asked is None else from_micros(asked), by)
            for live_id, fence, asked, by in found
        }

    def save_progress(self, progress: Sequence[tuple[UUID, int, str]]) -> None:
        """Save the progress of runs: (execution, fence, JSON)."""
        with self._database.write() as tx:
            tx.run("save_progress", list(progress))

    def save_checkpoint(self, execution_id: UUID, fence: int, checkpoint: str) -> bool:
        """Save a checkpoint; return False if the fence is stale."""
        with self._database.write() as tx:
            return tx.run("save_checkpoint", id=execution_id, fence=fence, checkpoint=checkpoint) == 1

    # -- within

    def _settle(self, finished: Sequence[Finished]) -> Settled:
        by_rule = self._writers.want_successes or not self._fast_path
        expected = EXPECTS_NOTHING if by_rule else expected_of(finished)
        if expected.candidates:
            self._database.make_fit(EXPECTING, expected.batch)
        with self._database.write() as tx:
            settled = self.settle_in(tx, finished, expected)
            refused = self._without_settled(tx, settled.refused)
            if refused:
                tx.run("insert_events", [rows.EVENT.row(self._refusal(each)) for each in refused])
        return replace(settled, refused=tuple(refused))

    def _end(self, tx: Tx, job: Job, lives: Sequence[Live], live: Live, each: Finished) -> Change | None:
        """Apply the rule to one execution; return None if it raises or is missing, so that the others are settled."""
        try:
            if live.step or type(each.outcome) is Begun:
                if (task := self._steps.missing(lives, live)) is not None:
                    log.error(
                        "A run is left to others, which have the rules of its task: execution=%s task=%s", live.id, task
                    )
                    return None
                plan = self._steps.plan(tx, job, lives, live)
                change = settle(job, lives, live, each.outcome, each.at, self._chance, plan=plan)
            else:
                change = settle(job, lives, live, each.outcome, each.at, self._chance)
            return change if each.account is None else _with_account(change, each)
        except StoreError:
            raise
        except Exception:
            log.exception("Result not settled, since its rule failed: execution=%s", live.id)
            return None

    def _save(self, tx: Tx, changes: Sequence[Change], before: Mapping[UUID, Facts]) -> None:
        locking.save(tx, changes, before)
        self._writers.write(tx, changes)
        if any(_leaves_work(change, before[change.job.id].next_due_at) for change in changes):
            tx.notify()

    def _without_settled(self, tx: Tx, stale: Sequence[Finished]) -> list[Finished]:
        """Leave out results that an earlier call has settled."""
        asked = [each for each in stale if isinstance(each.outcome, RECORDED)]
        if not asked:
            return []
        found = tx.rows("already_settled", ids=[each.live.id for each in asked])
        settled = {(to_uuid(live_id), fence, from_micros(at), result) for live_id, fence, at, result in found}
        return [each for each in asked if _record(each) not in settled]

    def _refusal(self, each: Finished) -> Event:
        live = each.live
        return Event(
            self._chance.id(each.at), each.at, "result.refused", live.job_id, live.id, live.worker_id,
            data=f'{{"outcome": "{type(each.outcome).__name__}", "fence": {live.fence}}}',
        )  # fmt: skip


def _deferrals(finished: Sequence[Finished], changes: Sequence[Change]) -> Iterator[tuple[UUID, str, datetime]]:
    """Return the executions that wait for a budget, and until when."""
    budgets = {
        each.live.id: each.outcome.budget
        for each in finished
        if isinstance(each.outcome, Deferred) and each.outcome.budget
    }
    if budgets:
        for live in (live for change in changes for live in change.alter if live.id in budgets):
            yield live.id, budgets[live.id], live.run_at


def _is_over(job: Job, began: datetime | None, now: datetime) -> bool:
    timeout = job.policies.timeout
    return timeout is not None and began is not None and began + timeout <= now


def _with_account(change: Change, each: Finished) -> Change:
    ended = (replace(run, account=each.account) if run.id == each.live.id else run for run in change.ended)
    return replace(change, ended=tuple(ended))


def _still_held(lives: Lives, each: Finished) -> Live | None:
    """Return the live row if the worker that finished it still holds it: the fence check.

    By number and worker: after a failover that lost a claim, two workers may hold the same number.
    """
    for live in lives.get(each.live.job_id, ()):
        if live.id == each.live.id:
            held = live.worker_id is not None and live.worker_id == each.live.worker_id
            return live if held and live.fence == each.live.fence else None
    return None


def _record(each: Finished) -> tuple[UUID, int, datetime, str | None]:
    """Return the key fields of an execution's record in history."""
    return each.live.id, each.live.fence, each.at, each.outcome.kind


def _leaves_work(change: Change, due_before: datetime | None) -> bool:
    """Return True if a settle leaves work for a worker or a dispatcher."""
    due = change.job.facts.next_due_at
    queued = any(live.worker_id is None for live in change.alter)
    return bool(change.add) or queued or (due is not None and due != due_before)


def _storable(each: Finished) -> Finished:
    """Return the result without text that no database accepts (NUL, unpaired surrogates)."""
    if type(each.outcome) is Completed and each.outcome.result is None:
        return each  # the usual case
    match each.outcome:
        case Failed(Error(kind, message, traceback), retry_in, final):
            trace = None if traceback is None else _text(traceback)
            return replace(each, outcome=Failed(Error(_text(kind), _text(message), trace), retry_in, final))
        case Completed(str(result)) if "\0" in result or not result.isascii():
            return replace(each, outcome=Completed(_text(result)))
        case _:
            return each


def _text(text: str) -> str:
    return text.replace("\0", "\N{SYMBOL FOR NULL}").encode("utf-8", "replace").decode("utf-8")


def _after(lives: Sequence[Live], change: Change) -> list[Live]:
    """Return the live rows of a job after a change, for the next change of the same batch."""
    replaced = {*change.drop, *(live.id for live in change.alter)}
    return [live for live in lives if live.id not in replaced] + [*change.alter, *change.add]


def _one_per_job(changes: Sequence[Change]) -> list[Change]:
    """Merge the changes of each job in a batch into one."""
    merged: dict[UUID, Change] = {}
    for change in changes:
        before = merged.get(change.job.id)
        merged[change.job.id] = change if before is None else _merge(before, change)
    return list(merged.values())


def _merge(first: Change, second: Change) -> Change:
    """Merge two changes of a job; a row that the first added and the second altered is added as altered."""
    altered = {live.id: live for live in second.alter}
    replaced = set(second.drop)
    added = [altered.pop(live.id, live) for live in first.add if live.id not in replaced]
    unchanged = [live for live in first.alter if live.id not in altered and live.id not in replaced]
    never = {live.id for live in first.add}
    return replace(
        second,
        add=(*added, *second.add),
        alter=(*unchanged, *altered.values()),
        drop=(*first.drop, *(live_id for live_id in second.drop if live_id not in never)),
        ended=first.ended + second.ended,
        skips=first.skips + second.skips,
        events=first.events + second.events,
        rewritten=first.rewritten + second.rewritten,
    )

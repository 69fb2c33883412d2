"""Settling plain successes: few columns read, few written, no values made.

What is special about a job, or about one of its runs, is seen at a glance, under the same locks that a full settle
takes; such a run is left to it.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from ostinato.core.lifecycle import Plain, may_be_plain, plain
from ostinato.core.model import Asked, Finished, Live
from ostinato.store.cells import from_micros, to_bytes
from ostinato.store.database import Row, Tx
from ostinato.store.dialect import Kind

SCHEDULE: Final = Asked.SCHEDULE  # looking up a member of an Enum is a call
ENDS: Final = Plain.ENDS
UNTOUCHED: Final = (None,) * 6  # paused, cancelled, ended, deleted, waiting for a reset, asked to stop


def settle_plainly(tx: Tx, kind: Kind, finished: Sequence[Finished]) -> list[Finished]:
    """Settle what is a plain success, and say which those were; all jobs are locked then."""
    candidates = {to_bytes(each.live.job_id): each for each in finished if may_be_plain(each)}
    if not candidates:
        return []
    ending, going_on, moving, settled = list[Row](), list[Row](), list[Row](), list[Finished]()
    jobs = candidates if len(candidates) == len(finished) else _jobs_of(finished)
    for job_id, row in _alone(tx.rows("lock_glance", ids=list(jobs))):
        each = candidates.get(job_id)
        what = None if each is None else _judged(each, row)
        if each is None or what is None:
            continue
        repeats = int(each.live.asked is SCHEDULE)
        if what is ENDS:
            ending.append((job_id, repeats, each.at))
        else:
            going_on.append((job_id, repeats))
        moving.append((row[0], each.at, each.outcome.result, each.account))  # type: ignore[union-attr]
        settled.append(each)
    _write(tx, kind, ending, going_on, moving)
    return settled


def _jobs_of(finished: Sequence[Finished]) -> set[bytes]:
    return {to_bytes(each.live.job_id) for each in finished}


def _alone(found: Sequence[Row]) -> Iterator[tuple[bytes, Row]]:
    """The rows that are the only live ones of their jobs; they come in the order of jobs."""
    jobs = [row[-1] for row in found]
    for before, job_id, after, row in zip([None, *jobs], jobs, [*jobs[1:], None], found, strict=False):
        if job_id not in (before, after):
            yield job_id, row


def _judged(each: Finished, row: Row) -> Plain | None:
    live_id, fence, version, last_due_at, next_due_at, worker_id, *touched, _ = row
    live = each.live
    if not _still_held(live, live_id, fence, worker_id) or version != live.version:
        return None
    if tuple(touched) != UNTOUCHED or each.definition is None:
        return None
    last = None if last_due_at is None else from_micros(last_due_at)
    return plain(each.definition, last, names_next=next_due_at is not None)


def _still_held(live: Live, live_id: bytes, fence: int, worker_id: bytes | None) -> bool:
    """The fence."""
    return fence == live.fence and worker_id is not None and live_id == to_bytes(live.id)


def _write(tx: Tx, kind: Kind, ending: Sequence[Row], going_on: Sequence[Row], moving: Sequence[Row]) -> None:
    if ending:
        tx.run("end_with_success", ending)
    if going_on:
        tx.run("count_success", going_on)
    if moving:
        tx.run("move_completed", moving)
        if kind is Kind.SQLITE:  # PostgreSQL takes them out of `live` with the same statement
            tx.run("delete_live", ids=[row[0] for row in moving])

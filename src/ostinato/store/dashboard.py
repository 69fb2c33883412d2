"""Queries of the dashboard: recent history of many jobs, and their next due times."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from ostinato.core.encoding import policies_of, schedule_of
from ostinato.core.ids import first_of
from ostinato.core.model import Execution, Live
from ostinato.core.policy import Policies
from ostinato.core.read_models import Ran
from ostinato.core.schedule import Schedule
from ostinato.store import rows
from ostinato.store.adapt import from_micros, to_uuid
from ostinato.store.database import Database, Tx


@dataclass(frozen=True, slots=True)
class Course:
    """A schedule, its policies, its next time, and the number of jobs that share them."""

    schedule: Schedule
    policies: Policies
    next_due_at: datetime
    jobs: int
    text: str  # the schedule as stored


RAN: Final = rows.Shape(Ran)


class Board:
    """Questions of the dashboard."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def newest_runs(self, ids: Sequence[UUID], limit: int) -> dict[UUID, list[Ran]]:
        """Return the newest ended executions of each of these jobs, the newest last."""
        found: dict[UUID, list[Ran]] = defaultdict(list)
        if ids:
            with self._database.read() as tx:
                for row in tx.rows("newest_of_each", ids=list(ids), limit=limit):
                    ran = RAN.of(row)
                    found[ran.job_id].append(ran)
        return found

    def soonest(self, limit: int) -> list[UUID]:
        """List the jobs that are due next."""
        with self._database.read() as tx:
            return [to_uuid(job_id) for (job_id,) in tx.rows("soonest", limit=limit)]

    def courses(self, until: datetime) -> list[Course]:
        """List due times before an instant; jobs with the same schedule and policies are grouped."""
        with self._database.read() as tx:
            found = tx.rows("schedules_to_come", until=until)
        return [
            Course(schedule_of(schedule), policies_of(policies), from_micros(due), jobs, schedule)
            for schedule, policies, due, jobs in found
        ]

    def jobs_on(self, courses: Collection[Course], until: datetime) -> Iterator[tuple[UUID, Course]]:
        """Yield the jobs with these schedules that are due before an instant, the earliest first."""
        with self._database.read() as tx:
            found = tx.rows("jobs_to_come", until=until, schedules=sorted({course.text for course in courses}))
        for job_id, schedule, policies, due in found:
            one = Course(schedule_of(schedule), policies_of(policies), from_micros(due), 1, schedule)
            yield to_uuid(job_id), one

    def running(self, limit: int) -> tuple[list[Live], int]:
        """Return some running executions, and the number of all."""
        with self._database.read() as tx:
            ((_, count),) = tx.rows("count_live", task=None)
            return [rows.LIVE.of(row) for row in tx.rows("running_some", limit=limit)], int(count)

    def failed(self, limit: int) -> list[Execution]:
        """List the latest failed executions, the newest first."""
        with self._database.read() as tx:
            return _executions(tx, tx.rows("failed_some", limit=limit))

    def queued_between(self, since: datetime, until: datetime, limit: int) -> list[Execution]:
        """List executions that were queued between two instants and have ended, the newest first."""
        with self._database.read() as tx:
            return _executions(
                tx, tx.rows("queued_between", from_id=first_of(since), to_id=first_of(until), limit=limit)
            )


def _executions(tx: Tx, ids: Sequence[rows.Row]) -> list[Execution]:
    """Read the executions with these ids, the newest first."""
    found = tx.rows("executions_by_id", ids=[to_uuid(each) for (each,) in ids]) if ids else []
    return sorted(map(rows.EXECUTION.of, found), key=lambda execution: execution.id, reverse=True)

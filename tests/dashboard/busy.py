"""A database with rows of every kind, with strings that must never become markup."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

from ostinato.core.model import AskedBy, Change, Event, Execution, Job, Live, Skip, SkipReason
from ostinato.core.outcome import OutcomeKind
from ostinato.core.read_models import Stream
from ostinato.store import rows
from ostinato.store.logs import LogLine, size_of
from ostinato.store.workers import NewWorker
from tests.build import CHANCE, HOUR, MINUTE, SECOND, a_job, an_execution
from tests.dashboard.conftest import Visitor

EVIL = "\"'><script>alert(1)</script>{{70921*70921}}<img src=x onerror=alert(2)>"


class Busy:
    """The rows of the database, by role in the tests."""

    def __init__(self, visitor: Visitor) -> None:
        self.visitor, self.store = visitor, visitor.app.parts.store
        self.now: datetime = visitor.app.scheduler.now()
        self.queue = "odd"
        self.worker = NewWorker(CHANCE.id(self.now), EVIL, EVIL, 7, EVIL, (EVIL,), (), 5)
        self.store.workers.join(self.worker, self.now, 30 * SECOND)
        self.job = self.add()
        self.failed = self.ended(self.job, 1, OutcomeKind.FAILED, error_kind=EVIL, error=EVIL, traceback=EVIL)
        self.retried = self.ended(self.job, 1, OutcomeKind.COMPLETED, attempt=1, result=f'["{"x" * 50}"]')
        self.done = self.ended(self.job, 2, OutcomeKind.COMPLETED)
        self.skip(self.job)
        self.running = self.run(self.job)
        self.tell("job.paused", self.job)

    def add(self, **given: object) -> Job:
        """Make a job with hostile text in all its fields."""
        words = dict.fromkeys(("task", "name", "description", "owner", "key"), EVIL)
        strange = {
            **words,
            "tags": (EVIL,),
            "app": "shop",
            "metadata": '{"x": "<script>"}',
            "queue": self.queue,
        }
        job = a_job(CHANCE.id(self.now), **{**strange, "last_number": 3, "last_execution_number": 4, **given})
        facts = replace(job.facts, created_at=self.now, updated_at=self.now, anchor=self.now)
        if facts.next_due_at is not None:
            facts.next_due_at = self.now + 30 * MINUTE
        job = replace(job, facts=facts)
        self.store.jobs.add([Change(job)])
        return job

    def jobs(self, count: int, **given: object) -> list[Job]:
        return [self.add(**{"name": f"job {n:03}", "key": None, "task": "work", **given}) for n in range(count)]

    def ended(self, job: Job, number: int, outcome: OutcomeKind, attempt: int = 0, **given: object) -> Execution:
        at = self.now - (4 - number) * HOUR + attempt * MINUTE
        row = an_execution(
            job, id=CHANCE.id(at), number=number, attempt=attempt, execution_number=number + attempt,
            due_at=at, run_at=at, queued_at=at, started_at=at + SECOND, finished_at=at + 3 * SECOND, outcome=outcome,
            worker_id=self.worker.id, task=EVIL, **given,
        )  # fmt: skip
        with self.store.database.write() as tx:
            tx.run("insert_executions", [rows.EXECUTION.row(row)])
        lines = [
            LogLine(row.id, at, level, Stream.LOG, text, size_of(text))
            for level, text in ((20, f"info {EVIL}"), (40, "grave"))
        ]
        self.store.logs.append(lines, {}, 1_000_000)
        return row

    def skip(self, job: Job) -> None:
        at = self.now - 90 * MINUTE
        skip = Skip(CHANCE.id(at), job.id, SkipReason.OVERLAP, at, at + MINUTE, 2, at, self.done.id)
        with self.store.database.write() as tx:
            tx.run("insert_skips", [rows.SKIP.row(skip)])

    def run(self, job: Job) -> Live:
        """Make a running execution."""
        live = Live(
            id=CHANCE.id(self.now), job_id=job.id, number=3, attempt=0, execution_number=4, asked=AskedBy.HAND,
            due_at=self.now, run_at=self.now, queued_at=self.now, queue=job.definition.queue, priority=5, task=EVIL,
            fence=1, worker_id=self.worker.id, started_at=self.now, version=1,
            progress='{"done": 3, "of": 4, "message": "<script>", "counters": {"<script>": 1204}}',
        )  # fmt: skip
        self.store.jobs.change(job.id, lambda job, lives, last: Change(job, add=(live,)))
        return live

    def tell(self, kind: str, job: Job | None = None, by: str = EVIL, at: timedelta = timedelta(0)) -> UUID:
        event_id = CHANCE.id(self.now + at)
        told = Event(event_id, self.now + at, kind, None if job is None else job.id, by=by, data='{"a": "<script>"}')
        self.store.history.tell([told])
        return event_id

    @property
    def pages(self) -> list[str]:
        runs = [f"/executions/{run.id}" for run in (self.failed, self.retried, self.done, self.running)]
        return [
            "/", "/?span=7d", "/jobs", "/executions", "/executions?state=failed", f"/executions?job={self.job.id}",
            "/calendar", "/calendar?show=past", "/workers", "/events", f"/events?job={self.job.id}",
            f"/jobs/{self.job.id}", *runs,
        ]  # fmt: skip

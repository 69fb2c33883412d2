"""Speed of each page with ten thousand jobs and a million executions. It takes minutes: `make soak`."""

import statistics
import time
from dataclasses import replace
from datetime import timedelta

import pytest

from ostinato.core.model import Change
from ostinato.core.outcome import OutcomeKind
from ostinato.core.schedule import Cron, Every, next_after
from ostinato.store import rows
from tests.build import CHANCE, DAY, HOUR, MINUTE, SECOND, a_job, an_execution
from tests.dashboard.conftest import Visitor

JOBS, EACH, AT_ONCE = 10_000, 100, 2_000
MOST = 0.1  # seconds
EXPRESSIONS = ("*/15 * * * *", "0 9 * * mon-fri", "30 2 * * *")
SCHEDULES = [
    *(Cron(text, zone) for text in EXPRESSIONS for zone in ("UTC", "Europe/Paris")),
    *(Every(period) for period in (10 * MINUTE, HOUR, 6 * HOUR, DAY)),
]  # fmt: skip


@pytest.fixture
def full(visitor: Visitor) -> Visitor:
    """Fill a database with a month of many runs."""
    store, now = visitor.app.parts.store, visitor.app.scheduler.now()
    counted = {"completed": EACH - 3, "failed": 3, "last_number": EACH, "last_execution_number": EACH}
    jobs = []
    for n in range(JOBS):
        schedule = SCHEDULES[n % len(SCHEDULES)]
        told = {"name": f"job {n}", "task": f"task {n % 20}", "tags": ("eu",) if n % 7 else (), **counted}
        job = a_job(CHANCE.id(now - 30 * DAY), schedule=schedule, **told)
        due = next_after(schedule, now - n * SECOND, now)
        facts = replace(job.facts, next_due_at=due, anchor=now - n * SECOND, computed_at=now, last_due_at=now)
        jobs.append(replace(job, facts=facts))
    store.jobs.add([Change(job) for job in jobs])
    template = an_execution(jobs[0], started_at=now, finished_at=now)
    for number in range(1, EACH + 1):
        for begin in range(0, JOBS, AT_ONCE):
            at = now - 30 * DAY + number * 30 * DAY / (EACH + 1)
            batch = [
                _row(template, job, number, at + n * SECOND) for n, job in enumerate(jobs[begin : begin + AT_ONCE])
            ]
            with store.database.write() as tx:
                tx.run("insert_executions", batch)
    with store.database.write() as tx:
        tx.run(store.database.dialect.statement("ANALYZE"))
    while store.hours.keep(now):
        pass
    return visitor


def _row(template, job, number, at):
    result = OutcomeKind.FAILED if number % 33 == 0 else OutcomeKind.COMPLETED
    return rows.EXECUTION.row(
        replace(
            template, id=CHANCE.id(at), job_id=job.id, task=job.definition.task,
            number=number, execution_number=number, due_at=at, run_at=at,
            queued_at=at, started_at=at, finished_at=at + timedelta(milliseconds=number * 17), outcome=result,
        )
    )  # fmt: skip


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_no_page_takes_a_tenth_of_a_second(full):
    service = full.app.scheduler
    job, run = service.jobs.search(limit=1).items[0], service.executions.search(limit=1).items[0]
    hour = service.now().replace(minute=0, second=0, microsecond=0).isoformat().replace("+00:00", "Z")
    pages = [
        "/", "/?span=7d", "/jobs", "/jobs?sort=next_run_at", "/jobs?sort=name", "/jobs?status=running", "/jobs?tag=eu",
        "/jobs?text=job+77", "/executions", "/executions?state=failed", "/executions?task=task+3", f"/jobs/{job.id}",
        f"/executions/{run.id}", "/calendar", "/calendar?show=past", f"/calendar?hour={hour}",
        f"/calendar?show=past&hour={hour}", "/workers", "/events", "/settings",
    ]  # fmt: skip
    took = {path: statistics.median(_seconds(full, path) for _ in range(7)) for path in pages}
    assert {path: seconds for path, seconds in took.items() if seconds > MOST} == {}


def _seconds(visitor: Visitor, path: str) -> float:
    """Measure the CPU time of this process on SQLite; the wall time would include waiting on a busy machine."""
    begun = time.process_time()
    visitor.see(path)
    return time.process_time() - begun

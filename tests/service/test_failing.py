"""Failures above the usual rate are found, by the job and by the task of run-once jobs."""

import time

import pytest

from ostinato.core.model import Change
from ostinato.core.outcome import OutcomeKind
from ostinato.core.schedule import Once
from ostinato.service.doctor import LATELY, FindingState, failures
from ostinato.store import rows
from tests.build import CHANCE, DAY, HOUR, MINUTE, a_job, an_execution


@pytest.fixture
def place(world):
    return Place(world.store, world.now)


class Place:
    """Jobs with a history."""

    def __init__(self, store, now):
        self.store, self.now = store, now

    def add(self, **given):
        job = a_job(CHANCE.id(self.now - 30 * DAY), **{"task": "sync", **given})
        self.store.jobs.add([Change(job)])
        return job

    def ran(self, job, results, ago=HOUR, **given):
        """Ended executions, the last one `ago`, one a minute before it."""
        ended = []
        for n, result in enumerate(results):
            at = self.now - ago - n * MINUTE
            row = an_execution(
                job, id=CHANCE.id(at), number=len(results) - n, execution_number=len(results) - n, due_at=at,
                run_at=at, queued_at=at, started_at=at, finished_at=at, outcome=result, task=job.definition.task,
                error_kind=None if result is OutcomeKind.COMPLETED else "refused", **given,
            )  # fmt: skip
            ended.append(rows.EXECUTION.row(row))
        with self.store.database.write() as tx:
            tx.run("insert_executions", ended)

    def found(self):
        return self.store.statistics.failing(self.now - LATELY, self.store.statistics.counters())

    def told(self):
        return [each.finding for each in failures(self.found()) if each.state is not FindingState.OK]


GOOD, BAD = OutcomeKind.COMPLETED, OutcomeKind.FAILED


def test_a_job_that_fails_above_its_usual_rate_is_named_with_its_error(place):
    job = place.add(name="nightly sync", completed=1042, failed=8, last_number=1050,
                    last_execution_number=1050)  # fmt: skip
    place.ran(job, [GOOD] * 42 + [BAD] * 8)
    assert place.told() == ["nightly sync: 8 of the last 50 runs failed (0 % usually); 8 times: refused"]


def test_a_job_that_fails_as_ever_is_not_named(place):
    job = place.add(completed=840, failed=160, last_number=1000, last_execution_number=1000)
    place.ran(job, [GOOD] * 42 + [BAD] * 8)
    assert place.told() == []


def test_failures_of_last_week_and_of_deleted_jobs_are_not_named(place):
    old, gone = place.add(), place.add(deleted_at=place.now, next_due_at=None)
    place.ran(old, [BAD] * 9, ago=3 * DAY)
    place.ran(gone, [BAD] * 9)
    assert place.found() == []


def test_run_once_jobs_are_counted_together_by_their_task(place):
    for n in range(30):
        job = place.add(task="mail", schedule=Once(place.now), completed=int(n > 2), failed=int(n <= 2))
        place.ran(job, [GOOD if n > 2 else BAD])
    assert place.told() == ["run-once jobs of the task mail: 3 of the last 30 runs failed; 3 times: refused"]


def test_many_failing_jobs_are_named_in_a_few_lines(place):
    for n in range(8):
        place.ran(place.add(name=f"job {n}"), [BAD])
    told = place.told()
    assert len(told) == 6
    assert told[-1] == "3 jobs more fail above their usual rate"


@pytest.mark.soak
def test_a_hundred_thousand_executions_of_a_day_are_judged_in_20_ms(place, record_property):
    jobs = [place.add() for _ in range(100)]
    for job in jobs:
        place.ran(job, ([GOOD] * 5 + [BAD]) * 167)
    took = []
    for _ in range(9):
        begun = time.process_time()
        place.found()
        took.append(time.process_time() - begun)
    record_property("median_cpu_ms", round(1000 * sorted(took)[4], 1))
    assert sorted(took)[4] < 0.02

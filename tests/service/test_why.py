"""The evidence of `why`, read from the database by the service."""

from datetime import timedelta
from uuid import UUID

import pytest

from ostinato.core.errors import Invalid, NotFound
from ostinato.core.policy import CatchUp, Overlap
from ostinato.core.why import Because, Verdict
from ostinato.store.history import Keep
from tests.build import HOUR, MINUTE, SECOND
from tests.store.conftest import FAILURE, LEASE


def keep_alive(world, worker):
    world.store.workers.renew(worker, world.now, LEASE, 0)


def because(why):
    return [cause.because for cause in why.causes]


@pytest.fixture
def worker(world):
    return world.worker()


def test_a_run_on_time(world, service, worker):
    job_id = world.add_one()
    due = world.advance(HOUR)
    keep_alive(world, worker)
    world.run_all(worker)
    world.advance(10 * MINUTE)
    why = service.jobs.why(job_id)
    assert (why.verdict, why.due_at, why.number, because(why)) == (Verdict.ENDED, due, 1, [])
    assert why.next_run_at == due + HOUR
    assert "on time" in why.sentences[0]
    assert service.jobs.why(job_id, due) == service.jobs.why(str(job_id), due)


def test_of_many_occurrences_the_one_at_or_before_the_instant(world, service, worker):
    job_id = world.add_one()
    first = world.now + HOUR
    for _ in range(30):
        world.advance(HOUR)
        world.run_all(worker)
    assert service.jobs.why(job_id, first + 5 * HOUR).number == 6
    assert service.jobs.why(job_id, first + 5 * HOUR - SECOND).number == 5
    assert service.jobs.why(job_id, world.now + 100 * HOUR).number == 30
    assert service.jobs.why(job_id, first - SECOND).verdict is Verdict.NOTHING_DUE
    assert service.jobs.why(job_id, first - HOUR - SECOND).verdict is Verdict.BEFORE_CREATION


def test_all_attempts_of_an_occurrence_are_told(world, service, worker):
    job_id = world.add_one(max_retries=2)
    world.advance(HOUR)
    world.run_all(worker, FAILURE)
    why = service.jobs.why(job_id)
    assert (why.verdict, because(why)) == (Verdict.QUEUED, [Because.BACKOFF])
    assert [attempt.attempt for attempt in why.attempts] == [0, 1]
    world.advance(MINUTE)
    world.run_all(worker)
    why = service.jobs.why(job_id)
    assert (why.verdict, [attempt.attempt for attempt in why.attempts]) == (Verdict.ENDED, [0, 1])


def test_a_time_that_was_skipped_for_the_run_before_it(world, service, worker):
    job_id = world.add_one()
    world.advance(HOUR)
    world.fire()
    running = world.claim(worker)
    due = world.advance(HOUR)
    world.fire()
    world.advance(MINUTE)
    why = service.jobs.why(job_id)
    assert (why.verdict, why.due_at, because(why)) == (Verdict.SKIPPED, due, [Because.PREVIOUS_RUN])
    assert why.causes[0].execution_id == running[0].live.id
    assert "(number 1) was still running" in why.sentences[0]
    assert service.jobs.why(job_id, due - SECOND).verdict is Verdict.RUNNING
    world.settle(running)
    assert service.jobs.why(job_id).causes[0].until == world.now


def test_a_job_that_is_paused_and_one_that_was(world, service, worker):
    job_id = world.add_one()
    world.advance(30 * MINUTE)
    service.jobs.pause(job_id, by="ops")
    paused_at = world.now
    due = world.advance(30 * MINUTE)
    world.advance(MINUTE)
    why = service.jobs.why(job_id)
    assert (why.verdict, why.due_at, because(why)) == (Verdict.NOT_RUN, due, [Because.PAUSED])
    assert (why.causes[0].by, why.causes[0].since) == ("ops", paused_at)
    service.jobs.resume(job_id, by="eve")
    why = service.jobs.why(job_id, due)
    assert (why.verdict, because(why), why.causes[0].by) == (Verdict.SKIPPED, [Because.PAUSED], "ops")


def test_nothing_was_running(world, service):
    first = world.worker()
    job_id = world.add_one(catch_up=CatchUp.LATEST)
    world.advance(10 * MINUTE)
    world.store.workers.leave(first, world.now)
    gone = world.now
    world.advance(3 * HOUR)
    why = service.jobs.why(job_id)
    assert (why.verdict, because(why)) == (Verdict.NOT_RUN, [Because.NOBODY_RUNNING])
    assert (why.causes[0].since, why.causes[0].until) == (gone, None)
    second = world.worker()
    back = world.now
    world.run_all(second)
    late, missed = service.jobs.why(job_id), service.jobs.why(job_id, world.now - HOUR)
    assert (late.verdict, because(late)) == (Verdict.ENDED, [Because.NOBODY_RUNNING])
    assert (missed.verdict, because(missed)) == (Verdict.SKIPPED, [Because.NOBODY_RUNNING])
    for why in (late, missed):
        assert (why.causes[0].since, why.causes[0].until) == (gone, back)


def test_a_worker_that_died_was_there_until_its_last_sign_of_life(world, service):
    first = world.worker()
    job_id = world.add_one(every=10 * MINUTE)
    seen = world.advance(5 * MINUTE)
    keep_alive(world, first)
    world.advance(HOUR)
    second = world.worker()
    world.store.workers.close_lost(world.store.workers.leases()[0], world.now)
    world.run_all(second)
    why = service.jobs.why(job_id)
    assert (because(why), why.causes[0].since, why.causes[0].until) == (
        [Because.NOBODY_RUNNING],
        seen,
        world.now,
    )


def test_all_workers_were_busy(world, service, worker):
    job_id = world.add_one()
    world.advance(HOUR)
    keep_alive(world, worker)
    world.fire()
    world.advance(2 * MINUTE)
    keep_alive(world, worker)
    why = service.jobs.why(job_id)
    assert (why.verdict, because(why)) == (Verdict.QUEUED, [Because.WORKERS_BUSY])
    world.run_all(worker)
    why = service.jobs.why(job_id)
    assert (why.verdict, because(why), why.causes[0].until) == (
        Verdict.ENDED,
        [Because.WORKERS_BUSY],
        world.now,
    )


def test_no_worker_knows_the_task(world, service, worker):
    job_id = world.add_one(task="other")
    world.advance(HOUR)
    keep_alive(world, worker)
    world.fire()
    world.claim(worker)
    world.advance(MINUTE)
    why = service.jobs.why(job_id)
    assert (why.verdict, because(why)) == (Verdict.QUEUED, [Because.UNKNOWN_TASK])
    assert "No worker knows the task 'other'." in why.sentences


def test_the_queue_was_paused(world, service, worker):
    job_id = world.add_one()
    service.pause_queue("other", by="eve")
    world.advance(30 * MINUTE)
    service.pause_queue("default", by="ops")
    paused_at = world.now
    world.advance(30 * MINUTE)
    world.fire()
    world.advance(MINUTE)
    why = service.jobs.why(job_id)
    assert (why.verdict, because(why), why.causes[0].by) == (Verdict.QUEUED, [Because.QUEUE_PAUSED], "ops")
    service.resume_queue("default", by="ops")
    resumed_at = world.now
    world.run_all(worker)
    why = service.jobs.why(job_id)
    assert (why.verdict, because(why)) == (Verdict.ENDED, [Because.QUEUE_PAUSED])
    assert (why.causes[0].since, why.causes[0].until) == (paused_at, resumed_at)


def test_a_queue_that_was_resumed_before_is_no_excuse(world, service, worker):
    job_id = world.add_one()
    service.pause_queue("default")
    world.advance(MINUTE)
    service.resume_queue("default")
    world.advance(59 * MINUTE)
    keep_alive(world, worker)
    world.fire()
    world.advance(MINUTE)
    keep_alive(world, worker)
    assert because(service.jobs.why(job_id)) == [Because.WORKERS_BUSY]


def test_one_that_waits_for_its_turn(world, service, worker):
    job_id = world.add_one(overlap=Overlap.QUEUE_ONE)
    world.advance(HOUR)
    world.fire()
    running = world.claim(worker)
    world.advance(HOUR)
    world.fire()
    world.advance(MINUTE)
    why = service.jobs.why(job_id)
    assert (why.verdict, because(why)) == (Verdict.QUEUED, [Because.PREVIOUS_RUN])
    assert why.causes[0].execution_id == running[0].live.id
    keep_alive(world, worker)
    world.settle(running)
    world.run_all(worker)
    why = service.jobs.why(job_id)
    assert (why.verdict, because(why)) == (Verdict.ENDED, [Because.PREVIOUS_RUN])
    assert why.causes[0].execution_id == running[0].live.id


def test_while_all_are_caught_up_the_newest_comes_after_the_others(world, service):
    job_id = world.add_one(catch_up=CatchUp.ALL)
    world.advance(3 * HOUR)
    worker = world.worker()
    world.fire()
    claimed = world.claim(worker)
    world.advance(MINUTE)
    keep_alive(world, worker)
    why = service.jobs.why(job_id)
    assert (why.verdict, because(why)) == (Verdict.NOT_RUN, [Because.PREVIOUS_RUN])
    assert why.causes[0].execution_id == claimed[0].live.id


def test_runs_side_by_side_do_not_wait_for_each_other(world, service, worker):
    job_id = world.add_one(overlap=Overlap.ALLOW, max_overlap=3)
    world.advance(HOUR)
    world.fire()
    world.claim(worker)
    world.advance(HOUR)
    keep_alive(world, worker)
    world.fire()
    world.advance(MINUTE)
    keep_alive(world, worker)
    assert because(service.jobs.why(job_id)) == [Because.WORKERS_BUSY]


def test_a_bounded_queue_is_full(world, service, worker):
    service.bound_queue("default", 1)
    jobs = world.add(2)
    world.advance(HOUR)
    keep_alive(world, worker)
    world.fire()
    world.advance(MINUTE)
    keep_alive(world, worker)
    told = {because(service.jobs.why(job_id))[0] for job_id in jobs}
    assert told == {Because.WORKERS_BUSY, Because.QUEUE_FULL}


def test_what_retention_took_away_is_forgotten(world, service, worker):
    job_id = world.add_one(keep_executions=1, keep_days=0)
    first = world.now + HOUR
    for _ in range(3):
        world.advance(HOUR)
        world.run_all(worker)
    world.advance(MINUTE)
    world.store.history.prune(UUID(int=0), world.now, Keep())
    assert service.jobs.why(job_id, first + MINUTE).verdict is Verdict.FORGOTTEN
    assert service.jobs.why(job_id).number == 3


def test_the_end_of_a_job(world, service, worker):
    over, gone = world.enqueue()[0], world.add_one()
    world.run_all(worker)
    world.advance(MINUTE)
    assert service.jobs.why(over).verdict is Verdict.ENDED  # its only occurrence is what there is to tell
    service.jobs.cancel(gone, by="ops")
    world.advance(2 * HOUR)
    why = service.jobs.why(gone)
    assert (why.verdict, because(why), why.causes[0].by) == (
        Verdict.AFTER_THE_END,
        [Because.CANCELLED],
        "ops",
    )


def test_what_cannot_be_asked_is_refused(world, service):
    job_id = world.add_one()
    with pytest.raises(Invalid, match="no time zone"):
        service.jobs.why(job_id, (world.now + timedelta(hours=1)).replace(tzinfo=None))
    with pytest.raises(NotFound):
        service.jobs.why("nobody")

"""Jobs: changed by rules under a lock, found again, and counted."""

from uuid import UUID, uuid4

import pytest

from ostinato.core.errors import Conflict, NotFound, StoreError
from ostinato.core.model import Status
from ostinato.store.search import JobKey
from tests.build import HOUR, MINUTE, NOW
from tests.store.conftest import DONE, FAILURE, edited

# -- changing


def test_a_job_that_is_not_there_is_not_found(world):
    for name in ("pause", "resume", "cancel", "delete", "restart", "retry"):
        with pytest.raises(NotFound):
            world.command(uuid4(), name)


def test_a_deleted_job_is_not_found_and_hidden_from_every_answer(world):
    job_id = world.enqueue(key="k")[0]
    world.command(job_id, "delete")
    with pytest.raises(NotFound):
        world.command(job_id, "pause")
    jobs = world.store.jobs
    assert (jobs.get([job_id]), world.jobs(), world.counts(), jobs.status_of(job_id)) == (
        {},
        [],
        {},
        None,
    )
    assert world.claim(world.worker()) == []


def test_pause_and_resume_move_the_schedule_and_leave_one_skip(world):
    job_id = world.add_one(every=HOUR)
    world.command(job_id, "pause")
    assert (world.status(job_id), world.facts(job_id).next_due_at) == (Status.PAUSED, None)
    world.advance(3 * HOUR)
    assert world.fire() == []
    world.command(job_id, "resume")
    assert world.facts(job_id).next_due_at == world.now + HOUR
    assert [(skip.reason, skip.count) for skip in world.skips(job_id)] == [("paused", 3)]
    world.check()


def test_a_pause_withdraws_what_waits(world):
    """G8."""
    job_id = world.add_one(every=HOUR)
    world.advance(HOUR)
    world.fire()
    world.command(job_id, "pause")
    assert world.claim(world.worker()) == []
    assert [(skip.reason, skip.first_due_at) for skip in world.skips(job_id)] == [("paused", world.now)]
    world.check()


def test_a_paused_run_once_job_waits_and_goes_on(world):
    job_id = world.enqueue()[0]
    world.command(job_id, "pause")
    assert world.claim(worker := world.worker()) == []
    world.command(job_id, "resume")
    assert len(world.claim(worker)) == 1


def test_a_cancel_asks_what_runs_to_stop_and_the_job_stays_cancelled(world):
    job_id = world.enqueue()[0]
    claimed = world.claim(world.worker())
    world.command(job_id, "cancel")
    assert world.store.queue.marks([claimed[0].live.id])[claimed[0].live.id].cancel_asked_at == NOW
    world.settle(claimed)
    assert world.status(job_id) is Status.CANCELLED
    assert [e.outcome for e in world.history(job_id)] == ["completed"]
    world.check()


def test_an_edit_raises_the_version_and_reaches_what_waits_but_not_what_runs(world):
    job_id = world.add_one(every=HOUR)
    world.advance(HOUR)
    world.fire()
    world.command(job_id, "edit", edited(world.job(job_id).definition, task="other", queue="new", priority=1))
    worker = world.worker()
    (claimed,) = world.claim(worker, "other", queues=["new"])
    assert (claimed.definition.task, claimed.live.version, claimed.live.priority) == ("other", 2, 1)
    world.command(job_id, "edit", edited(world.job(job_id).definition, task="third"))
    assert world.lives(job_id)[0].task == "other"
    world.settle([claimed])
    assert world.history(job_id)[0].version == 2
    assert len(world.events("job.edited", job_id)) == 2


def test_an_execution_runs_the_definition_as_it_is_at_its_claim(world):
    """Also where another process has made the edit."""
    job_id = world.enqueue(args='{"x": 1}')[0]
    world.store.jobs.get([job_id])
    other = world.another()
    world.command(job_id, "edit", edited(world.job(job_id).definition, args='{"x": 2}'), store=other)
    (claimed,) = world.claim(world.worker())
    assert (claimed.args, claimed.live.version) == ('{"x": 2}', 2)


def test_run_retry_and_restart(world):
    job_id = world.enqueue()[0]
    worker = world.worker()
    world.run_all(worker, FAILURE)
    assert world.status(job_id) is Status.FAILED
    world.command(job_id, "retry")
    world.run_all(worker, FAILURE)
    world.command(job_id, "run", '{"other": true}')
    (claimed,) = world.claim(worker)
    assert (claimed.live.number, claimed.args) == (2, '{"other": true}')
    world.settle([claimed])
    world.command(job_id, "restart")
    world.run_all(worker)
    assert [(e.number, e.attempt, e.outcome) for e in world.history(job_id)] == [
        (3, 0, "completed"), (2, 0, "completed"), (1, 1, "failed"), (1, 0, "failed"),
    ]  # fmt: skip
    world.check()


def test_a_retry_goes_on_with_the_failed_occurrence_of_the_schedule_not_with_a_run_by_hand(world):
    job_id = world.add_one(every=HOUR, max_retries=0, when_exhausted="fail")
    worker = world.worker()
    world.advance(HOUR)
    claimed = (world.fire(), world.claim(worker))[1]
    world.command(job_id, "run", None)
    world.settle(claimed, FAILURE)
    world.run_all(worker, FAILURE)
    assert world.status(job_id) is Status.FAILED
    world.command(job_id, "retry")
    assert [(live.number, live.attempt) for live in world.lives(job_id)] == [(1, 1)]


def test_a_conflict_changes_nothing(world):
    job_id = world.add_one()
    before = world.store.jobs.get([job_id])
    for name in ("resume", "retry", "restart"):
        with pytest.raises(Conflict):
            world.command(job_id, name)
    assert world.store.jobs.get([job_id]) == before
    assert [event.kind for event in world.store.history.events(10)] == ["job.created"]


def test_a_rule_that_breaks_changes_nothing(world):
    job_id = world.add_one()
    with pytest.raises(ZeroDivisionError):
        world.store.jobs.change(job_id, lambda *_: 1 / 0)
    world.command(job_id, "pause")


def test_a_job_that_this_version_cannot_read_is_refused_and_left(world):
    job_id = world.add_one()
    world.sql("UPDATE {jobs} SET schedule = '{\"new\": 1}', version = 2")
    with pytest.raises(StoreError, match="newer version"):
        world.command(job_id, "pause")
    assert world.store.jobs.get([job_id]) == {}


# -- queries


def test_pages_go_from_the_newest_to_the_oldest_without_a_gap(world):
    ids = []
    for _ in range(25):
        world.advance(MINUTE)
        ids += world.add(1)
    seen, before = [], None
    while page := world.jobs(10, before):
        seen += [row.job.id for row in page]
        before = JobKey(seen[-1])
    assert seen == ids[::-1]


def test_a_page_is_filtered(world):
    waits = world.add_one(queue="q", task="a", app="shop")
    runs = world.enqueue(task="b")[0]
    world.claim(world.worker(), "b")

    def page(**by):
        return [row.job.id for row in world.jobs(10, **by)]

    assert page(statuses={Status.RUNNING}) == page(task="b") == page(queue="default") == page(app="") == [runs]
    assert page(statuses={Status.SCHEDULED}) == page(task="a") == page(queue="q") == page(app="shop") == [waits]
    assert page(statuses={Status.RUNNING}, queue="q") == []
    assert page(after=JobKey(UUID(int=1))) == []


def test_jobs_are_counted_by_what_they_do(world):
    world.add(3)
    done, failed = world.enqueue(), world.enqueue(task="bad")
    worker = world.worker()
    world.settle(world.claim(worker), DONE)
    world.settle(world.claim(worker, "bad"), FAILURE)
    assert world.status(done[0]) is Status.COMPLETED
    assert world.status(failed[0]) is Status.FAILED
    assert world.counts() == {Status.SCHEDULED: 3, Status.COMPLETED: 1, Status.FAILED: 1}


def test_a_note_is_remembered(world):
    assert world.store.remembered("zone_data") is None
    world.store.remember("zone_data", "1")
    world.store.remember("zone_data", "2'")
    assert world.another().remembered("zone_data") == "2'"


def test_the_schema_is_the_one_that_this_code_needs(store):
    store.require_current()

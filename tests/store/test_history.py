"""History: pages, retention, and consistent counters."""

from uuid import UUID, uuid4

import pytest

from ostinato.core.model import FIRST_ID, AskedBy, Change, Event, Execution, Live, Skip, SkipReason, Status
from ostinato.core.outcome import OutcomeKind
from ostinato.store import history
from ostinato.store.history import Keep, Position
from tests.build import DAY, HOUR, MINUTE, NOW, SECOND, a_job, a_live, an_execution
from tests.store.conftest import DONE, FAILURE, together


def with_history(world, count, age=DAY, step=MINUTE, **given):
    """Return a job with this many executions, the newest of this age."""
    results = list(OutcomeKind)
    job = a_job(world.chance.id(world.now), every=HOUR, last_number=count, last_execution_number=count, **given)
    ended = []
    for n in range(1, count + 1):
        at = world.now - age - (count - n) * step
        result = results[n % 5]
        setattr(job.facts, result, getattr(job.facts, result) + 1)
        times = dict.fromkeys(("due_at", "run_at", "queued_at", "started_at", "finished_at"), at)
        told = {"number": n, "execution_number": n, "outcome": result, "asked": AskedBy.HAND}
        ended.append(an_execution(job, id=world.chance.id(at), **told, **times))
    world.store.jobs.add([Change(job, ended=tuple(ended))])
    return job.id


def kept(world, job_id):
    return [e.number for e in world.store.history.of_job(job_id, 100_000)][::-1]


USUAL = Keep()


def prune(world, keep=USUAL, jobs=200):
    after = FIRST_ID
    while after is not None:
        after = world.store.history.prune(after, world.now, keep, jobs)


# -- queries


def test_pages_of_a_job_go_from_the_newest_to_the_oldest_without_a_gap(world):
    job_id = with_history(world, 25)
    seen, before = [], None
    while page := world.store.history.of_job(job_id, 10, before):
        seen += [e.number for e in page]
        before = Position(page[-1].number, page[-1].attempt)
    assert seen == list(range(25, 0, -1))


def test_attempts_of_one_occurrence_stand_side_by_side(world):
    job_id = world.enqueue(max_retries=2)[0]
    worker = world.worker()
    for _ in range(3):
        world.run_all(worker, FAILURE)
        world.advance(HOUR)
    assert [e.attempt for e in world.store.history.of_job(job_id, 2)] == [2, 1]
    assert [e.attempt for e in world.store.history.of_job(job_id, 2, Position(1, 1))] == [0]


def test_all_history_is_paged_by_id(world):
    for _ in range(3):
        world.enqueue(5)
        world.run_all(world.worker())
        world.advance(SECOND)
    seen, before = [], None
    while page := world.store.history.page(4, before):
        seen += [e.id for e in page]
        before = seen[-1]
    assert (len(seen), seen) == (15, sorted(seen, reverse=True))


def test_an_execution_is_found_wherever_it_stands(world):
    world.enqueue()
    (claimed,) = world.claim(world.worker())
    assert isinstance(world.store.history.find(claimed.live.id), Live)
    world.settle([claimed])
    assert isinstance(world.store.history.find(claimed.live.id), Execution)
    assert world.store.history.find(uuid4()) is None


def test_what_is_live_is_listed_for_all_or_one(world):
    ids = world.enqueue(3)
    assert {live.job_id for live in world.store.history.live(10)} == set(ids)
    assert [live.job_id for live in world.store.history.live(10, job_id=ids[1])] == [ids[1]]
    first = world.store.history.live(1)
    assert len(world.store.history.live(10, before=first[0].id)) == 2


def test_durations_are_those_of_the_newest_completed_runs(world):
    job_id = world.add_one(every=HOUR)
    worker = world.worker()
    for seconds in (1, 2, 3):
        world.now = NOW + seconds * HOUR
        world.fire()
        claimed = world.claim(worker)
        world.advance(seconds * SECOND)
        world.settle(claimed, FAILURE if seconds == 2 else DONE)
        world.command(job_id, "pause")
        world.command(job_id, "resume")
        world.sql("UPDATE {jobs} SET next_due_at = :due", due=NOW + (seconds + 1) * HOUR)
    assert world.store.history.durations(job_id) == [3 * SECOND, SECOND]


def test_events_are_listed_for_all_or_one(world):
    first, second = world.add(2)
    world.command(first, "pause")
    world.command(second, "cancel")
    world.store.history.tell([Event(world.chance.id(NOW), NOW, "clock.jumped")])
    kinds = {event.kind for event in world.store.history.events(10)}
    assert kinds == {"job.created", "job.paused", "job.cancelled", "clock.jumped"}
    assert [event.kind for event in world.store.history.events(10, first)] == ["job.paused", "job.created"]


def test_the_newest_execution_is_the_one_that_was_made_last(world):
    job_id = world.enqueue(max_retries=1)[0]
    assert world.store.history.last_of(job_id) is None
    worker = world.worker()
    world.run_all(worker, FAILURE)
    world.advance(HOUR)
    world.run_all(worker)
    assert world.store.history.last_of(job_id).attempt == 1


# -- retention


def test_the_newest_100_are_kept_however_old(world):
    job_id = with_history(world, 150, age=300 * DAY)
    prune(world)
    assert kept(world, job_id) == list(range(51, 151))
    world.check()


def test_what_is_younger_than_30_days_is_kept(world):
    job_id = with_history(world, 400, age=DAY, step=2 * HOUR)
    prune(world)
    assert kept(world, job_id) == list(range(52, 401))
    world.advance(10 * DAY)
    prune(world)
    assert kept(world, job_id) == list(range(172, 401))
    world.check()


def test_of_one_job_no_more_than_10_000_are_kept_however_young(world, monkeypatch):
    monkeypatch.setattr(history, "MOST_KEPT", 300)
    monkeypatch.setattr(history, "BATCH", 7)
    job_id = with_history(world, 340)
    prune(world)
    assert kept(world, job_id) == list(range(41, 341))
    world.check()


def test_a_job_may_keep_more_or_less(world, monkeypatch):
    monkeypatch.setattr(history, "MOST_KEPT", 50)
    few = with_history(world, 60, age=10 * DAY, keep_executions=3, keep_days=5)
    many = with_history(world, 60, age=300 * DAY, keep_executions=55)
    long = with_history(world, 60, age=300 * DAY, keep_executions=0, keep_days=400)
    prune(world)
    assert kept(world, few) == [58, 59, 60]
    assert kept(world, many) == list(range(6, 61))
    assert kept(world, long) == list(range(11, 61))
    world.check()


def test_everything_is_pruned_in_small_transactions(world, monkeypatch):
    monkeypatch.setattr(history, "BATCH", 10)
    job_id = with_history(world, 160, age=300 * DAY)
    sizes = []
    take = world.store.history._pruned

    def counting(tx, job):
        sizes.append(len(kept(world, job_id)))
        return take(tx, job)

    monkeypatch.setattr(world.store.history, "_pruned", counting)
    prune(world)
    assert sizes == [160, 150, 140, 130, 120, 110]


def test_two_sweepers_that_prune_at_once_still_count_right(world):
    ids = [with_history(world, 250, age=300 * DAY) for _ in range(4)]
    stores = [world.another(), world.another()]
    together(*[lambda s=s: s.history.prune(FIRST_ID, world.now, Keep(executions=10)) for s in stores])
    assert {len(kept(world, job_id)) for job_id in ids} == {10}
    world.check()


def test_nothing_is_written_for_jobs_that_have_nothing_to_prune(world, monkeypatch):
    world.add(20)
    with_history(world, 300)
    monkeypatch.setattr(world.store.database, "write", None)
    prune(world)


def test_old_skips_go_and_are_still_counted(world):
    job_id = world.add_one(every=MINUTE)
    world.advance(HOUR)
    world.fire()
    world.advance(31 * DAY)
    world.fire()
    assert len(world.skips(job_id)) > 1
    before = world.facts(job_id).skipped
    world.advance(HOUR)
    world.fire()
    prune(world)
    assert all(skip.last_due_at >= world.now - 30 * DAY for skip in world.skips(job_id))
    assert world.facts(job_id).skipped > before
    world.check()


def test_jobs_are_looked_at_page_by_page(world):
    ids = []
    for _ in range(7):
        world.advance(SECOND)
        ids.append(with_history(world, 12, age=300 * DAY))
    prune(world, Keep(executions=5), jobs=3)
    assert {len(kept(world, job_id)) for job_id in ids} == {5}


def test_a_job_that_cannot_be_read_keeps_everything(world):
    job_id = with_history(world, 20, age=300 * DAY)
    world.sql("UPDATE {jobs} SET policies = '7'")
    prune(world, Keep(executions=5))
    assert len(kept(world, job_id)) == 20


@pytest.mark.parametrize("how", ["completed", "failed", "cancelled"])
def test_a_finished_run_once_job_goes_after_30_days(world, how):
    job_id = world.enqueue()[0]
    if how == "cancelled":
        world.command(job_id, "cancel")
    else:
        world.run_all(world.worker(), DONE if how == "completed" else FAILURE)
    assert world.status(job_id) == how
    world.advance(30 * DAY)
    prune(world)
    assert world.status(job_id) == how
    world.advance(SECOND)
    prune(world)
    assert world.sql("SELECT id FROM {jobs}") == []
    assert world.history(job_id) == []
    world.check()


def test_a_run_once_job_that_was_begun_again_meanwhile_does_not_go(world, monkeypatch):
    job_id = world.enqueue()[0]
    worker = world.worker()
    world.run_all(worker)
    world.advance(31 * DAY)
    expire = world.store.history._expire

    def after_a_restart(jobs, now):
        world.command(job_id, "restart")
        return expire(jobs, now)

    monkeypatch.setattr(world.store.history, "_expire", after_a_restart)
    prune(world)
    assert world.status(job_id) is Status.PENDING
    assert len(world.history(job_id)) == 1
    world.check()


def test_other_jobs_that_ended_stay(world):
    job_id = world.add_one(every=HOUR, total_repeats=1)
    world.advance(HOUR)
    world.run_all(world.worker())
    world.advance(90 * DAY)
    prune(world)
    assert world.status(job_id) is Status.COMPLETED


def test_deleted_jobs_are_removed_with_all_that_belongs_to_them(world, monkeypatch):
    monkeypatch.setattr(history, "BATCH", 10)
    stays, goes = with_history(world, 35), with_history(world, 35)
    world.command(goes, "delete")
    world.store.history.tell([Event(world.chance.id(NOW), NOW, "job.edited", goes)])
    assert world.store.history.remove_deleted() == 1
    assert (world.history(goes), len(world.history(stays))) == ([], 35)
    assert [event.kind for event in world.store.history.events(10, goes)] == ["job.deleted"]
    assert world.store.history.remove_deleted() == 0
    world.check()


def test_a_deleted_job_that_still_runs_is_removed_when_it_has_ended(world):
    job_id = world.enqueue()[0]
    claimed = world.claim(world.worker())
    world.command(job_id, "delete")
    assert world.store.history.remove_deleted() == 0
    world.settle(claimed)
    assert world.store.history.remove_deleted() == 1
    world.check()


def test_only_so_many_deleted_jobs_are_removed_at_once(world):
    for job_id in world.add(5):
        world.command(job_id, "delete")
    assert [world.store.history.remove_deleted(limit=2) for _ in range(4)] == [2, 2, 1, 0]


def test_old_events_and_workers_go_and_young_ones_stay(world, monkeypatch):
    monkeypatch.setattr(history, "BATCH", 10)
    old = world.worker()
    world.store.workers.leave(old, world.now)
    alive = world.worker()
    world.store.history.tell([Event(world.chance.id(NOW), NOW, "old") for _ in range(45)])
    world.advance(31 * DAY)
    world.store.history.tell([Event(world.chance.id(world.now), world.now, "young")])
    world.store.history.prune_events(world.now, Keep(), world.chance.id(world.now - 30 * DAY))
    assert [event.kind for event in world.store.history.events(100)] == ["young"]
    assert [row.id for row in world.store.workers.seen(world.now, since=90 * DAY)] == [alive]


# -- consistent counters


def test_a_store_that_was_only_used_has_no_problems(world):
    assert world.store.audit.problems() == []
    world.enqueue(5)
    world.add(3)
    world.run_all(world.worker())
    assert world.store.audit.problems() == []


def planted_orphans():
    strange = a_job(UUID(int=5))
    return {
        "live": Change(a_job(), add=(a_live(strange),)),
        "executions": Change(a_job(), ended=(an_execution(strange),)),
        "skips": Change(
            a_job(), skips=(Skip(uuid4(), strange.id, SkipReason.MISSED, NOW, NOW, 1, NOW),)
        ),
    }  # fmt: skip


@pytest.mark.parametrize("table", ["live", "executions", "skips"])
def test_an_orphan_is_found(world, table):
    world.store.jobs.add([planted_orphans()[table]])
    (problem,) = world.store.audit.problems()
    assert table in problem


@pytest.mark.parametrize("counter", ["completed", "failed", "timed_out", "cancelled", "lost", "skipped"])
def test_a_counter_that_differs_from_history_is_found(world, counter):
    world.add(2)
    job_id = with_history(world, 10)
    world.sql(f"UPDATE {{jobs}} SET {counter} = {counter} + 1 WHERE id = :id", id=job_id)
    (problem,) = world.store.audit.problems()
    assert str(job_id) in problem
    assert counter in problem


def test_an_attempt_that_is_live_and_ended_at_once_is_found(world):
    job = a_job(failed=1)
    world.store.jobs.add([Change(job, add=(live := a_live(job),), ended=(an_execution(job),))])
    assert any(str(live.id) in problem and "live" in problem for problem in world.store.audit.problems())


def test_one_that_waits_for_a_turn_that_nobody_gives_is_found(world):
    worker, job_id = world.worker(), world.add_one(every=HOUR)
    world.advance(HOUR)
    world.fire()
    (running,) = world.claim(worker)
    world.command(job_id, "run", None)
    assert world.store.audit.problems() == []
    world.sql("DELETE FROM {live} WHERE id = :id RETURNING id", id=running.live.id)
    assert any("turn" in problem for problem in world.store.audit.problems())

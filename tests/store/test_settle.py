"""Settling: under the fence, many in one transaction, safe to repeat."""

from dataclasses import replace
from random import Random

import pytest

from ostinato.chance import RandomChance
from ostinato.core import lifecycle
from ostinato.core.errors import StoreUnavailable
from ostinato.core.model import AskedBy, Finished, Status, WaitsFor
from ostinato.core.outcome import Cancelled, Completed, Deferred, Error, Failed, Interrupted, Lost, TimedOut
from ostinato.core.policy import OnLost, Overlap, WhenExhausted
from ostinato.store import settling
from tests.build import DAY, HOUR, MINUTE, NOW, SECOND, a_job, a_live
from tests.store.conftest import DONE, FAILURE

OUTCOMES = [
    DONE, FAILURE, TimedOut(MINUTE), Cancelled("ops", "enough"), Lost(), Interrupted(), Deferred(NOW + HOUR),
]  # fmt: skip


def snapshot(world, job_id):
    return world.store.jobs.get([job_id]), world.history(job_id), world.skips(job_id)


def test_an_execution_moves_from_live_into_history_and_is_counted(world):
    job_id = world.enqueue()[0]
    worker = world.worker()
    world.advance(SECOND)
    (claimed,) = world.claim(worker)
    world.advance(MINUTE)
    settled = world.settle([claimed], Completed('{"rows": 3}'))
    assert (len(settled.changes), settled.refused, settled.left) == (1, (), ())
    (ended,) = world.history(job_id)
    assert (ended.id, ended.result, ended.outcome) == (claimed.live.id, '{"rows": 3}', "completed")
    assert (ended.queued_at, ended.started_at, ended.finished_at) == (NOW, NOW + SECOND, world.now)
    assert (ended.worker_id, ended.fence, ended.version) == (worker, 1, 1)
    assert world.lives(job_id) == ()
    assert world.status(job_id) is Status.COMPLETED
    world.check()


def test_settling_nothing_is_nothing(world):
    assert world.store.queue.settle([]) == settling.Settled()


def test_a_batch_settles_many_jobs_and_outcomes_in_one_transaction(world):
    ids = world.enqueue(70, on_lost=OnLost.FAIL)
    claimed = world.claim(world.worker())
    finished = [Finished(c.live, OUTCOMES[n % 7], world.now) for n, c in enumerate(claimed)]
    assert len(world.store.queue.settle(finished).changes) == 70
    assert world.counts() == {
        Status.COMPLETED: 10, Status.FAILED: 30, Status.CANCELLED: 10, Status.PENDING: 10, Status.SCHEDULED: 10,
    }  # fmt: skip
    assert len(ids) == 70
    world.check()


# -- the fence (G2)


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda o: type(o).__name__)
def test_a_stale_fence_is_refused_and_changes_nothing(world, outcome):
    job_id = world.enqueue()[0]
    first, second = world.worker(), world.worker()
    late = world.claim(first)
    world.command(job_id, "release", world.lives(job_id)[0])
    current = world.claim(second)
    before = snapshot(world, job_id)
    settled = world.settle(late, outcome)
    assert settled.changes == ()
    assert snapshot(world, job_id) == before
    counted = not isinstance(outcome, Interrupted | Deferred | Lost)
    assert len(settled.refused) == len(world.events("result.refused", job_id)) == counted
    world.settle(current)
    assert [e.worker_id for e in world.history(job_id)] == [second]
    world.check()


def test_the_late_result_of_a_lost_worker_is_refused_and_counted(world):
    job_id = world.add_one(every=HOUR)
    world.advance(HOUR)
    world.fire()
    worker = world.worker()
    late = world.claim(worker)
    world.advance(MINUTE)
    (lease,) = world.store.workers.leases()
    world.store.workers.close_lost(lease, world.now)
    before = snapshot(world, job_id)
    settled = world.settle(late)
    assert [each.live.id for each in settled.refused] == [late[0].live.id]
    assert snapshot(world, job_id) == before
    (event,) = world.events("result.refused", job_id)
    assert (event.execution_id, event.worker_id) == (late[0].live.id, worker)
    world.check()


def test_the_late_result_of_what_was_ended_by_force_is_refused_and_counted(world):
    job_id = world.add_one(every=HOUR)
    world.advance(HOUR)
    world.fire()
    late = world.claim(world.worker())

    def force(job, lives, _):
        return lifecycle.cancel_execution(job, lives, lives[0], world.now, world.chance, "ops", force=True)

    world.store.jobs.change(job_id, force)
    world.advance(SECOND)
    assert len(world.settle(late).refused) == 1
    assert [e.outcome for e in world.history(job_id)] == ["cancelled"]
    world.check()


def test_a_result_for_a_job_that_is_gone_is_refused(world):
    job_id = world.enqueue()[0]
    claimed = world.claim(world.worker())
    world.sql("DELETE FROM {jobs}")
    world.sql("DELETE FROM {live}")
    assert len(world.settle(claimed).refused) == 1
    assert world.history(job_id) == []


def test_what_is_queued_again_cannot_be_settled_by_whoever_had_it(world):
    job_id = world.enqueue()[0]
    late = world.claim(world.worker())
    world.settle(late, Interrupted())
    assert len(world.settle(late).refused) == 1
    assert world.lives(job_id)[0].worker_id is None


def test_progress_and_checkpoints_carry_the_fence(world):
    job_id = world.enqueue()[0]
    (claimed,) = world.claim(world.worker())
    queue, live = world.store.queue, claimed.live
    assert queue.save_checkpoint(live.id, live.fence, '{"page": 2}')
    assert not queue.save_checkpoint(live.id, live.fence - 1, '{"page": 1}')
    queue.save_progress([(live.id, live.fence, '{"done": 2}')])
    queue.save_progress([(live.id, live.fence - 1, '{"done": 1}')])
    queue.save_progress([])
    (current,) = world.lives(job_id)
    assert (current.checkpoint, current.progress) == ('{"page": 2}', '{"done": 2}')
    world.settle([claimed])
    assert not queue.save_checkpoint(live.id, live.fence, '{"page": 3}')
    assert world.history(job_id)[0].checkpoint == '{"page": 2}'


def test_the_next_attempt_goes_on_from_the_checkpoint(world):
    job_id = world.enqueue(max_retries=1)[0]
    worker = world.worker()
    (claimed,) = world.claim(worker)
    world.store.queue.save_checkpoint(claimed.live.id, claimed.live.fence, '{"page": 2}')
    world.settle([claimed], FAILURE)
    world.advance(HOUR)
    world.store.queue.time_has_come(world.now, 10)
    (again,) = world.claim(worker)
    assert (again.live.checkpoint, again.live.attempt) == ('{"page": 2}', 1)
    world.settle([again], Interrupted())
    assert world.lives(job_id)[0].checkpoint == '{"page": 2}'


# -- repeated (G10)


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda o: type(o).__name__)
def test_a_settle_whose_answer_was_lost_is_repeated_safely(world, outcome):
    job_id = world.enqueue(max_retries=2)[0]
    claimed = world.claim(world.worker())
    world.settle(claimed, outcome)
    before = snapshot(world, job_id)
    again = world.settle(claimed, outcome)
    assert (again.changes, again.refused) == ((), ())
    assert snapshot(world, job_id) == before
    assert world.events("result.refused") == []
    world.check()


def test_twice_in_one_batch_is_once(world):
    job_id = world.enqueue()[0]
    claimed = world.claim(world.worker())
    settled = world.settle(claimed * 2)
    assert (len(settled.changes), settled.refused) == (1, ())
    assert len(world.history(job_id)) == 1
    world.check()


# -- several of one job


def test_several_executions_of_one_job_in_one_batch(world):
    job_id = world.add_one(every=MINUTE, overlap=Overlap.ALLOW, max_overlap=5)
    worker = world.worker()
    claimed = []
    for _ in range(5):
        world.advance(MINUTE)
        world.fire()
        claimed += world.claim(worker)
    outcomes = [DONE, FAILURE, DONE, Lost(), Interrupted()]
    settled = world.store.queue.settle(
        [Finished(c.live, outcome, world.now) for c, outcome in zip(claimed, outcomes, strict=True)]
    )
    assert len(settled.changes) == 5
    facts = world.facts(job_id)
    assert (facts.completed, facts.failed, facts.lost, facts.last_execution_number) == (2, 1, 1, 7)
    assert sorted((live.number, live.attempt) for live in world.lives(job_id)) == [(2, 1), (4, 1), (5, 0)]
    world.check()


@pytest.mark.parametrize("seed", range(40))
def test_a_batch_of_one_job_comes_to_the_same_as_one_after_the_other(seed):
    """Rows that one change adds or alters may be altered or removed by the next."""
    dice, chance = Random(seed), RandomChance(seed)
    failing = dice.choice([WhenExhausted.FAIL, WhenExhausted.CONTINUE])
    policies = {"overlap": Overlap.ALLOW, "max_overlap": 4, "max_retries": 1, "when_exhausted": failing}
    job = a_job(every=MINUTE, total_repeats=dice.choice([0, 5]), last_number=5, last_execution_number=5, **policies)
    running = [a_live(job, running=True, number=n, slot=n - 1, failures=dice.choice([0, 1])) for n in range(1, 5)]
    waiting = a_live(job, number=5, slot=-1, waits_for=WaitsFor.TURN, asked=dice.choice([*AskedBy]))
    lives, changes = [*running, waiting], []
    for live in dice.sample(running, 4):
        change = lifecycle.settle(job, lives, live, dice.choice(OUTCOMES), NOW, chance)
        job, lives = change.job, settling._after(lives, change)
        changes.append(change)
    (merged,) = settling._one_per_job(changes)
    assert after([*running, waiting], [merged]) == after([*running, waiting], changes)


def after(lives, changes):
    """Return the rows after these changes, each saved as by `locking.save`."""
    live = {row.id: row for row in lives}
    kept = {}
    for change in changes:
        for gone in change.drop:
            del live[gone]
        live |= {row.id: row for row in change.alter if live[row.id]} | {row.id: row for row in change.add}
        kept |= {row.id: row for row in (*change.ended, *change.skips, *change.events)}
    return live, kept, changes[-1].job


# -- one bad row


@pytest.mark.parametrize("text", ["a\0b", "half \ud800 of a character", "\0", "ok é漢"])
def test_words_that_no_database_takes_are_kept_legibly(world, text):
    ids = world.enqueue(3)
    claimed = world.claim(world.worker())
    outcomes = [DONE, Failed(Error(text, text, text)), Completed(f'"{text}"')]
    finished = [Finished(c.live, o, world.now) for c, o in zip(claimed, outcomes, strict=True)]
    settled = world.store.queue.settle(finished)
    assert (len(settled.changes), settled.left) == (3, ())
    (failed,) = [e for job_id in ids for e in world.history(job_id) if e.outcome == "failed"]
    shown = text.replace("\0", "␀").replace("\ud800", "?")
    assert (failed.error_kind, failed.error, failed.traceback) == (shown, shown, shown)
    assert f'"{shown}"' in {e.result for job_id in ids for e in world.history(job_id)}
    world.check()


def test_a_row_that_cannot_be_saved_is_left_and_the_others_are_settled(world, monkeypatch, caplog):
    bad, *_ = world.enqueue(7)
    claimed = world.claim(world.worker())

    def settle(job, *rest):
        change = lifecycle.settle(job, *rest)
        return change if job.id != bad else replace(change, ended=(replace(change.ended[0], outcome="odd"),))

    monkeypatch.setattr(settling, "settle", settle)
    settled = world.settle(claimed)
    assert (len(settled.changes), [f.live.job_id for f in settled.left]) == (6, [bad])
    assert caplog.text.count(str(settled.left[0].live.id)) == 1
    assert world.status(bad) is Status.RUNNING
    monkeypatch.undo()
    assert len(world.settle(claimed).changes) == 1
    world.check()


def test_a_row_that_no_rule_can_settle_is_left_and_the_others_are_settled(world, monkeypatch, caplog):
    bad, *_ = world.enqueue(5)
    claimed = world.claim(world.worker())
    monkeypatch.setattr(settling, "settle", lambda job, *rest: 1 / 0 if job.id == bad else lifecycle.settle(job, *rest))
    settled = world.settle(claimed)
    assert (len(settled.changes), [f.live.job_id for f in settled.left]) == (4, [bad])
    assert "ZeroDivisionError" in caplog.text


def test_a_job_that_became_unreadable_while_it_ran_is_left_for_one_that_can_read_it(world):
    job_id = world.enqueue()[0]
    claimed = world.claim(world.worker())
    world.sql("UPDATE {jobs} SET policies = '7', version = 2")
    settled = world.settle(claimed)
    assert (settled.changes, settled.refused, len(settled.left)) == ((), (), 1)
    assert world.sql("SELECT count(*) FROM {live} WHERE worker_id IS NOT NULL") == [(1,)]
    assert world.history(job_id) == []


def test_a_database_that_is_away_is_said_so_and_nothing_is_lost(world, monkeypatch):
    job_id = world.enqueue()[0]
    claimed = world.claim(world.worker())

    def away(*_):
        raise StoreUnavailable("away")

    monkeypatch.setattr(world.store.database, "write", away)
    with pytest.raises(StoreUnavailable):
        world.settle(claimed)
    monkeypatch.undo()
    world.settle(claimed)
    assert len(world.history(job_id)) == 1


# -- retries, releases


def test_a_failed_execution_is_tried_again_after_its_backoff_until_its_retries_are_spent(world):
    """G7."""
    job_id = world.enqueue(max_retries=3)[0]
    worker = world.worker()
    waits = []
    for _ in range(4):
        assert len(world.run_all(worker, FAILURE)) == 1
        if world.lives(job_id):
            waits.append(world.lives(job_id)[0].run_at - world.now)
            world.advance(waits[-1])
    assert waits == [MINUTE, 2 * MINUTE, 4 * MINUTE]
    assert world.status(job_id) is Status.FAILED
    assert [(e.number, e.attempt, e.failures) for e in world.history(job_id)][::-1] == [
        (1, 0, 0), (1, 1, 1), (1, 2, 2), (1, 3, 3),
    ]  # fmt: skip
    assert len({e.id for e in world.history(job_id)}) == 4
    world.check()


def test_an_occurrence_that_was_lost_three_times_gets_no_fourth_worker(world):
    job_id = world.enqueue()[0]
    for _ in range(3):
        worker = world.worker()
        world.advance(DAY)
        world.store.queue.time_has_come(world.now, 10)
        assert len(world.claim(worker)) == 1
        lease = next(lease for lease in world.store.workers.leases() if lease.worker_id == worker)
        world.store.workers.close_lost(lease, world.now)
    assert world.status(job_id) is Status.FAILED
    assert [e.outcome for e in world.history(job_id)] == ["lost"] * 3
    world.check()


def test_what_is_released_comes_back_as_it_was(world):
    job_id = world.enqueue()[0]
    worker = world.worker()
    (claimed,) = world.claim(worker)
    world.advance(SECOND)
    world.settle([claimed], Interrupted())
    (live,) = world.lives(job_id)
    assert (live.id, live.attempt, live.failures, live.releases) == (claimed.live.id, 0, 0, 1)
    assert (live.worker_id, live.started_at, live.waits_for) == (None, None, None)
    assert world.facts(job_id).failed == 0
    (again,) = world.claim(worker)
    assert again.live.fence > claimed.live.fence
    world.settle([again])
    assert len(world.history(job_id)) == 1


def test_what_is_deferred_waits_until_then(world):
    job_id = world.enqueue()[0]
    worker = world.worker()
    world.settle(world.claim(worker), Deferred(NOW + HOUR))
    assert world.lives(job_id)[0].waits_for is WaitsFor.TIME
    assert world.store.queue.next_wake() == NOW + HOUR
    world.advance(HOUR)
    assert len(world.run_all(worker)) == 1
    assert [(e.attempt, e.releases) for e in world.history(job_id)] == [(0, 1)]
    world.check()


def test_a_retry_of_a_paused_job_is_not_queued(world):
    """G8."""
    job_id = world.add_one(every=HOUR)
    world.advance(HOUR)
    world.fire()
    claimed = world.claim(world.worker())
    world.command(job_id, "pause")
    world.settle(claimed, FAILURE)
    assert (world.lives(job_id), world.status(job_id)) == ((), Status.PAUSED)
    world.check()


def test_a_budget_that_is_used_up_waits_for_its_reset_and_then_goes_on_with_the_failed_occurrence(world):
    job_id = world.add_one(
        every=DAY, max_retries=2, retry_reset_period=6 * HOUR, when_exhausted=WhenExhausted.WAIT_RESET
    )
    worker = world.worker()
    world.advance(DAY)
    world.run_all(worker, FAILURE)
    world.advance(MINUTE)
    world.run_all(worker, FAILURE)
    assert world.facts(job_id).next_due_at == world.store.queue.next_wake() == NOW + DAY + 6 * HOUR
    world.now = NOW + DAY + 6 * HOUR
    assert len(world.run_all(worker)) == 1
    assert [(e.number, e.attempt, e.outcome) for e in world.history(job_id)] == [
        (1, 2, "completed"), (1, 1, "failed"), (1, 0, "failed"),
    ]  # fmt: skip
    world.check()


# -- while it runs


def test_marks_say_what_others_have_decided(world):
    ids = world.enqueue(3)
    claimed = {c.live.job_id: c for c in world.claim(world.worker())}
    lives = [claimed[job_id].live for job_id in ids]
    world.command(ids[0], "cancel")
    world.command(ids[1], "release", world.lives(ids[1])[0])
    world.settle([claimed[ids[2]]])
    marks = world.store.queue.marks([live.id for live in lives])
    assert marks[lives[0].id].cancel_asked_at == NOW
    assert marks[lives[1].id].fence != lives[1].fence
    assert lives[2].id not in marks
    assert world.store.queue.marks([]) == {}

"""Plain successes: the fast path leaves the same rows as the rule; special runs are left to the rule."""

from dataclasses import asdict

import pytest

from ostinato.core.model import Finished
from ostinato.core.outcome import Completed
from ostinato.core.policy import Overlap
from tests.build import HOUR, MINUTE, SECOND
from tests.store.conftest import DONE

PLAIN = {
    "once": {"once": True},
    "keyed": {"once": True, "key": "nightly"},
    "every": {"every": HOUR},
    "cron": {"cron": "0 * * * *"},
    "allow": {"every": HOUR, "overlap": Overlap.ALLOW, "max_overlap": 3},
}


def one_running(world, worker, *, once=False, **given):
    """A job with an occurrence that has just been claimed."""
    if once:
        (job_id,) = world.enqueue(**given)
    else:
        job_id = world.add_one(**given)
        world.advance(HOUR)
        world.fire()
    (claimed,) = world.claim(worker)
    world.advance(SECOND)
    return job_id, claimed


def end(world, claimed, outcome=DONE, *, shortcut=True):
    definition = claimed.definition if shortcut else None
    return world.store.queue.settle([Finished(claimed.live, outcome, world.now, definition)])


def told(world, job_id):
    """Return all rows of a job without ids and instants, which differ between jobs."""
    rows = [world.facts(job_id), *world.history(job_id), *world.lives(job_id)]
    return [
        {
            name: value is None if name.endswith(("_at", "id", "anchor")) else value
            for name, value in asdict(row).items()
        }
        for row in rows
    ]


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("result", [None, '{"rows": 3}'])
def test_the_shortcut_leaves_the_same_rows_as_the_rule(world, name, result):
    worker, outcome = world.worker(), Completed(result)
    short, claimed = one_running(world, worker, **PLAIN[name])
    settled = end(world, claimed, outcome)
    assert [each.live.id for each in settled.plain] == [claimed.live.id]
    assert settled.changes == settled.refused == settled.left == ()
    after = told(world, short)
    world.check()
    world.command(short, "delete")
    full, claimed = one_running(world, worker, **PLAIN[name])
    assert len(end(world, claimed, outcome, shortcut=False).changes) == 1
    assert told(world, full) == after
    world.check()


def test_a_checkpoint_and_args_of_its_own_move_into_history(world):
    worker = world.worker()
    job_id = world.add_one(every=HOUR)
    world.command(job_id, "run", '{"n": 2}')
    (claimed,) = world.claim(worker)
    live = claimed.live
    world.store.queue.save_checkpoint(live.id, live.fence, '{"page": 7}')
    assert len(end(world, claimed).plain) == 1
    (ended,) = world.history(job_id)
    assert (ended.args, ended.checkpoint, ended.asked) == ('{"n": 2}', '{"page": 7}', "hand")
    assert (world.facts(job_id).completed, world.facts(job_id).repeats_done) == (1, 0)
    world.check()


@pytest.mark.parametrize("act", ["pause", "cancel", "delete", "run"])
def test_what_somebody_has_touched_is_left_to_the_rule(world, act):
    job_id, claimed = one_running(world, world.worker(), every=HOUR)
    world.command(job_id, act, *([None] if act == "run" else []))
    settled = end(world, claimed)
    assert (settled.plain, len(settled.changes)) == ((), 1)
    world.check()


@pytest.mark.parametrize(
    ("given", "otherwise"),
    [
        ({"every": HOUR}, "{jobs} SET version = version + 1"),
        ({"every": HOUR}, "{jobs} SET last_execution_number = last_execution_number + 1"),
        ({"every": HOUR}, "{jobs} SET reset_at = 1"),
        ({"every": HOUR}, "{jobs} SET next_due_at = NULL"),
        ({"once": True}, "{jobs} SET next_due_at = 1"),
        ({"once": True}, "{jobs} SET last_due_at = last_due_at - 1"),
        ({"once": True}, "{jobs} SET last_due_at = NULL"),
        ({"once": True}, "{jobs} SET ended_as = 'failed'"),
        ({"every": HOUR}, "{live} SET cancel_asked_at = 1"),
    ],
    ids=["edited", "counts a newer one", "waits for a reset", "no next time", "another time",
         "fired for an earlier time", "never fired", "ended", "asked to stop"],
)  # fmt: skip
def test_a_job_that_is_not_as_expected_is_left_to_the_rule(world, given, otherwise):
    worker = world.worker()
    job_id, claimed = one_running(world, worker, **given)
    _, beside = one_running(world, worker, once=True)
    column = "id" if "{jobs}" in otherwise else "job_id"
    world.sql(f"UPDATE {otherwise} WHERE {column} = :id RETURNING 1", id=job_id)
    finished = [Finished(each.live, DONE, world.now, each.definition) for each in (claimed, beside)]
    settled = world.store.queue.settle(finished)
    assert settled.plain == (finished[1],)
    assert len(settled.changes) + len(settled.refused) + len(settled.left) == 1


def test_runs_that_are_not_there_any_more_leave_the_others_as_they_are(world):
    worker = world.worker()
    settled_before, claimed = one_running(world, worker, once=True)
    end(world, claimed)
    job_id, beside = one_running(world, worker, every=HOUR)
    finished = [Finished(each.live, DONE, world.now, each.definition) for each in (claimed, beside)]
    settled = world.store.queue.settle(finished)
    assert (settled.plain, settled.refused) == ((finished[1],), (finished[0],))
    assert (world.facts(settled_before).completed, world.facts(job_id).completed) == (1, 1)
    world.check()


def test_g2_a_stale_fence_is_refused(world):
    worker = world.worker()
    job_id, claimed = one_running(world, worker, every=HOUR)
    world.sql("UPDATE {live} SET fence = fence + 1 WHERE id = :id RETURNING id", id=claimed.live.id)
    before = told(world, job_id)
    settled = end(world, claimed)
    assert (settled.plain, len(settled.refused)) == ((), 1)
    assert told(world, job_id) == before


def test_g2_the_result_of_an_older_claim_in_the_same_batch_is_refused(world):
    worker = world.worker()
    job_id, older = one_running(world, worker, every=HOUR)
    world.command(job_id, "release", older.live)
    (newer,) = world.claim(worker)
    finished = [Finished(each.live, DONE, world.now, each.definition) for each in (older, newer)]
    settled = world.store.queue.settle(finished)
    assert (settled.plain, settled.refused) == ((finished[1],), (finished[0],))


def test_g2_a_released_run_is_refused(world):
    job_id, claimed = one_running(world, world.worker(), every=HOUR)
    world.sql("UPDATE {live} SET worker_id = NULL WHERE id = :id RETURNING id", id=claimed.live.id)
    settled = end(world, claimed)
    assert (settled.plain, len(settled.refused), len(world.lives(job_id))) == ((), 1, 1)


def test_g10_a_settle_whose_answer_was_lost_is_repeated_safely(world):
    job_id, claimed = one_running(world, world.worker(), once=True)
    assert len(end(world, claimed).plain) == 1
    again = end(world, claimed)
    assert (again.plain, again.changes, again.refused) == ((), (), ())
    assert world.facts(job_id).completed == 1


def test_a_batch_may_hold_both_kinds(world):
    worker = world.worker()
    world.enqueue(5)
    recurring = [world.add_one(every=HOUR, total_repeats=2) for _ in range(3)]
    world.advance(HOUR)
    world.fire()
    claimed = world.claim(worker)
    world.advance(MINUTE)
    finished = [Finished(each.live, DONE, world.now, each.definition) for each in claimed]
    settled = world.store.queue.settle(finished)
    assert (len(settled.plain), len(settled.changes)) == (5, 3)
    assert [world.facts(job_id).repeats_done for job_id in recurring] == [1, 1, 1]
    world.check()


def test_two_runs_of_one_job_in_a_batch_are_left_to_the_rule(world):
    worker = world.worker()
    job_id = world.add_one(every=HOUR, overlap=Overlap.ALLOW, max_overlap=2)
    for _ in range(2):
        world.advance(HOUR)
        world.fire()
    claimed = world.claim(worker)
    assert len(claimed) == 2
    finished = [Finished(each.live, DONE, world.now, each.definition) for each in claimed]
    settled = world.store.queue.settle(finished)
    assert (len(settled.plain), len(settled.changes)) == (0, 2)
    assert (world.facts(job_id).completed, world.lives(job_id)) == (2, ())
    world.check()

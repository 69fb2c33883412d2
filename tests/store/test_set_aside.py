"""A job that no rule can handle, or a wrong clock, delays no other job."""

from dataclasses import replace
from datetime import timedelta

import pytest

from ostinato.core import lifecycle
from ostinato.core.errors import StoreError
from ostinato.store import firing
from tests.build import AHEAD, DAY, HOUR, MINUTE, NOW, SECOND

# -- a job that no rule can handle


def test_a_definition_that_cannot_be_read_is_set_aside_and_the_others_go_on(world, caplog):
    broken, *others = world.add(4, every=HOUR)
    world.sql("UPDATE {jobs} SET schedule = '[\"from a newer version\"]' WHERE id = :id", id=broken)
    world.advance(HOUR)
    other = world.another()
    assert {change.job.id for change in other.queue.fire_due(world.clock, AHEAD, 10)} == set(others)
    assert str(broken) in caplog.text
    assert other.queue.next_wake() == world.now + firing.SET_ASIDE
    assert other.queue.fire_due(world.clock, AHEAD, 10) == []


def test_what_was_set_aside_keeps_its_due_time_and_is_fired_when_it_can_be_read(world):
    """G4: no due time is lost while no rule can handle the job."""
    job_id = world.add_one(every=HOUR)
    (text,) = world.sql("SELECT schedule FROM {jobs}")[0]
    world.sql("UPDATE {jobs} SET schedule = '{}'")
    world.advance(HOUR)
    other = world.another()
    assert other.queue.fire_due(world.clock, AHEAD, 10) == []
    world.sql("UPDATE {jobs} SET schedule = :text", text=text)
    assert other.queue.fire_due(lambda: world.now + 59 * SECOND, AHEAD, 10) == []
    world.advance(MINUTE)
    assert len(world.fire()) == 1
    assert [live.due_at for live in world.lives(job_id)] == [NOW + HOUR]
    assert world.store.queue.next_wake() == NOW + 2 * HOUR


@pytest.mark.parametrize("rule", ["fire", "fire_plainly"])
def test_a_job_whose_rule_breaks_is_set_aside_and_the_others_go_on(world, monkeypatch, caplog, rule):
    broken, *others = world.add(4, every=HOUR, jitter=SECOND if rule == "fire" else timedelta(0))
    world.advance(HOUR)

    decide = getattr(firing, rule)

    def breaks(job, *rest):
        return decide(job, *rest) if job.id != broken else 1 / 0

    monkeypatch.setattr(firing, rule, breaks)
    assert {change.job.id for change in world.fire()} == set(others)
    assert "ZeroDivisionError" in caplog.text
    monkeypatch.undo()
    assert world.fire() == []
    world.advance(MINUTE)
    assert [change.job.id for change in world.fire()] == [broken]


def test_a_job_whose_change_cannot_be_saved_is_set_aside_and_the_others_go_on(world, monkeypatch, caplog):
    broken, *others = world.add(4, every=HOUR)
    world.advance(HOUR)

    def fire(job, *rest):
        change = lifecycle.fire(job, *rest)
        return change if job.id != broken else replace(change, add=(replace(change.add[0], priority=99),))

    monkeypatch.setattr(firing, "fire", fire)
    monkeypatch.setattr(firing, "fire_plainly", lambda *_: None)
    assert {change.job.id for change in world.fire()} == set(others)
    assert str(broken) in caplog.text
    assert world.fire() == []
    assert world.facts(broken).next_due_at == NOW + HOUR
    world.check()


def test_a_firing_that_fails_for_no_fault_of_a_job_sets_none_aside(world, monkeypatch):
    jobs = world.add(3, every=HOUR)
    world.advance(HOUR)
    tries = []

    def fails(*_):
        tries.append(1)
        raise StoreError("read-only, perhaps")

    with monkeypatch.context() as patch:
        patch.setattr(firing.locking, "save", fails)
        patch.setattr(firing, "save_fired", fails)
        with pytest.raises(StoreError, match="read-only"):
            world.fire()
    assert len(tries) == 1  # and not once more for each job
    assert {change.job.id for change in world.fire()} == set(jobs)


# -- the clock


def test_after_a_clock_set_back_what_was_dealt_with_is_not_fired_again(world):
    """G5 and G4: no due time at or before the greatest one already fired."""
    job_id = world.add_one(every=MINUTE)
    worker = world.worker()
    for _ in range(5):
        world.advance(MINUTE)
        world.run_all(worker)
    world.now = NOW + MINUTE + SECOND
    assert world.store.queue.rewind(world.now) == 1
    for _ in range(8):
        world.advance(MINUTE)
        world.run_all(worker)
    times = world.due_times(job_id)
    assert len(times) == len(set(times))
    assert times == [NOW + n * MINUTE for n in range(1, 10)]
    world.check()


def test_a_next_time_from_a_clock_that_was_years_ahead_is_computed_anew(world):
    job_id = world.add_one(every=HOUR)
    world.now = NOW + 3650 * DAY
    world.run_all(world.worker())
    world.now = NOW + 30 * MINUTE
    assert world.facts(job_id).next_due_at > NOW + 3650 * DAY
    assert world.store.queue.rewind(world.now) == 1
    assert world.facts(job_id).next_due_at == NOW + HOUR
    assert world.store.queue.rewind(world.now) == 0
    world.check()


def test_cron_jobs_are_computed_anew_when_the_zone_data_changes(world):
    ids = world.add(3, cron="0 9 * * *")
    world.add(2, every=HOUR)
    world.sql("UPDATE {jobs} SET next_due_at = next_due_at + 7200000000 WHERE kind = 'cron'")
    assert world.store.queue.rezone(world.now) == 3
    assert {world.facts(job_id).next_due_at for job_id in ids} == {NOW + 21 * HOUR}


def test_all_jobs_are_rewound_in_small_transactions_and_one_bad_one_stops_nobody(world, monkeypatch):
    monkeypatch.setattr(firing, "REWOUND", 3)
    broken, *_ = world.add(10, every=HOUR)

    def rewind(job, *rest):
        return lifecycle.rewind(job, *rest) if job.id != broken else 1 / 0

    monkeypatch.setattr(firing, "rewind", rewind)
    assert world.store.queue.rewind(NOW - HOUR) == 9

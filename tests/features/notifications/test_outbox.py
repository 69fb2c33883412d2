"""Notices are written in the transaction that they report, and sent by one process at a time; on both databases."""

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from threading import Barrier, BrokenBarrierError

import pytest

from ostinato.core.errors import NotFound
from ostinato.core.model import Event
from ostinato.core.outcome import Cancelled, Lost
from ostinato.features.notifications.outbox import Outbox, Sent, Tally
from ostinato.features.notifications.rules import Hook, Measure, NoticeKind, Threshold
from tests.build import HOUR, MINUTE, NOW, SECOND
from tests.store.conftest import DONE, FAILURE

LEASE = MINUTE


def a_hook(world, *kinds: NoticeKind, **given) -> Hook:
    hook = Hook(
        world.chance.id(world.now),
        "https://hooks.example.org/1",
        kinds,
        None,
        "",
        MINUTE,
        (),
        "",
        world.now,
        "ann",
    )
    return replace(hook, **given)


def hooked(world, *kinds: NoticeKind, **given) -> Hook:
    hook = a_hook(world, *kinds, **given)
    world.store.part(Outbox).add_hook(hook)
    return hook


def told(world, hook) -> list[str]:
    """List the kinds of a hook's notices, the oldest first."""
    return [each.kind for each in world.store.part(Outbox).deliveries(hook.id, 1000)][::-1]


def bodies(world, hook) -> list[dict]:
    return [json.loads(each.body) for each in world.store.part(Outbox).deliveries(hook.id, 1000)][::-1]


def turn(world, worker, outcome=DONE) -> None:
    """Run the next occurrence of every job, or its retry."""
    world.advance(HOUR)
    assert world.run_all(worker, outcome)


# -- which notices are written


def test_without_a_hook_nothing_is_written(world):
    world.add_one()
    turn(world, world.worker())
    turn(world, world.worker(), FAILURE)
    assert world.sql("SELECT id FROM {outbox}") == []


def test_every_end_is_told_to_whoever_asked_for_finishes(world):
    hook = hooked(world, NoticeKind.FINISH)
    job, worker = world.add_one(name="Prices"), world.worker()
    turn(world, worker)
    turn(world, worker, FAILURE)
    first, second = bodies(world, hook)
    assert (first["kind"], first["execution"]["outcome"]) == ("finish", "completed")
    assert (first["job"]["id"], first["job"]["name"], first["hook_id"]) == (str(job), "Prices", str(hook.id))
    assert first["text"] == "Job Prices has completed."
    assert second["execution"]["outcome"] == "failed"
    assert second["execution"]["error"] == "ValueError: no"
    world.check()


def test_failures_are_told_with_the_time_of_the_retry(world):
    hook = hooked(world, NoticeKind.FAILURE)
    world.add_one(max_retries=1)
    worker = world.worker()
    turn(world, worker)
    turn(world, worker, FAILURE)
    turn(world, worker, FAILURE)
    first, second = bodies(world, hook)
    assert first["retry_at"] is not None
    assert "Next attempt at" in first["text"]
    assert second["retry_at"] is None
    assert (first["execution"]["attempt"], second["execution"]["attempt"]) == (0, 1)


def test_the_first_success_after_a_failure_is_a_recovery(world):
    hook = hooked(world, NoticeKind.RECOVERY)
    world.add_one(max_retries=0)
    worker = world.worker()
    for outcome in (DONE, FAILURE, FAILURE, DONE, DONE, FAILURE, DONE):
        turn(world, worker, outcome)
    assert told(world, hook) == ["recovery", "recovery"]
    assert [body["execution"]["number"] for body in bodies(world, hook)] == [4, 7]


def test_a_retry_that_succeeds_is_a_recovery_and_a_cancel_is_neither(world):
    hook = hooked(world, NoticeKind.RECOVERY)
    world.add_one(max_retries=3)
    worker = world.worker()
    turn(world, worker, FAILURE)
    turn(world, worker, DONE)
    turn(world, worker, Cancelled("ann"))
    turn(world, worker, DONE)
    assert told(world, hook) == ["recovery"]


def test_who_has_used_up_its_retries_is_told_for_good(world):
    hook = hooked(world, NoticeKind.FAILED_FOR_GOOD)
    going_on, over = world.add_one(max_retries=0), world.add_one(max_retries=0, when_exhausted="fail")
    turn(world, world.worker(), FAILURE)
    ended = {body["job"]["id"]: body["job_ended"] for body in bodies(world, hook)}
    assert ended == {str(going_on): False, str(over): True}


def test_a_run_that_is_lost_is_a_failure(world):
    hook = hooked(world, NoticeKind.FAILURE)
    world.add_one()
    turn(world, world.worker(), Lost())
    assert bodies(world, hook)[0]["execution"]["outcome"] == "lost"


def test_skips_are_told_with_their_reason(world):
    hook = hooked(world, NoticeKind.SKIP)
    job = world.add_one()
    world.advance(5 * HOUR)
    world.fire()
    assert bodies(world, hook)[0]["skip"]["reason"] == "missed"
    world.command(job, "pause")
    assert [body["skip"]["reason"] for body in bodies(world, hook)] == ["missed", "paused"]


def test_a_run_that_began_late_is_told(world):
    hook = hooked(world, NoticeKind.LATE_START, late_after=MINUTE)
    world.add_one()
    worker = world.worker()
    turn(world, worker)
    assert told(world, hook) == []
    world.advance(HOUR)
    world.fire()
    world.advance(2 * MINUTE)
    world.settle(world.claim(worker))
    (body,) = bodies(world, hook)
    assert (body["kind"], body["execution"]["number"]) == ("late_start", 2)
    assert "started 2m late" in body["text"]


def test_what_does_not_begin_is_told_once_by_whoever_looks(world):
    hook = hooked(world, NoticeKind.LATE_START, late_after=MINUTE)
    other, run_once = world.another(), world.enqueue()[0]
    start = world.now - SECOND
    world.store.part(Outbox).find_late(hook, start, world.advance(59 * SECOND))
    assert told(world, hook) == []
    for store in (world.store, other, world.store):
        store.part(Outbox).find_late(hook, start, world.advance(2 * SECOND))
    (body,) = bodies(world, hook)
    assert body["job"]["id"] == str(run_once)
    assert "has not started" in body["text"]
    world.settle(world.claim(world.worker()))  # it has started now: no second notice
    assert told(world, hook) == ["late_start"]


def test_what_waits_for_a_reason_is_not_late(world):
    hook = hooked(world, NoticeKind.LATE_START)
    job = world.enqueue()[0]
    world.command(job, "pause")
    world.store.part(Outbox).find_late(hook, NOW - HOUR, world.advance(HOUR))
    assert told(world, hook) == []


def test_an_unusually_long_run_is_told(world):
    hook, other = hooked(world, NoticeKind.LONG_RUN), hooked(world, NoticeKind.FINISH)
    job = world.enqueue()[0]
    (claimed,) = world.claim(world.worker())
    data = json.dumps({"number": 1, "ran": 600.0, "usual": 12.5})
    event = Event(world.chance.id(world.now), world.now, "execution.overlong", job, claimed.live.id, data=data)
    world.store.history.tell([event])
    (body,) = bodies(world, hook)
    assert body["text"] == "Job work has been running for 10m; usual is 12.5s."
    assert told(world, other) == []


def test_a_hook_of_one_job_hears_of_no_other(world):
    one, two = world.add(2)
    hook, everything = hooked(world, NoticeKind.FINISH, job_id=one), hooked(world, NoticeKind.FINISH)
    turn(world, world.worker())
    assert [body["job"]["id"] for body in bodies(world, hook)] == [str(one)]
    assert {body["job"]["id"] for body in bodies(world, everything)} == {str(one), str(two)}


def test_what_is_rolled_back_is_not_told(world, monkeypatch):
    hook = hooked(world, NoticeKind.FINISH)
    world.add_one()
    world.advance(HOUR)
    world.fire()
    claimed = world.claim(world.worker())
    monkeypatch.setattr(type(world.store.queue), "_without_settled", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        world.settle(claimed)
    assert told(world, hook) == []
    monkeypatch.undo()
    world.settle(claimed)
    assert told(world, hook) == ["finish"]


def test_a_bug_in_a_notice_keeps_nothing_from_being_settled(world, monkeypatch):
    hook = hooked(world, NoticeKind.FAILURE)
    job = world.add_one(max_retries=0)
    monkeypatch.setattr("ostinato.features.notifications.rules.notices_of", lambda *_: 1 / 0)
    turn(world, world.worker(), FAILURE)
    assert world.facts(job).failed == 1
    assert told(world, hook) == []


def test_an_error_that_no_database_takes_is_told_all_the_same(world):
    from ostinato.core.outcome import Error, Failed

    hook = hooked(world, NoticeKind.FAILURE)
    world.add_one(name="Prices \N{SNOWMAN}")
    turn(world, world.worker(), Failed(Error("ValueError", "NUL \0 and half \ud800 a character")))
    assert "\N{SYMBOL FOR NULL}" in bodies(world, hook)[0]["execution"]["error"]


# -- thresholds


def test_a_low_success_rate_is_told_once_in_each_window(world):
    threshold = Threshold(Measure.SUCCESS_RATE, 80, 10 * HOUR, least=3)
    hook = hooked(world, thresholds=(threshold,))
    world.add_one(max_retries=0)
    worker = world.worker()
    for outcome in (DONE, FAILURE):
        turn(world, worker, outcome)
        world.store.part(Outbox).find_beyond(hook, threshold, world.now)
    assert told(world, hook) == []  # two executions are too few
    for outcome in (DONE, DONE, DONE):
        turn(world, worker, outcome)
        for store in (world.store, world.another()):
            store.part(Outbox).find_beyond(hook, threshold, world.now)
    (body,) = bodies(world, hook)
    assert body["kind"] == "success_rate"
    assert (body["threshold"]["value"], body["threshold"]["failed"]) == (66.667, 1)
    assert "66.7 % of 3 executions succeeded in the last 10h" in body["text"]


def test_runs_that_take_far_longer_than_before_are_told(world):
    threshold = Threshold(Measure.DURATION, 3, 4 * HOUR, least=2)
    hook = hooked(world, thresholds=(threshold,))
    world.add_one()
    worker = world.worker()

    def run(seconds: int) -> None:
        world.advance(HOUR)
        world.fire()
        claimed = world.claim(worker)
        world.advance(seconds * SECOND)
        world.settle(claimed)
        world.advance(-seconds * SECOND)
        world.store.part(Outbox).find_beyond(hook, threshold, world.now)

    for _ in range(6):
        run(10)
    assert told(world, hook) == []
    for _ in range(3):
        run(100)
    (body,) = bodies(world, hook)
    assert body["kind"] == "duration"
    assert body["threshold"]["value"] > 3


def test_losses_are_counted_over_all_jobs(world):
    threshold = Threshold(Measure.LOSSES, 3, 6 * HOUR)
    hook = hooked(world, thresholds=(threshold,))
    jobs = world.add(2, max_retries=0)
    mine = hooked(world, job_id=jobs[0], thresholds=(threshold,))
    worker = world.worker()
    for count in (2, 4):
        turn(world, worker, Lost())
        for each in (hook, mine):
            world.store.part(Outbox).find_beyond(each, threshold, world.now)
        assert len(told(world, hook)) == (1 if count >= 3 else 0)
    assert told(world, mine) == []


# -- sending


def test_a_notice_is_claimed_by_one_until_its_lease_is_over(world):
    hook = hooked(world, NoticeKind.FINISH)
    world.add(3)
    turn(world, world.worker())
    other = world.another()
    mine = world.store.part(Outbox).claim(hook, world.now, LEASE, 2)
    theirs = other.part(Outbox).claim(hook, world.now, LEASE, 10)
    assert (len(mine), len(theirs)) == (2, 1)
    assert world.store.part(Outbox).claim(hook, world.advance(LEASE - SECOND), LEASE, 10) == []
    again = world.store.part(Outbox).claim(hook, world.advance(SECOND), LEASE, 10)
    assert {each.id for each in again} == {each.id for each in mine + theirs}
    assert {each.attempt for each in again} == {2}
    assert {each.hook for each in again} == {hook}


def test_a_hook_with_much_to_hear_keeps_no_other_waiting(world):
    loud, quiet = hooked(world, NoticeKind.FINISH), hooked(world, NoticeKind.FAILURE)
    world.add(5, max_retries=0)
    worker = world.worker()
    turn(world, worker)
    turn(world, worker, FAILURE)
    assert len(world.store.part(Outbox).claim(quiet, world.now, LEASE, 20)) == 5
    assert len(world.store.part(Outbox).claim(loud, world.now, LEASE, 20)) == 10


def sent(each, world, **what) -> Sent:
    nothing = {"due_at": None, "delivered_at": None, "given_up_at": None, "answer": None, "error": ""}
    return Sent(each.id, each.attempt, **nothing | what)


def test_whoever_comes_too_late_changes_nothing(world):
    hook = hooked(world, NoticeKind.FINISH)
    world.add_one()
    turn(world, world.worker())
    (slow,) = world.store.part(Outbox).claim(hook, world.now, LEASE, 10)
    (quick,) = world.store.part(Outbox).claim(hook, world.advance(LEASE), LEASE, 10)
    world.store.part(Outbox).note([sent(slow, world, given_up_at=world.now, error="no")])
    assert world.store.part(Outbox).tallies()[hook.id] == Tally(pending=1)
    world.store.part(Outbox).note([sent(quick, world, delivered_at=world.now, answer=200)])
    world.store.part(Outbox).note([sent(quick, world, due_at=world.now, error="no")])
    (delivery,) = world.store.part(Outbox).deliveries(hook.id, 10)
    assert (delivery.delivered_at, delivery.answer, delivery.error) == (world.now, 200, "")
    assert world.store.part(Outbox).next_due() is None


def test_what_came_of_it_can_be_seen(world):
    hook = hooked(world, NoticeKind.FINISH)
    world.add(3)
    turn(world, world.worker())
    one, two, three = world.store.part(Outbox).claim(hook, world.now, LEASE, 10)
    world.store.part(Outbox).note([
        sent(one, world, delivered_at=world.now, answer=204),
        sent(two, world, given_up_at=world.now, answer=500, error="It answered 500."),
        sent(three, world, due_at=world.now + MINUTE, error="Nobody answers."),
    ])  # fmt: skip
    assert world.store.part(Outbox).tallies() == {hook.id: Tally(1, 1, 1)}
    for state, each in (("delivered", one), ("given_up", two), ("pending", three)):
        assert [found.id for found in world.store.part(Outbox).deliveries(hook.id, 10, state=state)] == [each.id]
    assert world.store.part(Outbox).next_due() == world.now + MINUTE
    newest = world.store.part(Outbox).deliveries(hook.id, 1)[0].id
    assert len(world.store.part(Outbox).deliveries(hook.id, 10, before=newest)) == 2


def test_a_hook_that_is_deleted_is_told_nothing_more(world):
    hook = hooked(world, NoticeKind.FINISH)
    world.add_one()
    worker = world.worker()
    turn(world, worker)
    world.store.part(Outbox).delete_hook(hook.id, world.now, "bob")
    turn(world, worker)
    assert world.sql("SELECT id FROM {outbox}") == []
    assert [event.by for event in (*world.events("hook.created"), *world.events("hook.deleted"))] == [
        "ann",
        "bob",
    ]
    with pytest.raises(NotFound):
        world.store.part(Outbox).delete_hook(hook.id, world.now, "bob")


def test_a_process_that_has_not_heard_of_a_deletion_leaves_nothing_behind(world):
    hook, other = hooked(world, NoticeKind.FINISH), world.another()
    other.part(Outbox).delete_hook(hook.id, world.now, "bob")
    world.add_one()
    turn(world, world.worker())
    assert told(world, hook) == ["finish"]
    assert world.store.part(Outbox).prune(NOW) == 1
    assert told(world, hook) == []


def test_two_threads_that_need_a_part_at_once_share_one_object(world):
    made, both = [], Barrier(2)

    class Part:
        def __init__(self, store):
            made.append(self)
            with suppress(BrokenBarrierError):
                both.wait(0.1)  # passed only if the other thread makes one too

    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(world.store.part, [Part, Part]))
    assert found == made * 2


def test_notifications_are_asleep_until_there_is_a_hook_or_a_notice(world):
    feature = next(each for each in world.store.database.features if each.name == "notifications")
    assert not world.store.is_awake(feature)
    hook = hooked(world, NoticeKind.FINISH)
    assert world.store.is_awake(feature)
    world.another().part(Outbox).delete_hook(hook.id, world.now, "bob")
    assert not world.store.is_awake(feature)
    world.add_one()
    turn(world, world.worker())  # this process has not heard of the deletion
    assert world.store.is_awake(feature)


def test_a_hook_counts_elsewhere_once_it_is_looked_up(world):
    other = world.another()
    hook = a_hook(world, NoticeKind.FINISH)
    other.part(Outbox).add_hook(hook)
    world.add_one()
    worker = world.worker()
    turn(world, worker)
    world.store.part(Outbox).refresh()
    turn(world, worker)
    assert told(world, hook) == ["finish"]


def test_what_is_long_over_is_taken_away_and_what_waits_stays(world):
    hook = hooked(world, NoticeKind.FINISH)
    world.add(2)
    turn(world, world.worker())
    done, waiting = world.store.part(Outbox).claim(hook, world.now, LEASE, 10)
    world.store.part(Outbox).note([sent(done, world, delivered_at=world.now)])
    assert world.store.part(Outbox).prune(world.now) == 0
    assert world.store.part(Outbox).prune(world.now + timedelta(microseconds=1)) == 1
    assert [each.id for each in world.store.part(Outbox).deliveries(hook.id, 10)] == [waiting.id]


def test_a_hook_comes_back_as_it_was_kept(world):
    threshold = Threshold(Measure.SUCCESS_RATE, 80.5, 90 * MINUTE, 7)
    hook = hooked(
        world, NoticeKind.SKIP, NoticeKind.LONG_RUN, job_id=world.add_one(), secret="env:SECRET_HOOK",
        thresholds=(threshold,),
        late_after=5 * SECOND, description="for ops",
    )  # fmt: skip
    assert world.store.part(Outbox).hooks() == [hook]


@pytest.mark.parametrize(
    ("column", "value"),
    [("kinds", '["of_tomorrow"]'), ("thresholds", '[{"measure": "speed"}]'), ("kinds", "{")],
)
def test_a_hook_of_a_newer_version_is_left_to_it(world, caplog, column, value):
    strange, hook = hooked(world, NoticeKind.FINISH), hooked(world, NoticeKind.FINISH)
    statement = world.store.database.dialect.statement(f"UPDATE {{hooks}} SET {column} = :value WHERE id = :id")
    with world.store.database.write() as tx:
        tx.run(statement, value=value, id=strange.id)
    assert world.store.part(Outbox).refresh() == world.store.part(Outbox).refresh() == [hook]
    assert caplog.text.count("A hook cannot be read") == 1

"""How a job comes into the world: its first time, its bounds, its first row."""

from datetime import time
from uuid import UUID

import pytest

from ostinato.core.lifecycle import create
from ostinato.core.model import AskedBy, Status, WaitsFor
from ostinato.core.policy import CatchUp, FirstRun
from ostinato.core.schedule import Cron, Every, Manual, Once
from ostinato.core.times import Window
from tests.build import DAY, HOUR, MINUTE, NOW, SECOND, FixedChance, a_definition
from tests.core.faults import INSTANT, faults
from tests.core.life import Life

NINE_TO_ONE = Window(start=time(9), end=time(13))
NIGHT = Window(start=time(22), end=time(6))
AT_ONCE = {"first_run": FirstRun.NOW}
HOURLY = Every(HOUR)


@pytest.mark.parametrize(
    ("schedule", "policies", "first"),
    [
        (Every(HOUR), {}, NOW + HOUR),
        (Cron("30 14 * * *"), {}, NOW + 150 * MINUTE),
        (Cron("0 12 * * *"), {}, NOW + DAY),
        (Once(NOW + MINUTE), {}, NOW + MINUTE),
        (Every(HOUR), {"start_at": NOW + 10 * DAY}, NOW + 10 * DAY),
        (Every(HOUR), {"start_at": NOW + MINUTE}, NOW + MINUTE),
        (Every(HOUR), {"start_at": NOW - 10 * MINUTE}, NOW + 50 * MINUTE),
        (Every(HOUR), {"start_at": NOW + 2 * HOUR, **AT_ONCE}, NOW + 2 * HOUR),
        (Cron("0 * * * *"), {"start_at": NOW + 90 * MINUTE}, NOW + 2 * HOUR),
        (Cron("0 * * * *"), {"start_at": NOW + 2 * HOUR}, NOW + 2 * HOUR),
        (Every(HOUR), {"end_at": NOW + HOUR}, NOW + HOUR),
        (Once(NOW + MINUTE), {"start_at": NOW + DAY, "end_at": NOW}, NOW + MINUTE),
        (Manual(), {}, None),
    ],
)
def test_a_new_job_waits_for_its_first_time(schedule, policies, first):
    life = Life(schedule=schedule, **policies)
    assert (life.facts.next_due_at, life.rows) == (first, [])
    assert life.status is (Status.PENDING if first is None else Status.SCHEDULED)


@pytest.mark.parametrize(
    ("schedule", "policies", "due", "then"),
    [
        (Every(HOUR), AT_ONCE, NOW, NOW + HOUR),
        (Cron("30 14 * * *"), AT_ONCE, NOW, NOW + 150 * MINUTE),
        (Every(HOUR), {**AT_ONCE, "fixed_delay": True}, NOW, None),
        (Every(HOUR), {**AT_ONCE, "end_at": NOW}, NOW, None),
        (Every(HOUR), {"start_at": NOW}, NOW, NOW + HOUR),
        (Cron("0 * * * *"), {"start_at": NOW}, NOW, NOW + HOUR),
        (Once(NOW), {}, NOW, None),
        (Once(NOW - DAY), {}, NOW - DAY, None),
    ],
)
def test_a_job_that_is_due_when_it_is_made_is_born_with_its_live_row(schedule, policies, due, then):
    life = Life(schedule=schedule, **policies)
    assert (life.only.due_at, life.only.asked, life.only.waits_for) == (due, AskedBy.SCHEDULE, None)
    assert (life.only.number, life.only.attempt, life.only.execution_number) == (1, 0, 1)
    assert life.facts.next_due_at == then


@pytest.mark.parametrize("policies", [{}, AT_ONCE, {"start_at": NOW + HOUR}])
def test_a_job_whose_end_has_passed_is_born_completed(policies):
    life = Life(every=HOUR, end_at=NOW - MINUTE, **policies)
    assert (life.status, life.rows, life.facts.next_due_at) == (Status.COMPLETED, [], None)


def test_a_first_run_outside_the_window_is_a_skip():
    life = Life(every=HOUR, window=NIGHT, **AT_ONCE)
    assert (life.rows, life.skipped) == ([], [("window", NOW, NOW, 1)])
    assert life.facts.next_due_at == NOW + HOUR


def test_a_run_once_outside_the_window_waits_for_the_opening():
    life = Life(at=NOW, window=NIGHT)
    assert (life.only.due_at, life.only.run_at) == (NOW, NOW + 10 * HOUR)
    assert (life.only.waits_for, life.status) == (WaitsFor.TIME, Status.SCHEDULED)


def test_an_execution_carries_queue_priority_and_task_of_its_job():
    life = Life(at=NOW, task="mail", queue="slow", priority=2)
    assert (life.only.task, life.only.queue, life.only.priority, life.only.args) == ("mail", "slow", 2, None)


def test_jitter_delays_the_start_and_not_the_due_time_and_every_machine_agrees():
    first, second = (Life(every=HOUR, jitter=10 * MINUTE, seed=1) for _ in range(2))
    for life in (first, second):
        life.turn(HOUR)
        assert life.only.due_at == NOW + HOUR
        assert NOW + HOUR < life.only.run_at < NOW + HOUR + 10 * MINUTE
        assert life.only.waits_for is WaitsFor.TIME
    assert first.only.run_at == second.only.run_at


def test_jitter_does_not_carry_a_start_out_of_the_window():
    life = Life(every=HOUR, jitter=HOUR, window=Window(start=time(13), end=time(13, 1)), seed=1)
    life.turn(HOUR)
    assert life.only.run_at == NOW + HOUR + DAY


@pytest.mark.parametrize("by", ["", "ops"])
@pytest.mark.parametrize("schedule", [Every(HOUR), Cron("0 9 * * *"), Manual(), Once(NOW)])
def test_a_birth_is_told_with_who_asked_unless_a_program_enqueued_it(schedule, by):
    change = create(UUID(int=1), a_definition(schedule=schedule), NOW, FixedChance(), by)
    nobody_asked = isinstance(schedule, Once) and not by
    assert [(event.kind, event.by) for event in change.events] == ([] if nobody_asked else [("job.created", by)])


# -- first runs in a queue with a bound


def held(schedule: object = HOURLY, **policies: object) -> Life:
    return Life(schedule=schedule, bounded=True, **AT_ONCE | policies)


@pytest.mark.parametrize(
    ("schedule", "policies"),
    [(HOURLY, {}), (Cron("30 14 * * *"), {}), (HOURLY, {"fixed_delay": True}), (HOURLY, {"end_at": NOW})],
)
def test_a_first_run_waits_until_the_dispatcher_finds_a_place_in_a_bounded_queue(schedule, policies):
    life = held(schedule, **policies)
    assert (life.rows, life.facts.next_due_at, life.status) == ([], NOW, Status.SCHEDULED)
    life.turn(MINUTE / 2)
    assert (life.only.due_at, life.only.asked, life.only.waits_for) == (NOW, AskedBy.SCHEDULE, None)


@pytest.mark.parametrize("schedule", [Once(NOW), Every(HOUR), Manual()])
def test_a_bound_changes_nothing_for_what_is_enqueued_or_not_due_at_once(schedule):
    free, bounded = (Life(schedule=schedule, bounded=bound) for bound in (False, True))
    assert (bounded.facts, len(bounded.rows)) == (free.facts, len(free.rows))


@pytest.mark.parametrize("catch_up", CatchUp)
def test_a_first_run_that_waited_for_hours_runs_and_the_times_since_have_their_record(catch_up):
    life = held(catch_up=catch_up)
    life.turn(150 * MINUTE)
    while life.rows:
        life.run_one()
        life.turn()
    assert life.executions[0].due_at == NOW
    assert len(life.executions) + sum(skip.count for skip in life.skips) == 3
    assert faults(life) == []


def test_a_first_run_that_waits_beside_a_run_by_hand_obeys_the_overlap_policy():
    life = held()
    life.run()
    life.start(life.only)
    life.turn(SECOND)
    assert life.skipped == [("overlap", NOW, NOW, 1)]


@pytest.mark.parametrize(("command", "reason"), [("pause", "paused"), ("cancel", "missed"), ("delete", "missed")])
def test_a_first_run_that_is_stopped_while_it_waits_is_a_skip(command, reason):
    life = held()
    life.advance(SECOND)
    getattr(life, command)()
    assert (life.skipped, life.facts.next_due_at) == ([(reason, NOW, NOW, 1)], None)


def test_a_first_run_that_waits_goes_with_an_edit_of_the_schedule():
    life = held()
    life.advance(MINUTE)
    life.edit(schedule=Every(2 * HOUR))
    assert (life.facts.next_due_at, life.skips) == (NOW + MINUTE, [])
    life.edit(end_at=NOW + DAY)
    life.turn(SECOND)
    assert life.only.due_at == NOW + MINUTE
    assert life.facts.next_due_at == NOW + MINUTE + 2 * HOUR


@pytest.mark.parametrize("wanted", [{"schedule": Manual()}, {"start_at": NOW + 5 * HOUR}])
def test_an_edit_may_take_the_first_run_away(wanted):
    life = held()
    life.advance(MINUTE)
    life.edit(**wanted)
    assert life.facts.next_due_at == wanted.get("start_at")
    assert life.turn(SECOND) == 0


def test_a_first_run_that_waits_is_kept_when_the_clock_is_set_back():
    life = held()
    life.now -= DAY
    life.rewind()
    assert life.facts.next_due_at == NOW - DAY
    life.turn(SECOND)
    assert (life.only.due_at, life.facts.next_due_at) == (NOW - DAY, NOW - DAY + HOUR)


def test_a_first_run_outside_the_window_is_a_skip_in_a_bounded_queue_too():
    life = held(window=NIGHT)
    assert (life.rows, life.skipped) == ([], [("window", NOW, NOW, 1)])


def test_a_first_run_that_an_edit_moved_is_one_skip_of_the_new_schedule_when_the_job_is_paused():
    life = Life(every=SECOND, bounded=True, **AT_ONCE)
    life.advance(INSTANT)
    life.edit(schedule=Every(7 * SECOND))
    life.advance(INSTANT)
    life.pause()
    assert life.skipped == [("paused", NOW + INSTANT, NOW + INSTANT, 1)]
    assert faults(life) == []

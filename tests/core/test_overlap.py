"""A due time that comes while an occurrence is live."""

import pytest

from ostinato.core.model import WAITING_PLACE, AskedBy, SkipReason, WaitsFor
from ostinato.core.policy import Backoff, Overlap
from tests.build import DAY, HOUR, NOW
from tests.core.life import FAILURE, SUCCESS, Life, hours


def live_ones(life):
    return [((live.due_at - NOW) // HOUR, live.slot, live.waits_for) for live in life.rows]


TURN = WaitsFor.TURN


@pytest.mark.parametrize(
    ("overlap", "state", "expected", "skipped"),
    [
        # what the first occurrence is doing when the second and the third come due
        (Overlap.SKIP, "queued", [(1, 0, None)], [2, 3]),
        (Overlap.SKIP, "running", [(1, 0, None)], [2, 3]),
        (Overlap.SKIP, "backoff", [(1, 0, WaitsFor.TIME)], [2, 3]),
        (Overlap.QUEUE_ONE, "queued", [(1, 0, None), (2, WAITING_PLACE, TURN)], [3]),
        (Overlap.QUEUE_ONE, "running", [(1, 0, None), (2, WAITING_PLACE, TURN)], [3]),
        (Overlap.QUEUE_ONE, "backoff", [(1, 0, WaitsFor.TIME), (2, WAITING_PLACE, TURN)], [3]),
        (Overlap.CANCEL_RUNNING, "queued", [(3, 0, None)], [1, 2]),
        (Overlap.CANCEL_RUNNING, "running", [(1, 0, None), (2, WAITING_PLACE, TURN)], [3]),
        (Overlap.CANCEL_RUNNING, "backoff", [(3, 0, None)], [2]),
        (Overlap.ALLOW, "queued", [(1, 0, None), (2, 1, None)], [3]),
        (Overlap.ALLOW, "running", [(1, 0, None), (2, 1, None)], [3]),
        (Overlap.ALLOW, "backoff", [(1, 0, WaitsFor.TIME), (2, 1, None)], [3]),
    ],
)
def test_g1_the_overlap_policy_decides_about_a_due_time_while_an_occurrence_is_live(overlap, state, expected, skipped):
    life = Life(every=HOUR, overlap=overlap, max_overlap=2, backoff=Backoff(base=DAY, cap=DAY))
    life.turn(HOUR)
    if state == "running":
        life.claim()
    if state == "backoff":
        life.fail()
    life.turn(HOUR)
    life.turn(HOUR)
    assert live_ones(life) == expected
    assert sorted(skip.first_due_at for skip in life.skips) == hours(*skipped)
    assert {skip.reason for skip in life.skips} == {SkipReason.OVERLAP}


def test_a_skip_for_overlap_names_what_was_in_the_way():
    life = Life(every=HOUR)
    life.turn(HOUR)
    life.turn(HOUR)
    assert life.skips[0].in_the_way == life.only.id


def test_skips_that_follow_each_other_are_one_row():
    life = Life(every=HOUR)
    life.turn(HOUR)
    for _ in range(5):
        life.turn(HOUR)
    assert life.skipped == [("overlap", *hours(2, 6), 5)]
    life.run_one()
    life.turn(HOUR)
    life.turn(HOUR)
    assert life.skipped[1:] == [("overlap", *hours(8, 8), 1)]


def test_who_waits_comes_in_when_the_slot_is_free():
    life = Life(every=HOUR, overlap=Overlap.QUEUE_ONE)
    life.turn(HOUR)
    first = life.claim()
    life.turn(HOUR)
    life.settle(SUCCESS, first)
    assert (life.only.number, life.only.slot, life.only.waits_for) == (2, 0, None)


def test_cancel_running_asks_the_running_one_to_stop_and_never_retries_it():
    life = Life(every=HOUR, overlap=Overlap.CANCEL_RUNNING)
    life.turn(HOUR)
    first = life.claim()
    life.turn(HOUR)
    assert life.lives[first.id].cancel_asked_at == life.now
    life.settle(FAILURE, first)
    assert (life.only.number, life.only.attempt, life.only.slot) == (2, 0, 0)


def test_an_occurrence_by_hand_is_in_the_way_too():
    life = Life(every=HOUR)
    life.run()
    life.turn(HOUR)
    assert (life.only.asked, life.skipped) == (AskedBy.HAND, [("overlap", *hours(1, 1), 1)])


def test_g1_fewer_slots_after_an_edit_start_nothing_more_until_there_is_room():
    life = Life(every=HOUR, overlap=Overlap.ALLOW, max_overlap=3)
    for _ in range(3):
        life.turn(HOUR)
    first, *_ = [life.claim() for _ in range(3)]
    life.edit(overlap=Overlap.SKIP)
    life.settle(SUCCESS, first)
    life.run()
    assert life.waiting is not None
    life.settle(SUCCESS, life.running[0])
    assert life.waiting is not None
    life.settle(SUCCESS, life.running[0])
    assert (life.waiting, life.only.asked, life.only.slot) == (None, AskedBy.HAND, 0)

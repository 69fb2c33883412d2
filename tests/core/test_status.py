"""What a job is doing, derived from its facts and its live rows."""

import pytest

from ostinato.core.lifecycle import next_run_at, status
from ostinato.core.model import WAITING_PLACE, AskedBy, Ending, WaitsFor
from tests.build import HOUR, MINUTE, NOW, a_job, a_live

EVERY, ONCE, MANUAL = {"every": HOUR}, {"at": NOW}, {"manual": True}
RUNNING = {"running": True}
WAITS = {"waits_for": WaitsFor.TIME}
BY_HAND = {"asked": AskedBy.HAND}
ENDED = {"ended_at": NOW, "ended_as": Ending.COMPLETED}

# what the job is, what has become of it, its live rows, and its status
STATES = [
    (EVERY, {}, [], "scheduled"),
    (EVERY, {}, [{}], "queued"),
    (EVERY, {}, [BY_HAND], "pending"),
    (EVERY, {}, [{"attempt": 1}], "pending"),
    (EVERY, {}, [{"attempt": 1, "failures": 1}], "queued"),
    (EVERY, {}, [{"attempt": 1, "losses": 1}], "queued"),
    (EVERY, {}, [RUNNING], "running"),
    (EVERY, {}, [WAITS], "scheduled"),
    (EVERY, {}, [{"waits_for": WaitsFor.TASK}], "queued"),
    (EVERY, {}, [{"waits_for": WaitsFor.LIMIT}], "queued"),
    (EVERY, {}, [{"waits_for": WaitsFor.STEPS}], "running"),
    (EVERY, {}, [WAITS, {"waits_for": WaitsFor.TURN, "slot": WAITING_PLACE}], "scheduled"),
    (EVERY, {}, [RUNNING, {"waits_for": WaitsFor.TURN, "slot": WAITING_PLACE}], "running"),
    (EVERY, {}, [{}, {**BY_HAND, "slot": 1}], "pending"),
    (EVERY, {"reset_at": NOW + HOUR}, [], "scheduled"),
    (ONCE, {}, [], "scheduled"),
    (ONCE, {}, [{}], "pending"),
    (ONCE, {}, [WAITS], "scheduled"),
    (ONCE, {"paused_at": NOW}, [{"waits_for": WaitsFor.RESUME}], "paused"),
    (MANUAL, {}, [], "pending"),
    (MANUAL, {}, [BY_HAND], "pending"),
    (MANUAL, {}, [{**BY_HAND, **WAITS}], "scheduled"),
    (MANUAL, {}, [{**BY_HAND, **RUNNING}], "running"),
    (EVERY, {"paused_at": NOW}, [], "paused"),
    (EVERY, {"paused_at": NOW}, [RUNNING], "running"),
    (EVERY, {"paused_at": NOW}, [BY_HAND], "pending"),
    (EVERY, {"paused_at": NOW}, [{**BY_HAND, **WAITS}], "paused"),
    (MANUAL, {"paused_at": NOW}, [], "paused"),
    (EVERY, ENDED, [], "completed"),
    (EVERY, {"ended_at": NOW, "ended_as": Ending.FAILED}, [], "failed"),
    (EVERY, {"ended_as": Ending.FAILED}, [BY_HAND], "pending"),
    (EVERY, {"ended_as": Ending.FAILED}, [{**BY_HAND, **WAITS}], "scheduled"),
    (EVERY, {"cancelled_at": NOW}, [RUNNING], "cancelled"),
    (EVERY, {"cancelled_at": NOW, "paused_at": NOW, **ENDED}, [], "cancelled"),
]


@pytest.mark.parametrize(("kind", "facts", "rows", "expected"), STATES)
def test_status_is_the_first_that_is_true(kind, facts, rows, expected):
    job = a_job(**kind, **facts)
    assert status(job, [a_live(job, **row) for row in rows]) == expected


LATER = NOW + 10 * MINUTE


@pytest.mark.parametrize(
    ("facts", "rows", "expected"),
    [
        ({}, [], NOW + HOUR),
        ({}, [{"run_at": LATER, **WAITS}], LATER),
        ({}, [{"run_at": NOW + 2 * HOUR, **WAITS}], NOW + HOUR),
        ({}, [RUNNING], NOW + HOUR),
        ({"next_due_at": None}, [RUNNING], None),
        ({"paused_at": NOW}, [{"waits_for": WaitsFor.RESUME}], None),
        (ENDED, [], None),
        ({"cancelled_at": NOW}, [RUNNING], None),
        ({"ended_as": Ending.COMPLETED}, [{**BY_HAND, "run_at": LATER}], LATER),
    ],
)
def test_next_run_at_is_the_earlier_of_the_next_due_time_and_a_waiting_attempt(facts, rows, expected):
    job = a_job(every=HOUR, **facts)
    assert next_run_at(job, [a_live(job, **row) for row in rows]) == expected

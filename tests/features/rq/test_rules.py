"""What a queue of others should hold for a job, and what to do about what it holds."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from ostinato.chance import RandomChance
from ostinato.core import lifecycle
from ostinato.core.model import Definition, WaitsFor
from ostinato.core.schedule import Every, Once
from ostinato.features.rq.rules import Deed, Message, SeenMessage, deed, id_of, second_of, to_stop, wanted

NOW = datetime(2026, 11, 16, 12, 0, 0, 250_000, tzinfo=UTC)
CHANCE = RandomChance()
A_WORKER = UUID(int=7)


def a_job(schedule=None, **definition):
    change = lifecycle.create(
        CHANCE.id(NOW), Definition("t", schedule or Every(timedelta(hours=1)), **definition), NOW, CHANCE
    )
    return change.job, list(change.add)


def test_a_recurring_job_wants_its_next_occurrence_at_its_due_time():
    job, lives = a_job()
    assert wanted(job, lives) == [Message(f"sched-{job.id}-n1-rc0", job.id, NOW + timedelta(hours=1), "default")]


def test_what_waits_for_a_worker_is_wanted_and_what_runs_is_not():
    job, [live] = a_job(Once(NOW), priority=2, queue="mail")
    assert wanted(job, [live]) == [Message(f"sched-{job.id}-n1-rc0", job.id, NOW, "mail", urgent=True)]
    assert wanted(job, [replace(live, worker_id=A_WORKER)]) == []


@pytest.mark.parametrize(
    ("waits_for", "is_wanted"),
    [
        (None, True), (WaitsFor.TIME, True), (WaitsFor.TASK, True),
        (WaitsFor.TURN, False), (WaitsFor.LIMIT, False), (WaitsFor.STEPS, False), (WaitsFor.RESUME, False),
    ],
)  # fmt: skip
def test_what_waits_for_somebody_else_is_not_wanted_yet(waits_for, is_wanted):
    job, [live] = a_job(Once(NOW))
    assert bool(wanted(job, [replace(live, waits_for=waits_for)])) is is_wanted


def test_a_paused_queue_wants_due_times_but_nothing_that_waits_in_it():
    job, [live] = a_job(Once(NOW))
    assert wanted(job, [live], closed={"default"}) == []
    recurring, _ = a_job()
    assert len(wanted(recurring, [], closed={"default"})) == 1


def test_a_paused_job_wants_nothing():
    job, lives = a_job()
    paused = lifecycle.pause(job, lives, NOW, CHANCE)
    assert wanted(paused.job, []) == []


def test_a_step_has_an_id_of_its_own():
    job, [live] = a_job(Once(NOW))
    assert id_of(replace(live, step="extract")) == f"sched-{job.id}-n1-extract-rc0"
    odd = replace(live, step="a.b c")
    assert id_of(odd) == f"sched-{job.id}-n1-{live.id}-rc0"


def test_runs_that_are_asked_to_stop():
    job, [live] = a_job(Once(NOW))
    running = replace(live, worker_id=A_WORKER)
    assert to_stop([running]) == []
    assert to_stop([replace(running, cancel_asked_at=NOW)]) == [f"sched-{job.id}-n1-rc0"]


def test_seconds_are_rounded_up():
    assert second_of(NOW) == int(NOW.timestamp()) + 1
    assert second_of(NOW.replace(microsecond=0)) == int(NOW.timestamp())


LATER = NOW + timedelta(minutes=1)


@pytest.mark.parametrize(
    ("at", "seen", "what"),
    [
        (LATER, SeenMessage(), Deed.PUT),
        (LATER, SeenMessage("scheduled", second=second_of(LATER)), Deed.KEEP),
        (LATER, SeenMessage("scheduled", second=second_of(LATER) + 60), Deed.MOVE),
        (LATER, SeenMessage("finished", second=second_of(LATER)), Deed.KEEP),  # it has re-timed itself
        (NOW, SeenMessage("scheduled", second=second_of(NOW) - 5), Deed.PUSH),
        (NOW, SeenMessage("queued", in_line=True), Deed.KEEP),
        (NOW, SeenMessage("queued", in_line=False), Deed.PUT),
        (NOW, SeenMessage("started", NOW - timedelta(seconds=2)), Deed.KEEP),
        (NOW, SeenMessage("started", NOW - timedelta(minutes=2)), Deed.PUT),
        (NOW, SeenMessage("started"), Deed.PUT),
        (NOW, SeenMessage("failed"), Deed.PUT),
        (NOW, SeenMessage("stopped"), Deed.PUT),
        (LATER, SeenMessage("finished"), Deed.PUT),
    ],
)
def test_what_is_done_about_a_message(at, seen, what):
    assert deed(Message("m", UUID(int=1), at, "default"), seen, NOW) is what

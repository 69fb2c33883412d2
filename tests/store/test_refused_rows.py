"""A result that the database refuses for its values, on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from ostinato.core.model import Event, Finished
from ostinato.core.outcome import Completed, Error, Failed
from ostinato.store.doctor import Checkup
from tests.store.conftest import World

BAD = "do not keep this"


@contextmanager
def refusing(world: World, condition: str) -> Iterator[None]:
    """Make the table of executions refuse rows that meet a condition."""
    if world.on_postgres:
        world.sql(f"ALTER TABLE {{executions}} ADD CONSTRAINT odd CHECK (NOT ({condition}))")
    else:
        world.sql(
            "CREATE TRIGGER odd BEFORE INSERT ON {executions} WHEN "
            + condition.replace("result", "NEW.result").replace("error", "NEW.error")
            + " BEGIN SELECT RAISE(ABORT, 'odd'); END"
        )
    try:
        yield
    finally:
        world.sql("ALTER TABLE {executions} DROP CONSTRAINT odd" if world.on_postgres else "DROP TRIGGER odd")


@pytest.fixture
def settled_with(world: World):
    def settle(*outcomes):
        jobs = world.enqueue(len(outcomes))
        claimed = {each.live.job_id: each.live for each in world.claim(world.worker())}
        finished = [
            Finished(claimed[job_id], outcome, world.now) for job_id, outcome in zip(jobs, outcomes, strict=True)
        ]
        return jobs, world.store.queue.settle(finished)

    return settle


def test_a_refused_value_is_replaced_by_the_refusal_and_the_run_stays_completed(world, settled_with, caplog):
    good = Completed('"fine"')
    with refusing(world, f"coalesce(CAST(result AS text), '') LIKE '%{BAD}%'"):
        jobs, settled = settled_with(good, Completed(f'"{BAD}"'), good)
    assert (len(settled.changes), settled.left) == (3, ())
    values = [(ended.outcome.value, ended.result) for job_id in jobs for ended in world.history(job_id)]
    assert [result for result, _ in values] == ["completed"] * 3
    assert (values[0][1], values[2][1]) == ('"fine"', '"fine"')
    assert values[1][1].startswith('"The value cannot be kept.')
    assert "odd" in values[1][1]
    assert "The value of a result cannot be saved" in caplog.text
    world.check()


def test_a_refused_error_is_replaced_by_the_refusal_and_the_run_stays_failed(world, settled_with):
    with refusing(world, f"coalesce(error, '') LIKE '%{BAD}%'"):
        (job_id,), _ = settled_with(Failed(Error("ValueError", BAD)))
    (ended,) = world.history(job_id)
    assert (ended.outcome, ended.error_kind) == ("failed", "RowRefused")


def test_a_row_that_is_refused_for_another_reason_is_left(world, settled_with):
    with refusing(world, "1 = 1"):
        (job_id,), settled = settled_with(Completed(f'"{BAD}"'))
    assert (settled.changes, [each.live.job_id for each in settled.left]) == ((), [job_id])
    assert settled.left[0].outcome == Completed(f'"{BAD}"')  # it is offered again unchanged
    assert len(world.store.queue.settle(settled.left).changes) == 1
    assert world.history(job_id)[0].result == f'"{BAD}"'


def test_a_doctor_counts_the_results_that_are_held(world, settled_with):
    def unsaved() -> int:
        return Checkup(world.store.database).condition(world.now, timedelta(0), timedelta(1)).unsaved

    with refusing(world, "1 = 1"):
        _, settled = settled_with(Completed(None))
    assert unsaved() == 0
    live = settled.left[0].live
    world.store.history.tell(
        [Event(world.chance.id(world.now), world.now, "result.held", live.job_id, live.id, live.worker_id)]
    )
    assert unsaved() == 1
    world.store.queue.settle(settled.left)
    assert unsaved() == 0

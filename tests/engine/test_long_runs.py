"""A run that takes far longer than usual is reported, once."""

from datetime import timedelta

import pytest

from ostinato.clock import ManualClock
from ostinato.config import Settings
from ostinato.core.errors import StoreUnavailable
from ostinato.core.outcome import Completed
from ostinato.engine.logbook import LongRuns, RunUnderWay, limit
from ostinato.telemetry.reports import Hooks, Telemetry
from tests.build import MINUTE, NOW, SECOND, FixedChance
from tests.store.conftest import world  # noqa: F401  the store with time by hand


@pytest.mark.parametrize(
    ("durations", "most"),
    [
        ([], None),
        ([MINUTE, MINUTE], None),
        ([MINUTE] * 3, 10 * MINUTE),
        ([SECOND, MINUTE, MINUTE], 10 * MINUTE),
        ([timedelta(milliseconds=1)] * 5, 10 * SECOND),
    ],
)
def test_the_limit_is_ten_times_the_usual(durations, most):
    assert limit(durations) == most


@pytest.fixture
def overlong(world):  # noqa: F811
    telemetry = Telemetry(Settings(), Hooks())
    return LongRuns(world.store, ManualClock(NOW), FixedChance(), telemetry)


def test_a_run_beyond_its_limit_is_told_once(world, overlong, caplog):  # noqa: F811
    job_id = world.add_one(every=MINUTE)
    worker = world.worker()
    for _ in range(3):
        world.advance(MINUTE)
        world.fire()
        claimed = world.claim(worker)
        world.advance(2 * SECOND)
        world.settle(claimed, Completed())
        world.advance(58 * SECOND)
    world.advance(MINUTE)
    world.fire()
    live = world.claim(worker)[0].live
    overlong.look([RunUnderWay(live, 20 * SECOND)])
    assert world.events("execution.overlong", job_id) == []
    for seconds in (21, 30):
        overlong.look([RunUnderWay(live, seconds * SECOND)])
    (event,) = world.events("execution.overlong", job_id)
    assert event.execution_id == live.id
    assert caplog.text.count("Run takes unusually long") == 1


def test_nothing_is_told_of_a_job_whose_habits_nobody_knows(world, overlong):  # noqa: F811
    job_id = world.enqueue()[0]
    live = world.claim(world.worker())[0].live
    overlong.look([RunUnderWay(live, 1000 * MINUTE)])
    assert world.events("execution.overlong", job_id) == []


def test_what_could_not_be_told_while_the_store_was_away_is_told_later(world, overlong, monkeypatch):  # noqa: F811
    job_id = world.enqueue()[0]
    live = world.claim(world.worker())[0].live
    monkeypatch.setattr(world.store.history, "durations", lambda job_id, limit: [SECOND] * 3)
    with monkeypatch.context() as away:
        away.setattr(world.store.history, "tell", lambda events: (_ for _ in ()).throw(StoreUnavailable("away")))
        with pytest.raises(StoreUnavailable):
            overlong.look([RunUnderWay(live, MINUTE)])
    overlong.look([RunUnderWay(live, MINUTE)])
    assert len(world.events("execution.overlong", job_id)) == 1

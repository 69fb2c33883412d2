"""Figures: of a job, of each task, of everything."""

from datetime import timedelta

import pytest

from ostinato.core.model import Status
from ostinato.core.outcome import Lost, OutcomeKind, TimedOut
from ostinato.service.metrics import percentiles
from ostinato.store import statistics
from tests.build import HOUR, MINUTE, SECOND
from tests.store.conftest import DONE, FAILURE


def run(world, worker, took=SECOND, outcome=DONE, task="work", late=timedelta(0)):
    """One run of a job of its own; its id."""
    (job_id,) = world.enqueue(task=task)
    world.advance(late)
    claimed = world.claim(worker, task)
    world.advance(took)
    world.settle(claimed, outcome)
    return job_id


def test_everything_in_figures(world, service):
    worker = world.worker("work", "other")
    for took in (1, 2, 3, 6):
        run(world, worker, took * SECOND)
    run(world, worker, 5 * SECOND, outcome=FAILURE, task="other", late=MINUTE)
    run(world, worker, 4 * SECOND, outcome=TimedOut(MINUTE), task="other")
    run(world, worker, 0 * SECOND, outcome=Lost(), task="other")
    world.add_one()
    seen = world.now
    world.store.workers.renew(worker, seen, MINUTE, 0)
    world.advance(SECOND)
    metrics = service.metrics()
    assert metrics.jobs == service.status_counts()
    assert metrics.jobs[Status.COMPLETED] == 4
    assert (metrics.last_check_at, metrics.last_metrics_update) == (seen, world.now)
    assert metrics.stale_locks_cleared == 1
    everything = metrics.executions
    assert (everything.total, everything.completed, everything.failed) == (7, 4, 3)
    assert everything.success_rate == pytest.approx(4 / 7)
    assert everything.average_duration == 3 * SECOND
    assert everything.durations == {50: 3 * SECOND, 90: 6 * SECOND, 95: 6 * SECOND, 99: 6 * SECOND}
    assert everything.lateness[50] == timedelta(0)
    assert everything.lateness[99] == MINUTE
    assert list(metrics.tasks) == ["other", "work"]
    assert (metrics.tasks["work"].total, metrics.tasks["work"].success_rate) == (4, 1.0)
    assert (metrics.tasks["other"].failed, metrics.tasks["other"].average_duration) == (3, 3 * SECOND)
    assert metrics.tasks["other"].durations == {}


def test_before_anything_has_happened_there_is_nothing_to_judge(service):
    metrics = service.metrics()
    figures = metrics.executions
    assert (figures.total, figures.success_rate, figures.average_duration, figures.durations) == (
        0,
        None,
        None,
        {},
    )
    assert (metrics.last_check_at, metrics.tasks, metrics.stale_locks_cleared) == (None, {}, 0)
    assert set(metrics.jobs) == set(Status)


def test_durations_are_those_of_the_newest_runs(world, service, monkeypatch):
    monkeypatch.setattr(statistics, "NEWEST", 2)
    worker = world.worker()
    run(world, worker, HOUR)
    run(world, worker, SECOND)
    run(world, worker, 3 * SECOND)
    assert service.metrics().executions.average_duration == 2 * SECOND
    assert service.metrics().executions.total == 3


def test_a_job_in_figures(world, service):
    worker = world.worker()
    job_id = world.add_one(max_retries=0)
    for i in range(10):
        world.advance(HOUR)
        world.fire()
        world.advance(i * MINUTE)
        claimed = world.claim(worker)
        world.advance(SECOND * (i + 1))
        world.settle(claimed, FAILURE if i == 9 else DONE)
        world.advance(-i * MINUTE - SECOND * (i + 1))
    stats = service.jobs.stats(job_id)
    assert (stats.total_executions, stats.successful_runs, stats.failed_runs) == (10, 9, 1)
    assert (stats.success_rate, stats.average_duration) == (0.9, 5.5 * SECOND)
    assert stats.percentiles == {50: 5 * SECOND, 90: 9 * SECOND, 95: 9 * SECOND, 99: 9 * SECOND}
    assert stats.lateness == {50: 5 * MINUTE, 90: 9 * MINUTE, 95: 9 * MINUTE, 99: 9 * MINUTE}
    assert stats.next_scheduled_at == world.now + HOUR
    assert stats.last_execution_at == world.now + 9 * MINUTE


def test_what_a_monitor_watches(world, service):
    worker = world.worker("work", "other")
    world.enqueue(3, queue="slow")
    world.claim(worker, limit=1)
    run(world, worker, task="other")
    service.pause_queue("slow")
    gauges = service.gauges()
    assert gauges.jobs[Status.RUNNING] == 1
    (slow,) = [queue for queue in gauges.queues if queue.name == "slow"]
    assert (slow.queued, slow.running, slow.paused_at) == (2, 1, world.now)
    assert (gauges.at_work.workers, gauges.at_work.concurrency, gauges.at_work.running) == (1, 5, 1)
    assert gauges.counters["other"].ended[OutcomeKind.COMPLETED] == 1
    world.advance(HOUR)
    assert service.gauges().at_work.workers == 0


@pytest.mark.parametrize(
    ("values", "expected"),
    [([], {}), ([7], {50: 7, 90: 7, 95: 7, 99: 7}), (range(100), {50: 50, 90: 90, 95: 95, 99: 99})],
)  # fmt: skip
def test_percentiles(values, expected):
    found = percentiles([timedelta(seconds=value) for value in values])
    assert found == {p: timedelta(seconds=seconds) for p, seconds in expected.items()}

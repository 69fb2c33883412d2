"""Failed runs in RQ's own monitoring: the registry of failed jobs, `rq info`, the counts of a worker."""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta

import pytest
from click.testing import CliRunner
from rq import Queue
from rq.cli import main as rq_command
from rq.job import Job as Entry
from rq.registry import FailedJobRegistry
from rq.serializers import JSONSerializer

import ostinato.rq
from ostinato import GiveUp, RunFailed
from ostinato.core.errors import InvalidSetting
from ostinato.rq import rq_engine
from tests.features.rq.conftest import BriefWorker


@pytest.fixture
def failed(redis):
    """Return the failed RQ jobs."""
    return lambda: FailedJobRegistry("default", connection=redis, serializer=JSONSerializer).get_job_ids()


@pytest.fixture
def counts(redis):
    """Let a worker execute the queued messages; return its counts of finished and failed jobs."""

    def counts() -> tuple[int, int]:
        queue = Queue("default", connection=redis, serializer=JSONSerializer)
        worker = BriefWorker([queue], connection=redis, serializer=JSONSerializer)
        worker.work(burst=True, logging_level="CRITICAL")
        worker.refresh()
        return worker.successful_job_count, worker.failed_job_count

    return counts


def test_a_failed_run_is_a_failed_job_of_rq_with_the_traceback_of_its_task(app, redis, failed, counts):
    @app.task
    def fails() -> None:
        raise ValueError("the shop is closed")

    handle = fails.enqueue()
    assert counts() == (0, 1)
    assert failed() == [f"sched-{handle.id}-n1-rc0"]
    text = Entry.fetch(failed()[0], connection=redis, serializer=JSONSerializer).latest_result().exc_string
    assert "ValueError: the shop is closed" in text
    assert 'raise ValueError("the shop is closed")' in text
    assert text.strip().endswith("RunFailed: fails failed: the shop is closed")


def test_rq_info_counts_a_failed_run(app, redis_url, work):
    @app.task
    def fails() -> None:
        raise ValueError("no")

    fails.enqueue()
    work()
    said = CliRunner().invoke(rq_command, ["info", "--raw", "--url", redis_url]).output
    assert "queue default 0, 0 executing, 0 finished, 1 failed" in said


def test_a_failure_that_is_retried_counts_for_its_worker_and_is_no_failed_job(app, redis, failed, counts, scheduled):
    @app.task(retries=1, backoff="1h")
    def fails() -> None:
        raise ValueError("no")

    handle = fails.enqueue()
    assert counts() == (0, 1)
    assert failed() == []
    assert list(scheduled()) == [f"sched-{handle.id}-n1-rc1"]
    assert redis.keys(f"rq:*{handle.id}-n1-rc0*") == []

    app.jobs.run(handle.id)  # now, not in an hour
    assert counts() == (0, 1)
    assert failed() == [f"sched-{handle.id}-n1-rc1"]
    assert scheduled() == {}


@pytest.mark.parametrize("how", ["timeout", "give up"])
def test_whatever_fails_a_run_fails_its_message(app, failed, counts, how):
    @app.task(timeout="50ms" if how == "timeout" else None, retries=0 if how == "timeout" else 3)
    async def fails() -> None:
        if how == "give up":
            raise GiveUp("never")
        await asyncio.Event().wait()

    handle = fails.enqueue()
    assert counts() == (0, 1)
    assert failed() == [f"sched-{handle.id}-n1-rc0"]


def test_a_run_that_completes_or_is_cancelled_fails_nothing(app, failed, counts):
    @app.task
    def fine() -> int:
        return 7

    fine.enqueue()
    fine.enqueue().cancel()
    assert counts()[1] == 0
    assert failed() == []


def test_a_failed_occurrence_leaves_the_next_one_scheduled(app, failed, scheduled, counts):
    @app.task(every="1h", retries=0)
    def fails() -> None:
        raise ValueError("no")

    app.apply_declarations()
    view = app.jobs.run("fails")
    assert counts() == (0, 1)
    assert len(failed()) == 1
    assert list(scheduled()) == [f"sched-{view.id}-n2-rc0"]


@pytest.mark.parametrize("on_lost", ["retry", "fail"])
def test_a_killed_run_is_a_failed_job_unless_it_begins_again(app, redis, failed, line, on_lost):
    @app.task(on_lost=on_lost)
    def work() -> None: ...

    handle = work.enqueue()
    queue = Queue("default", connection=redis, serializer=JSONSerializer)
    entry = queue.fetch_job(f"sched-{handle.id}-n1-rc0")
    queue.remove(entry)
    engine = rq_engine()
    taken, worker, _ = engine._take(handle.id, entry)
    entry.meta = {"execution": str(taken.claimed.live.id), "fence": 1, "worker": str(worker)}
    entry.save_meta()
    engine.end_killed(entry, "signal 9")
    killed = BriefWorker([queue], connection=redis, serializer=JSONSerializer)
    killed.handle_job_failure(entry, queue, exc_string="as RQ does it")
    begins_again = on_lost == "retry"
    assert failed() == ([] if begins_again else [entry.id])
    assert line() == ([f"sched-{handle.id}-n1-rc1"] if begins_again else [])


def test_a_message_takes_the_execution_of_its_id_first(app, clock, redis):
    """Otherwise the failure of one execution would appear under the id of another."""

    @app.task(every="1h", overlap="allow", max_overlap=3)
    def fine() -> None: ...

    app.apply_declarations()
    for _ in range(3):
        clock.advance(timedelta(hours=1))
        app.parts.store.queue.fire_due(clock.now, timedelta(0), 10)
    job_id = app.jobs.get("fine").id
    for number in (3, 1, 2):
        message = f"sched-{job_id}-n{number}-rc0"
        entry = Entry.fetch(message, connection=redis, serializer=JSONSerializer)
        taken, _, _ = rq_engine()._take(job_id, entry)
        assert taken.claimed.live.number == number


def test_a_wrong_setting_is_told_to_rq_as_it_is(tmp_path, monkeypatch):
    (tmp_path / "rq_settings.py").write_text("from ostinato import Ostinato\napp = Ostinato()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    monkeypatch.setenv("OSTINATO_APP", "rq_settings:app")
    monkeypatch.setenv("OSTINATO_LEASE_SECONDS", "3000")
    with pytest.raises(InvalidSetting, match=r"^lease cannot be '3000' \(OSTINATO_LEASE_SECONDS\)"):
        rq_engine()


def test_our_worker_tells_exception_handlers_of_a_failed_run_and_logs_it_once(app, redis, caplog):
    @app.task
    def fails() -> None:
        raise ValueError("no")

    handle, told = fails.enqueue(), []
    queue = Queue("default", connection=redis, serializer=JSONSerializer)
    entry = queue.fetch_job(f"sched-{handle.id}-n1-rc0")
    worker = ostinato.rq.Worker([queue], connection=redis, exception_handlers=[lambda *args: told.append(args[2])])
    worker.log.addFilter(worker._is_shown)
    try:
        worker.prepare_execution(entry)
        worker.perform_job(entry, queue)
    finally:
        worker.log.removeFilter(worker._is_shown)
    assert [type(each) for each in told] == [RunFailed]
    errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert len(errors) == 1
    assert "Job execution failed" in errors[0]

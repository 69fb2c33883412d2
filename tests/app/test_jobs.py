"""`app.jobs` and `app.executions`: commands, their refusals, and queries."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest

from ostinato import Context, Ostinato
from ostinato.core.errors import Conflict, NotFound, UnknownTask
from ostinato.core.model import SkipReason, Status
from tests.app.conftest import during


@pytest.fixture
def app(new_app) -> Ostinato:
    app = new_app()

    @app.task(every="1h", key="prices-us")
    def prices(region: str = "us") -> str:
        return region

    app.apply_declarations()
    return app


def test_a_job_is_found_by_key_by_id_and_by_the_text_of_its_id(app):
    job = app.jobs.get("prices-us")
    assert app.jobs.get(job.id) == app.jobs.get(str(job.id)) == job
    assert (job.key, job.task, job.args, job.status) == ("prices-us", "prices", {}, Status.SCHEDULED)
    assert job.next_run_at == job.facts.created_at + timedelta(hours=1)
    with pytest.raises(NotFound, match="no job with the key 'prices-eu' in the app 'shop'"):
        app.jobs.get("prices-eu")
    with pytest.raises(NotFound, match="There is no job"):
        app.jobs.get(uuid4())


def test_pause_and_resume(app):
    paused = app.jobs.pause("prices-us", by="ops")
    assert (paused.status, paused.next_run_at) == (Status.PAUSED, None)
    with pytest.raises(Conflict, match=r"This job is paused; only a job that is .* can be paused"):
        app.jobs.pause("prices-us")
    resumed = app.jobs.resume("prices-us", by="ops")
    assert resumed.status is Status.SCHEDULED
    with pytest.raises(Conflict, match="This job is scheduled; only a job that is paused can be resumed"):
        app.jobs.resume("prices-us")
    events = [(each.kind, each.by) for each in app.jobs.events("prices-us", limit=2)]
    assert events == [("job.resumed", "ops"), ("job.paused", "ops")]


def test_cancelled_is_final(app):
    assert app.jobs.cancel("prices-us", by="ops").status is Status.CANCELLED
    for command in (
        app.jobs.pause,
        app.jobs.resume,
        app.jobs.cancel,
        app.jobs.retry,
        app.jobs.run,
        app.jobs.restart,
    ):
        with pytest.raises(Conflict, match="This job is cancelled"):
            command("prices-us")
    with pytest.raises(Conflict, match="a cancelled job cannot be edited"):
        app.jobs.edit("prices-us", lambda d: replace(d, priority=1))


def test_a_deleted_job_is_gone_and_its_key_is_free(app):
    app.jobs.delete("prices-us", by="ops")
    assert app.jobs.list() == []
    with pytest.raises(NotFound):
        app.jobs.get("prices-us")
    made = app.registry.get("prices").using(key="prices-us").enqueue()
    assert app.jobs.get("prices-us").id == made.id


def test_only_what_failed_can_be_retried_and_only_what_ended_restarted(app):
    with pytest.raises(Conflict, match="This job is scheduled; only a job that is failed can be retried"):
        app.jobs.retry("prices-us")
    with pytest.raises(Conflict, match="only a job that is completed or failed can be restarted"):
        app.jobs.restart("prices-us")


def test_an_edit_raises_the_version_and_keeps_before_and_after(app):
    edited = app.jobs.edit("prices-us", lambda d: replace(d, priority=1), by="ops")
    assert (edited.definition.priority, edited.facts.version) == (1, 2)
    (event,) = app.jobs.events("prices-us", limit=1)
    assert '"priority": 5' in event.data
    assert '"priority": 1' in event.data
    with pytest.raises(ValueError, match="not 99"):
        app.jobs.edit("prices-us", lambda d: replace(d, priority=99))
    with pytest.raises(UnknownTask):
        app.jobs.edit("prices-us", lambda d: replace(d, task="nonsense"))
    assert app.jobs.get("prices-us").facts.version == 2


def test_run_makes_an_extra_occurrence_with_other_args(app):
    due = app.jobs.get("prices-us").next_run_at
    assert app.jobs.run("prices-us", {"region": "fr"}, by="ops").status is Status.PENDING
    done = asyncio.Event()

    async def body():
        loop = asyncio.get_running_loop()
        app.on("job:complete")(lambda event: loop.call_soon_threadsafe(done.set))
        if not app.jobs.get("prices-us").facts.completed:
            await done.wait()

    during(app, body)
    (execution,) = app.executions.list(job="prices-us")
    assert (execution.result, execution.asked) == ("fr", "hand")
    job = app.jobs.get("prices-us")
    assert (job.next_run_at, job.args) == (due, {}), "the schedule did not move, the job's args did not change"


def test_a_failed_run_once_is_retried_by_hand(app):
    @app.task
    def second_time(ctx: Context) -> int:
        if ctx.attempt == 0:
            raise ConnectionError
        return ctx.attempt

    async def body():
        handle = await second_time.aenqueue()
        assert (await handle.await_()).status == "failed"
        await app.in_thread(lambda: app.jobs.retry(handle.id, by="ops"))
        ended = await handle.await_()
        assert (ended.status, ended.number, ended.attempt, ended.result) == ("completed", 1, 1, 1)

    during(app, body)


def test_one_action_for_many_jobs(app):
    app.schedule(app.registry.get("prices"), every="2h", key="prices-eu")
    app.apply_declarations()
    app.jobs.pause("prices-eu")
    answers = app.jobs.bulk("pause", ["prices-us", "prices-eu", "nowhere"], by="ops")
    assert answers["prices-us"] is None
    assert isinstance(answers["prices-eu"], Conflict)
    assert isinstance(answers["nowhere"], NotFound)
    assert app.jobs.get("prices-us").status is Status.PAUSED


def test_an_action_that_does_not_exist_is_refused(app):
    with pytest.raises(ValueError, match="pause, resume, cancel, delete, retry, run"):
        app.jobs.bulk("explode", ["prices-us"])


def test_lists_are_pages_the_newest_first(app):
    @app.task(queue="mail")
    def mail(n: int) -> None: ...

    handles = app.enqueue([mail.bind(n) for n in range(5)])
    assert [job.args for job in app.jobs.list(task="mail", limit=2)] == [{"n": 4}, {"n": 3}]
    page = app.jobs.list(task="mail", limit=2, before=handles[3].id)
    assert [job.args for job in page] == [{"n": 2}, {"n": 1}]
    assert [job.key for job in app.jobs.list(status="scheduled")] == ["prices-us"]
    assert len(app.jobs.list(queue="mail")) == 5
    with pytest.raises(ValueError, match="pending, scheduled"):
        app.jobs.list(status="nonsense")


def test_the_history_of_a_job_is_newest_first_with_all_its_fields(app):
    @app.task(retries=1, backoff="0s")
    def work(ctx: Context) -> str:
        if ctx.attempt == 0:
            raise ValueError("first")
        return ctx.execution_key

    async def body():
        handle = await work.aenqueue()
        await handle.await_()
        return handle

    handle = during(app, body)
    second, first = app.executions.list(job=handle.id, limit=100)
    assert {first.job_id, second.job_id} == {handle.id}
    assert [(each.number, each.attempt, each.status) for each in (first, second)] == [
        (1, 0, "failed"),
        (1, 1, "completed"),
    ]
    assert [first.execution_number, second.execution_number] == [1, 2]
    assert first.due_at == second.due_at
    assert first.due_at <= first.run_at <= first.started_at <= first.finished_at <= second.started_at
    assert first.duration == first.finished_at - first.started_at
    assert (first.error_kind, first.error, second.error) == ("ValueError", "first", None)
    assert second.result == second.key == f"sched-{handle.id}-n1-rc1"
    assert (second.task, second.version) == ("work", 1)
    assert second.worker_id is not None
    assert app.executions.get(first.id) == first
    assert app.executions.list(job=handle.id, before=second.id) == [first]
    assert app.executions.list(limit=1) == [second]


def test_a_job_in_figures(app):
    @app.task(retries=1, backoff="0s")
    def work(ctx: Context) -> None:
        if ctx.attempt == 0:
            raise ValueError

    async def body():
        handle = await work.aenqueue()
        await handle.await_()
        return handle

    stats = app.jobs.stats(during(app, body).id)
    assert (stats.total_executions, stats.successful_runs, stats.failed_runs) == (2, 1, 1)
    assert stats.success_rate == 0.5
    assert stats.average_duration >= timedelta(0)
    assert stats.last_execution_at is not None
    empty = app.jobs.stats("prices-us")
    assert (empty.total_executions, empty.success_rate, empty.average_duration) == (0, None, None)
    assert empty.next_scheduled_at == app.jobs.get("prices-us").next_run_at


def test_next_times(app):
    job = app.jobs.get("prices-us")
    assert app.jobs.next_times("prices-us", 2) == [job.next_run_at, job.next_run_at + timedelta(hours=1)]
    app.jobs.pause("prices-us")
    assert app.jobs.next_times("prices-us") == []


def test_an_execution_is_cancelled_by_hand(app):
    app.jobs.run("prices-us")
    (queued,) = app.executions.list(job="prices-us")
    assert app.executions.cancel(queued.id, by="ops").status == "cancelled"
    with pytest.raises(Conflict, match="This execution has ended already"):
        app.executions.cancel(queued.id)
    with pytest.raises(NotFound, match="There is no execution"):
        app.executions.get(uuid4())
    assert app.jobs.get("prices-us").status is Status.SCHEDULED, "a recurring job goes on"


def test_pausing_withdraws_what_was_queued(new_app):
    app = new_app()

    @app.task(every="1h", first_run="now")
    def tick() -> None: ...

    app.apply_declarations()
    app.jobs.pause("tick")
    assert app.executions.list(job="tick") == []
    (skip,) = app.jobs.skips("tick")
    assert (skip.reason, skip.count) == (SkipReason.PAUSED, 1)


def test_queues_are_paused_too(app):
    app.scheduler.pause_queue("default", by="ops")
    assert [(queue.name, queue.paused_at is not None) for queue in app.scheduler.queues()] == [("default", True)]
    app.scheduler.resume_queue("default")
    with pytest.raises(ValueError, match="cannot be used"):
        app.scheduler.pause_queue("a b")


def test_everything_adds_up(app):
    assert app.scheduler.problems() == []

"""A working app: inside another program's loop, alone in a process, and its start lines."""

import asyncio
import os
import signal
from datetime import timedelta

import pytest

from ostinato import Context, Ostinato, RetryLater
from ostinato.app.starting import banner
from ostinato.core.model import Status
from ostinato.feature import our_features
from tests.app.conftest import during
from tests.waiting import PATIENCE


def test_running_works_and_leaves_nothing_running(app):
    @app.task
    def work() -> str:
        return "done"

    async def main():
        async with app.running() as same:
            assert same is app
            handle = await work.aenqueue()
            assert (await handle.await_()).result == "done"
        return handle

    handle = asyncio.run(main())
    assert handle.status is Status.COMPLETED, "the app can still be asked"
    (worker,) = app.scheduler.workers()
    assert (worker.task_names - our_features().tasks.keys(), worker.running) == ({"work"}, 0)
    assert worker.closed_at is not None


def test_running_can_be_entered_again(app):
    @app.task
    def work() -> str:
        return "done"

    for _ in range(2):
        assert during(app, lambda: asyncio.to_thread(work.enqueue().result)) == "done"


def test_an_error_in_the_body_stops_the_work_and_is_raised(app):
    async def main():
        async with app.running():
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        asyncio.run(main())


def test_a_stop_gives_back_what_runs_and_spends_nothing(new_app):
    app = new_app(shutdown_grace="0s")
    started = asyncio.Event()

    @app.task
    async def hang() -> None:
        started.set()
        await asyncio.Event().wait()

    async def main():
        async with app.running():
            handle = await hang.aenqueue()
            await started.wait()
        return handle

    handle = asyncio.run(main())
    (waiting,) = app.executions.list(job=handle.id)
    assert (waiting.status, waiting.attempt) == ("queued", 0)
    assert handle.job.facts.failed == 0


def test_a_task_finds_its_context_deep_inside(app):
    def deep() -> str:
        return Context.current().occurrence_key

    @app.task
    def work() -> str:
        return deep()

    handle = during(app, lambda: waited(work))
    assert handle.result() == f"sched-{handle.id}-n1"


async def waited(task):
    handle = await task.aenqueue()
    await handle.await_()
    return handle


def test_retry_later_names_its_own_delay(app):
    @app.task(retries=1, backoff="1h")
    def busy(ctx: Context) -> int:
        if ctx.attempt == 0:
            raise RetryLater("0s", "the API is busy")
        return ctx.attempt

    assert during(app, lambda: waited(busy)).result() == 1


def test_a_checkpoint_is_handed_to_the_next_attempt(app):
    @app.task(retries=1, backoff="0s")
    async def pages(ctx: Context) -> list[int]:
        if ctx.attempt == 0:
            await asyncio.to_thread(ctx.save_checkpoint, [1, 2])
            raise ConnectionError
        return [*ctx.checkpoint, 3]

    assert during(app, lambda: waited(pages)).result() == [1, 2, 3]


# -- run


@pytest.fixture
def alone(new_app, capsys) -> Ostinato:
    app = new_app(timezone="Europe/Paris", queues="default,mail", concurrency=3)

    @app.task(every="1h", key="hourly")
    def work() -> None: ...

    @app.task(cron="0 9 * * mon-fri")
    def report() -> None: ...

    @app.task(every="1h", first_run="now")
    def stop_soon() -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    return app


def test_run_says_what_is_there_works_and_stops_in_order(alone, capsys):
    alone.run()
    said = capsys.readouterr().out
    database = alone.parts.store.database.name
    alone.close()
    assert f"database  {database}" in said
    assert "timezone  Europe/Paris" in said
    assert "worker    queues default, mail, 3 at once" in said
    assert "jobs      3 created" in said
    assert "hourly     every hour" in said
    assert "at 09:00 on weekdays, Europe/Paris" in said
    assert alone.jobs.get("stop_soon").facts.completed == 1


def test_a_process_without_a_worker_runs_nothing(new_app):
    app = new_app()
    ran = []

    @app.task(every="1s", first_run="now")
    def tick() -> None:
        ran.append(1)

    async def main():
        engine = app.engine(worker=False)
        skipped = asyncio.Event()
        loop = asyncio.get_running_loop()
        app.on("job:skipped")(lambda event: loop.call_soon_threadsafe(skipped.set))
        working = asyncio.create_task(engine.run())
        # Its second due time came while the first still waited.
        await asyncio.wait_for(skipped.wait(), PATIENCE)
        engine.stop()
        await working

    app.apply_declarations()
    asyncio.run(main())
    assert ran == []
    assert app.jobs.get("tick").status is Status.QUEUED


def test_the_banner_tells_what_changed_what_is_paused_and_what_has_gone(new_app):
    def work() -> None: ...

    first = new_app()
    first.task(every="1h", key="same")(work)
    first.schedule(first.registry.get("work"), every="1h", key="other")
    first.schedule(first.registry.get("work"), every="1h", key="old")
    first.apply_declarations()
    first.jobs.pause("same")
    second = new_app()
    second.task(every="1h", key="same")(work)
    second.schedule(second.registry.get("work"), every="2h", key="other")
    second.schedule(second.registry.get("work"), key="new")
    lines = list(banner(second, second.apply_declarations(), worker=False))
    assert "  jobs      1 created, 1 changed, 1 unchanged" in lines
    (same,) = [line for line in lines if line.lstrip().startswith("same")]
    (other,) = [line for line in lines if line.lstrip().startswith("other")]
    (new,) = [line for line in lines if line.lstrip().startswith("new")]
    assert same.endswith("paused")
    assert other.endswith("changed")
    assert "only by hand" in new
    assert lines[-1].startswith("  old is no longer declared")
    assert "  worker    none here: this process queues due jobs, other workers run them" in lines


def test_the_next_run_is_shown_in_the_zone_of_its_schedule(new_app):
    app = new_app(timezone="Asia/Tokyo")

    @app.task(cron="0 9 * * *", timezone="Europe/Paris")
    def paris() -> None: ...

    @app.task(every="1d")
    def tokyo() -> None: ...

    lines = list(banner(app, app.apply_declarations(), worker=True))
    assert any("09:00:00 Europe/Paris" in line for line in lines)
    due = app.jobs.get("tokyo").next_run_at + timedelta(hours=9)
    assert any(f"{due:%Y-%m-%d %H:%M:%S} Asia/Tokyo" in line for line in lines)

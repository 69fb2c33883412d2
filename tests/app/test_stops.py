"""The answer to a stop: its strength, and whether the run has certainly ended."""

import asyncio
import threading

from tests.app.conftest import during
from tests.waiting import eventually, until


def test_a_thread_that_was_asked_to_stop_is_not_called_dead_before_it_ends(app):
    begun, may_end = threading.Event(), threading.Event()

    @app.task
    def stubborn(ctx):
        begun.set()
        may_end.wait(60)
        eventually(lambda: ctx.cancelled)

    async def body():
        handle = stubborn.enqueue()
        await until(begun.is_set)
        stop = handle.cancel().stop
        (run,) = app.executions.list(job=handle.id)
        may_end.set()
        return stop, run.stop, await handle.await_()

    of_job, of_run, ended = during(app, body)
    assert of_job == of_run
    assert not of_job.dead
    assert "still running" in of_job.sentence
    assert ended.stop.dead
    assert "its thread ended by itself" in ended.stop.sentence


def test_a_coroutine_that_was_cancelled_is_dead(app):
    begun = asyncio.Event()

    @app.task
    async def waits():
        begun.set()
        await asyncio.Event().wait()

    async def body():
        handle = waits.enqueue()
        await begun.wait()
        assert not handle.cancel().stop.dead
        return await handle.await_()

    assert during(app, body).stop.sentence == "The coroutine of the run was cancelled, and ended."


def test_a_job_that_is_deleted_or_cancelled_before_it_runs_has_nothing_to_stop(app):
    @app.task
    def work():
        pass

    assert work.enqueue().cancel().stop is None
    assert app.jobs.delete(work.enqueue().id).stop is None

"""`app.on`: hooks are called after the commit, in the process that wrote it, with the outcome."""

import asyncio
from typing import Any

import pytest

from ostinato import Context, Ostinato
from tests.app.conftest import during


class Told:
    """Collector of events; a test can wait for a number of them."""

    def __init__(self, app: Ostinato, *kinds: str) -> None:
        self.events: list[dict[str, Any]] = []
        self._enough = asyncio.Event()
        self._wanted = 0
        self._loop = asyncio.get_running_loop()
        for kind in kinds:
            app.on(kind)(self._hear)

    def _hear(self, event: dict[str, Any]) -> None:
        self._loop.call_soon_threadsafe(self._add, event)

    def _add(self, event: dict[str, Any]) -> None:
        self.events.append(event)
        if len(self.events) >= self._wanted:
            self._enough.set()

    async def wait_for(self, count: int) -> list[dict[str, Any]]:
        self._wanted = count
        if len(self.events) < count:
            self._enough.clear()
            await self._enough.wait()
        return self.events


def test_a_run_that_completes(app):
    @app.task
    def add(a: int, b: int) -> int:
        return a + b

    async def body():
        told = Told(app, "job:start", "job:complete")
        handle = add.enqueue(1, 2)
        start, complete = await told.wait_for(2)
        assert (start["event"], start["job_id"], start["task"]) == ("job:start", str(handle.id), "add")
        assert (complete["event"], complete["job_id"]) == ("job:complete", str(handle.id))
        assert complete["result"] == 3
        assert 0 <= complete["duration"] < 60
        assert handle.job.facts.completed == 1, "told after the commit"

    during(app, body)


def test_a_run_that_fails_and_is_retried(app):
    @app.task(retries=1, backoff="0s")
    def fail(ctx: Context) -> None:
        raise ValueError(f"attempt {ctx.attempt}")

    async def body():
        told = Told(app, "job:failed", "job:retry")
        handle = fail.enqueue()
        events = {(event["event"], event["attempt"]): event for event in await told.wait_for(3)}
        assert set(events) == {("job:failed", 0), ("job:retry", 1), ("job:failed", 1)}
        assert {event["job_id"] for event in events.values()} == {str(handle.id)}
        first, last = events["job:failed", 0], events["job:failed", 1]
        assert (first["error"], first["retry_in"]) == ("ValueError: attempt 0", 0)
        assert (last["error"], last["retry_in"]) == ("ValueError: attempt 1", None)

    during(app, body)


def test_a_run_that_is_cancelled(app):
    started = asyncio.Event()

    @app.task
    async def hang() -> None:
        started.set()
        await asyncio.Event().wait()

    async def body():
        told = Told(app, "job:cancelled")
        handle = await hang.aenqueue()
        await started.wait()
        await app.in_thread(lambda: handle.cancel(by="ops"))
        (event,) = await told.wait_for(1)
        assert (event["job_id"], event["by"]) == (str(handle.id), "ops")

    during(app, body)


def test_due_times_that_are_skipped(app):
    release = asyncio.Event()

    @app.task(every="1s", first_run="now", overlap="skip")
    async def slow() -> None:
        await release.wait()

    async def body():
        told = Told(app, "job:skipped")
        event = (await told.wait_for(1))[0]
        release.set()
        assert (event["task"], event["reason"], event["count"]) == ("slow", "overlap", 1)
        assert event["job_id"] == str(app.jobs.get("slow").id)
        (skip, *_) = reversed(app.jobs.skips("slow"))
        assert event["first_due_at"] == skip.first_due_at.isoformat()

    during(app, body)


def test_a_hook_that_fails_harms_nothing(app):
    @app.on("job:complete")
    def broken(event: dict[str, Any]) -> None:
        raise RuntimeError("a hook")

    @app.task
    def work() -> str:
        return "done"

    async def body():
        told = Told(app, "job:complete")
        handle = work.enqueue()
        await told.wait_for(1)
        return handle.result()

    assert during(app, body) == "done"


def test_an_event_that_does_not_exist_is_refused(app):
    with pytest.raises(ValueError, match="There is no event 'job:done'; there are job:start"):
        app.on("job:done")

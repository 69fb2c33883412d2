"""Calls for async code: the same answers, few threads, and cancellation."""

from __future__ import annotations

import asyncio
import inspect
import threading

import pytest

from ostinato import Conflict, NotFound, Ostinato
from ostinato.app import aio
from ostinato.engine.threads import AT_ONCE, few_threads
from ostinato.handle import RunFailed
from ostinato.service import Service
from ostinato.service.access import KeyService
from ostinato.service.executions import ExecutionService
from ostinato.service.jobs import JobService
from ostinato.service.tasks import TaskService
from tests.app.conftest import during
from tests.docs import reference
from tests.waiting import PATIENCE, until

DOORS = {
    aio.AsyncJobs: JobService, aio.AsyncExecutions: ExecutionService, aio.AsyncTasks: TaskService,
    aio.AsyncKeys: KeyService, aio.AsyncScheduler: Service,
}  # fmt: skip


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_each_public_call_of_a_service_is_awaited_too(door):
    service = DOORS[door]
    public = {name for name in reference.members(service) if inspect.isfunction(getattr(service, name))}
    awaited = {name: each for name, each in vars(door).items() if isinstance(each, aio._Later)}
    assert public == awaited.keys()
    assert all(awaited[name].function is getattr(service, name) for name in public)


def test_the_answers_are_those_of_the_calls(app: Ostinato):
    @app.task(every="1h")
    def report() -> int:
        return 7

    async def body():
        assert (await app.aio.jobs.pause("report", by="ann")).status == "paused"
        assert app.jobs.get("report").status == "paused"
        (handle,) = await app.aenqueue([report.bind()])
        assert await handle.aresult() == 7
        assert (await app.aio.executions.list(job=handle.id))[0].result == 7
        assert [queue.name for queue in await app.aio.scheduler.queues()] == ["default"]
        assert "report" in {task.name for task in await app.aio.scheduler.tasks.list()}
        with pytest.raises(NotFound):
            await app.aio.jobs.get("nothing")

    during(app, body)


def test_a_handle_is_cancelled_and_its_failure_is_raised(app: Ostinato):
    @app.task
    def fails() -> None:
        raise ValueError("no")

    async def body():
        later = await fails.aenqueue_in("1h")
        assert (await later.acancel(by="ann")).status == "cancelled"
        with pytest.raises(Conflict, match="was cancelled before it ran"):
            await later.aresult()
        with pytest.raises(RunFailed, match="no"):
            await (await fails.aenqueue()).aresult()
        with pytest.raises(TimeoutError, match="is still scheduled after 0s"):
            await (await fails.aenqueue_in("1h")).await_("0s")

    during(app, body)


def test_many_handles_that_wait_leave_the_threads_free(app: Ostinato):
    @app.task
    def nothing() -> None: ...

    async def main():
        handles = await app.aenqueue([nothing.bind() for _ in range(40)])  # no worker: they wait
        waiting = [asyncio.create_task(handle.await_()) for handle in handles]
        try:
            async with asyncio.timeout(PATIENCE / 2):
                await asyncio.gather(*(app.aio.jobs.get(handle.id) for handle in handles))
                await asyncio.to_thread(lambda: None)
        finally:
            for each in waiting:
                each.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    asyncio.run(main())


def test_calls_beyond_the_threads_wait_and_a_cancelled_one_is_not_made():
    go, begun, made = threading.Event(), [], []

    def hold() -> None:
        begun.append(threading.current_thread().name)
        go.wait(PATIENCE)
        made.append("held")

    async def main():
        held = [asyncio.create_task(few_threads(hold)) for _ in range(AT_ONCE)]
        await until(lambda: len(begun) == AT_ONCE)
        queued = asyncio.create_task(few_threads(lambda: made.append("queued")))
        await asyncio.sleep(0)
        queued.cancel()
        held[0].cancel()  # has begun: it is finished, and its result is lost
        await asyncio.gather(queued, held[0], return_exceptions=True)
        go.set()
        await asyncio.gather(*held[1:])
        await until(lambda: len(made) == AT_ONCE)
        await few_threads(lambda: None)

    asyncio.run(main())
    assert made == ["held"] * AT_ONCE
    assert len(set(begun)) == AT_ONCE


def test_asking_for_the_door_opens_no_database(tmp_path):
    app = Ostinato("shop", database_url=f"sqlite:///{tmp_path}/shop.db")
    assert app.aio.jobs
    assert not app.is_open

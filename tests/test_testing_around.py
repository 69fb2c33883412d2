"""The test kit runs what an app runs around its tasks, and opens and closes resources."""

import asyncio

import pytest

from ostinato import Context, GiveUp, Ostinato
from ostinato.testing import simulate

app = Ostinato("shop")
said: list[str] = []


@app.around
def outer(ctx: Context):
    said.append("begin")
    try:
        yield
    except KeyError as error:
        raise GiveUp("no retry helps") from error
    finally:
        said.append("end")


@app.around
async def only_async(ctx: Context):
    said.append("begin async")
    await asyncio.sleep(5)  # simulated
    yield


@app.resource
def database():
    said.append("open database")
    yield "database"
    said.append("close database")


@app.resource
async def client():
    said.append("open client")
    yield "client"
    said.append("close client")


@app.task
def on_thread(ctx: Context) -> str:
    return ctx.use(database)


@app.task(isolation="process")
def in_process(ctx: Context) -> str:
    return ctx.use(database)


@app.task
async def on_loop(ctx: Context) -> str:
    return await ctx.ause(client)


@app.task(retries=3)
def fails() -> None:
    raise KeyError("gone")


@pytest.fixture(autouse=True)
def forget() -> None:
    said.clear()


@pytest.mark.parametrize("task", [on_thread, in_process])
def test_a_def_task_runs_inside_the_def_ones(task):
    with simulate(app) as sim:
        task.enqueue()
        sim.advance("1s")
        assert [run.result for run in sim.executions(task.name)] == ["database"]
        assert said == ["begin", "open database", "end"]
    assert said[-1] == "close database"


def test_an_async_task_runs_inside_both_kinds():
    with simulate(app) as sim:
        on_loop.enqueue()
        sim.advance("4s")
        assert said == ["begin", "begin async"], "its time is the clock's"
        sim.advance("2s")
        assert [run.result for run in sim.executions("on_loop")] == ["client"]
    assert said[2:] == ["open client", "end", "close client"]


def test_the_exception_may_be_replaced():
    with simulate(app) as sim:
        fails.enqueue()
        sim.advance("1d")
        assert [(run.status, run.error_kind) for run in sim.executions("fails")] == [("failed", "GiveUp")]


def test_each_worker_has_its_own_resources_and_a_crash_closes_none():
    with simulate(app, workers=1) as sim:
        on_thread.enqueue()
        sim.run_pending()
        sim.crash("w1")
        sim.worker("w2")
        on_thread.enqueue()
        sim.run_pending()
        assert said.count("open database") == 2
        sim.stop("w2")
        assert said.count("close database") == 1
    assert said.count("close database") == 1


def test_a_fake_in_place_of_a_task_runs_inside_them_too():
    with simulate(app) as sim:
        sim.replace("on_thread", lambda: "fake")
        on_thread.enqueue()
        sim.run_pending()
        assert [run.result for run in sim.executions("on_thread")] == ["fake"]
    assert said == ["begin", "end"]

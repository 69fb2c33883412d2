"""Generators around runs, and resources, in a working app and in each isolation."""

import asyncio
import os
from pathlib import Path

import pytest

from ostinato import Context, Ostinato
from tests.app import surrounded
from tests.app.conftest import during

USES = ["use_on_loop", "use_on_thread", "use_in_process", "async_use_in_process"]


@pytest.fixture
def app(database_url: str, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("NUMBERS_SAY", str(tmp_path / "resources"))
    app = surrounded.app
    app.configure(database_url=database_url, concurrency=1)
    app.open(upgrade=True)
    before = list(app.registry.arounds.registered)
    yield app
    app.registry.arounds.registered[:] = before
    app.close()


def run(app: Ostinato, task: str, times: int = 1, **args):
    """Run a task some times, one after the other, and return the last ended run."""

    async def body():
        for _ in range(times):
            (handle,) = await asyncio.to_thread(app.enqueue, [app.call(task, **args)])
            ended = await handle.await_()
        return ended

    return during(app, body)


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


@pytest.mark.parametrize("task", surrounded.ISOLATIONS)
def test_a_generator_runs_around_a_task_where_the_task_runs(app, tmp_path, task):
    said = tmp_path / "said"
    ended = run(app, task, to=str(said), tenant="acme")
    assert ended.result == "acme", "the variable that it has set is there"
    begin, *within, end = lines(said)
    assert begin == "begin 0"
    place = next(line for line in within if line.startswith("task")).removeprefix("task on ")
    assert end == f"end on {place}", "one process, one thread"
    assert (place.split(".")[0] == str(os.getpid())) is (task in ("on_loop", "on_thread"))
    around_async = [line for line in within if line.endswith("async")]
    assert around_async == (["begin async", "end async"] if task in ("on_loop", "async_in_process") else [])


@pytest.mark.parametrize("task", surrounded.ISOLATIONS)
def test_it_sees_the_exception_and_cannot_swallow_it(app, tmp_path, task):
    said = tmp_path / "said"
    ended = run(app, task, to=str(said), tenant="acme", fail=True)
    assert (ended.status, ended.error_kind) == ("failed", "KeyError")
    assert ended.traceback.count('File "') == 2, "the task and what it called"
    assert "saw KeyError" in lines(said)


@pytest.mark.parametrize("task", surrounded.ISOLATIONS)
def test_it_may_replace_the_exception(app, tmp_path, task):
    ended = run(app, task, to=str(tmp_path / "said"), tenant="replaces", fail=True)
    assert (ended.error_kind, ended.error) == ("GiveUp", "no such tenant")
    assert "KeyError: 'gone'" in ended.traceback, "the first one is its cause"


def test_a_process_that_cannot_find_one_fails_the_run_and_says_why(app, tmp_path):
    surrounded.register_too_late()
    ended = run(app, "in_process", to=str(tmp_path / "said"), tenant="acme")
    assert ended.error_kind == "Invalid"
    assert "late runs around this task, but a process of its own cannot find it" in ended.error


@pytest.mark.parametrize("task", USES)
def test_a_resource_is_opened_once_in_its_process_and_closed_after_the_last_run(app, tmp_path, task):
    ended = run(app, task, times=3, to=str(tmp_path / "said"), tenant="acme")
    pid = ended.result
    assert (pid == os.getpid()) is (task in ("use_on_loop", "use_on_thread"))
    expected = [f"open {pid}", f"close {pid}"]
    if task in ("use_on_loop", "async_use_in_process"):
        expected = [f"open client {pid}", *expected, f"close client {pid}"]
    assert lines(tmp_path / "resources") == expected


def test_a_failed_opening_fails_the_run(app, tmp_path):
    ended = run(app, "use_broken", to=str(tmp_path / "said"), tenant="acme")
    assert (ended.error_kind, ended.error) == ("ConnectionError", "no route")


def test_a_worker_closes_its_resources_after_its_last_run_has_ended(new_app, monkeypatch):
    app, engines, said = new_app(), [], []
    build = app.engine
    monkeypatch.setattr(app, "engine", lambda: engines.append(build()) or engines[-1])
    begun = asyncio.Event()

    @app.resource
    def database():
        said.append("open")
        yield
        said.append("close")

    @app.task
    async def held(ctx: Context) -> list[str]:
        ctx.use(database)
        begun.set()
        await engines[0]._stop.wait()
        return list(said)

    async def body():
        handle = await held.aenqueue()
        await begun.wait()
        return handle

    assert during(app, body).wait().result == ["open"], "open while the stopping worker waits for the run"
    assert said == ["open", "close"]


def test_a_second_signal_does_not_wait_for_a_resource_that_does_not_close(new_app, monkeypatch):
    app, engines, said = new_app(), [], []
    build = app.engine
    monkeypatch.setattr(app, "engine", lambda: engines.append(build()) or engines[-1])

    @app.resource
    async def stuck():
        yield
        said.append("closing")
        engines[0].stop()  # as the second signal does
        await asyncio.Event().wait()

    @app.task
    async def use(ctx: Context) -> None:
        await ctx.ause(stuck)

    during(app, lambda: asyncio.to_thread(use.enqueue().wait))
    assert said == ["closing"]

"""Output and log records of runs are in their own logs before they have ended."""

# ruff: noqa: T201  printing is what this is about
from __future__ import annotations

import asyncio
import io
import logging
import sys
import threading

import pytest

from ostinato.engine.logbook import captured
from ostinato.task import Context
from tests.engine.conftest import Rig
from tests.waiting import PATIENCE, until

LOGGER = logging.getLogger("shop")


@pytest.fixture(autouse=True)
def everything():
    LOGGER.setLevel(logging.DEBUG)
    yield
    LOGGER.setLevel(logging.NOTSET)


async def worked(rig: Rig, concurrency: int = 5):
    """Let a worker run all jobs to their end."""
    worker = await rig.worker(concurrency=concurrency)
    await worker.step()
    await until(lambda: not worker.running)
    await worker.flush()
    worker.close()


def log_of(rig: Rig, job_id):
    (execution,) = rig.store.history.of_job(job_id, 10)
    page = rig.store.logs.read(execution.id, limit=10_000)
    return [(line.stream.value, logging.getLevelName(line.level), line.text) for line in page.lines]


def speaks(ctx: Context) -> None:
    ctx.log.info("sending", to="ann")
    LOGGER.warning("%d left", 3)
    print("printed", end="")
    print(" in parts")
    print("complaint", file=sys.stderr)
    try:
        raise ValueError("no")
    except ValueError:
        LOGGER.exception("it failed")
    sys.stdout.writelines(["first\n", "last"])


async def speaks_too(ctx: Context) -> None:
    speaks(ctx)


SPOKEN = [
    ("log", "INFO", "sending  to=ann"),
    ("log", "WARNING", "3 left"),
    ("stdout", "INFO", "printed in parts"),
    ("stderr", "INFO", "complaint"),
    ("stdout", "INFO", "first"),
    ("stdout", "INFO", "last"),
]


@pytest.mark.parametrize("task", [speaks, speaks_too])
async def test_all_that_a_run_says_is_in_its_log(rig: Rig, task, caplog):
    rig.task(task)
    (job_id,) = rig.enqueue(task=task.__name__)
    with captured(), caplog.at_level(logging.INFO):
        await worked(rig)
    log = log_of(rig, job_id)
    (failed,) = [line for line in log if line[1] == "ERROR"]
    assert [line for line in log if line != failed] == SPOKEN
    assert failed[2].startswith("it failed\nTraceback")
    assert failed[2].endswith("ValueError: no")
    assert any("sending  to=ann job_id=" in record.getMessage() for record in caplog.records)


async def test_it_still_goes_where_it_went(rig: Rig, capsys):
    rig.task(speaks)
    rig.enqueue(task="speaks")
    with captured():
        await worked(rig)
    out, err = capsys.readouterr()
    assert out == "printed in parts\nfirst\nlast"
    assert "complaint\n" in err


async def test_only_ctx_log_is_kept_where_nothing_is_captured(rig: Rig):
    rig.task(speaks)
    (job_id,) = rig.enqueue(task="speaks")
    await worked(rig)
    assert log_of(rig, job_id) == SPOKEN[:1]


async def test_debug_lines_are_kept_when_logging_wants_them(rig: Rig, caplog):
    def details(ctx: Context) -> None:
        ctx.log.debug("detail")

    rig.task(details)
    (quiet,) = rig.enqueue(task="details")
    with caplog.at_level(logging.INFO, "ostinato.task"):
        await worked(rig)
    assert log_of(rig, quiet) == []
    (loud,) = rig.enqueue(task="details")
    with caplog.at_level(logging.DEBUG, "ostinato.task"):
        await worked(rig)
    assert log_of(rig, loud) == [("log", "DEBUG", "detail")]


async def test_the_lines_of_fifty_runs_at_once_do_not_mix(rig: Rig):
    together = threading.Barrier(25)

    def on_thread(ctx: Context, run: int) -> None:
        together.wait(PATIENCE)
        for n in range(20):
            print(f"{run} printed", n)
            ctx.log.info(f"{run} said {n}")
            LOGGER.info("%d logged %d", run, n)

    async def on_loop(ctx: Context, run: int) -> None:
        for n in range(20):
            print(f"{run} printed", n)
            await asyncio.sleep(0)
            ctx.log.info(f"{run} said {n}")
            await asyncio.to_thread(LOGGER.info, "%d logged %d", run, n)

    rig.task(on_thread)
    rig.task(on_loop)
    jobs = [rig.enqueue(task=("on_thread", "on_loop")[run % 2], args=f'{{"run": {run}}}')[0] for run in range(50)]
    with captured():
        await worked(rig, concurrency=50)
    for run, job_id in enumerate(jobs):
        expected = [f"{run} {what} {n}" for n in range(20) for what in ("printed", "said", "logged")]
        assert [text for _, _, text in log_of(rig, job_id)] == expected


async def test_a_task_called_by_another_speaks_in_that_ones_log(rig: Rig):
    def inner(ctx: Context) -> None:
        ctx.log.warning("from inside")

    def outer(ctx: Context) -> None:
        inner(Context.quiet("inner", {}))

    rig.task(outer)
    (job_id,) = rig.enqueue(task="outer")
    with captured():
        await worked(rig)
    ((stream, level, text),) = log_of(rig, job_id)
    assert (stream, level, text.split("  ")[0]) == ("log", "WARNING", "from inside")


async def test_what_nobody_runs_is_in_no_log(rig: Rig):
    def quiet() -> None:
        thread = threading.Thread(target=print, args=("of a bare thread",))
        thread.start()
        thread.join()

    rig.task(quiet)
    (job_id,) = rig.enqueue(task="quiet")
    with captured():
        print("of the program")
        await worked(rig)
    assert log_of(rig, job_id) == []


async def test_a_run_that_says_nothing_costs_nothing(rig: Rig, monkeypatch):
    def nothing() -> None:
        pass

    rig.task(nothing)
    rig.enqueue(task="nothing")
    monkeypatch.setattr(rig.store.logs, "append", None)
    with captured():
        await worked(rig)


def test_streams_are_as_they_were_afterwards(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(sys, "stderr", None)
    handlers = list(logging.getLogger().handlers)
    with captured():
        assert sys.stdout is not stream
        assert sys.stdout.isatty() is False
        assert sys.stderr is None
        print("through")
    assert sys.stdout is stream
    assert logging.getLogger().handlers == handlers
    assert stream.getvalue() == "through\n"


def test_a_stream_that_somebody_else_has_put_there_stays():
    before, other = sys.stdout, io.StringIO()
    try:
        with captured():
            sys.stdout = other
        assert sys.stdout is other
    finally:
        sys.stdout = before

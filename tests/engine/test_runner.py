"""Runs become outcomes: what a task returns or raises, and many at once."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from ostinato.clock import Clock, ManualClock
from ostinato.core.errors import BudgetSpent
from ostinato.core.outcome import Completed, Deferred, Failed, Outcome
from ostinato.engine.runner import Runner
from ostinato.engine.threads import Threads
from ostinato.task import Context, Defer, GiveUp, RetryLater, Task
from tests.build import MINUTE, NOW, a_definition, a_live
from tests.engine.bench import Bench, a_context, a_step, for_ever, raising
from tests.waiting import PATIENCE


def on_both(function: Callable[[], Any]) -> list[Callable[[], Any]]:
    """Return the same task for the loop and for a thread."""

    async def on_loop() -> Any:
        return function()

    return [function, on_loop]


async def run_to_outcome(
    task: Task[..., Any], context: Context, timeout: timedelta | None, threads: Threads, clock: Clock
) -> Outcome:
    """Run one task, wait for it, and return its outcome."""
    finished: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    runner = Runner(threads, clock, lambda _, outcome: finished.set_result(outcome))
    running = runner.start(task, context, timeout)
    outcome = await finished
    del running  # referenced until here
    return outcome


async def come_to(threads: Threads, function: Callable[..., Any], **args: Any) -> Outcome:
    return await run_to_outcome(Task(function, "work"), a_context(args), None, threads, ManualClock(NOW))


# -- results and errors


@pytest.mark.parametrize(
    ("function", "outcome"),
    [
        (lambda: None, Completed(None)),
        (lambda: {"b": 1, "a": [2]}, Completed('{"b":1,"a":[2]}')),
        (lambda: Defer("1h"), Deferred(NOW + timedelta(hours=1))),
        (raising(Defer(NOW + MINUTE)), Deferred(NOW + MINUTE)),
        (raising(BudgetSpent("a.org", NOW + MINUTE)), Deferred(NOW + MINUTE, "a.org")),
    ],
)
async def test_what_a_task_returns_becomes_an_outcome(function, outcome, threads):
    for each in on_both(function):
        assert await come_to(threads, each) == outcome


@pytest.mark.parametrize("function", [lambda: GiveUp("gone"), raising(GiveUp("gone"))])
async def test_giving_up_is_final(function, threads):
    for each in on_both(function):
        outcome = await come_to(threads, each)
        assert (outcome.error.kind, outcome.error.message, outcome.final) == ("GiveUp", "gone", True)


@pytest.mark.parametrize("function", [lambda: RetryLater("5m", "busy"), raising(RetryLater(300, "busy"))])
async def test_a_task_may_say_when_to_try_again(function, threads):
    for each in on_both(function):
        outcome = await come_to(threads, each)
        assert (outcome.error.message, outcome.retry_in, outcome.final) == ("busy", 5 * MINUTE, False)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no such thing"),
        KeyboardInterrupt("no such thing"),
        SystemExit("no such thing"),
        GeneratorExit("no such thing"),
        asyncio.CancelledError("no such thing"),
        BaseException("no such thing"),
    ],
)
async def test_whatever_a_task_raises_is_a_failure_and_not_the_end_of_the_worker(error, threads):
    for each in on_both(raising(error)):
        outcome = await come_to(threads, each)
        assert isinstance(outcome, Failed)
        assert (outcome.error.kind, outcome.error.message) == (type(error).__name__, "no such thing")
        assert (outcome.retry_in, outcome.final) == (None, False)


async def test_a_traceback_begins_with_the_task(threads):
    def fail() -> None:
        raise ValueError("here")

    for each in on_both(fail):
        lines = (await come_to(threads, each)).error.traceback.splitlines()
        assert lines[0] == "Traceback (most recent call last):"
        assert "test_runner.py" in lines[1]
        assert "runner.py" not in lines[1].replace("test_runner.py", "")
        assert lines[-1] == "ValueError: here"


async def test_the_cause_of_giving_up_is_shown(threads):
    def task() -> None:
        try:
            raise KeyError("customer")
        except KeyError as error:
            raise GiveUp("gone") from error

    assert "KeyError: 'customer'" in (await come_to(threads, task)).error.traceback


async def test_long_messages_and_tracebacks_are_cut_visibly(threads):
    outcome = await come_to(threads, raising(ValueError("x\0" * 100_000)))
    assert len(outcome.error.message) == 8 * 1024
    assert len(outcome.error.traceback) == 64 * 1024
    assert "characters cut]" in outcome.error.message
    assert "\0" not in outcome.error.message + outcome.error.traceback


async def test_an_error_that_cannot_be_shown_is_still_a_failure(threads):
    class Sulky(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    for each in on_both(raising(Sulky())):
        outcome = await come_to(threads, each)
        assert outcome.error.kind == "Sulky"
        assert outcome.error.message == "(its message cannot be shown: RuntimeError)"


async def test_endless_recursion_is_a_failure(threads):
    def deeper() -> None:
        deeper()

    for each in on_both(deeper):
        assert (await come_to(threads, each)).error.kind == "RecursionError"


async def test_a_result_that_is_not_json_is_kept_as_text_with_a_warning(threads, caplog):
    with caplog.at_level(logging.WARNING, "ostinato"):
        assert await come_to(threads, lambda: {1}) == Completed('"{1}"')
    (record,) = caplog.records
    assert "The result is kept as text: result is a set" in record.getMessage()
    assert "job_id=" in record.getMessage()


async def test_a_result_that_breaks_while_it_is_read_is_a_failure(threads):
    class Broken(dict):
        def items(self) -> Any:
            raise OSError("torn")

    for each in on_both(lambda: Broken(a=1)):
        assert (await come_to(threads, each)).error.kind == "OSError"


async def test_a_coroutine_that_nobody_awaits_is_a_failure(threads):
    outcome = await come_to(threads, lambda: for_ever())
    assert outcome.final
    assert "async def" in outcome.error.message


async def test_args_that_do_not_fit_are_final(threads):
    async def send(ctx: Context, to: str) -> None: ...

    def send_on_thread(to: str) -> None: ...

    for each in (send, send_on_thread):
        outcome = await come_to(threads, each, tto="x")
        assert outcome.final
        assert "missing 'to'; unexpected 'tto'" in outcome.error.message
        assert outcome.error.traceback is None


async def test_code_deep_inside_a_task_finds_its_context_and_nobody_else_does(threads):
    def deep(ctx: Context) -> bool:
        return Context.current() is ctx

    async def deep_on_loop(ctx: Context) -> bool:
        return Context.current() is ctx

    assert await come_to(threads, deep) == Completed("true")
    assert await come_to(threads, deep_on_loop) == Completed("true")
    assert Context.current() is None


async def test_the_last_progress_is_told_before_the_outcome(threads):
    told: list[str] = []

    class Host:
        def report_progress(self, execution_id: object, fence: int, progress: str) -> None:
            told.append(progress)

    def work(ctx: Context) -> None:
        for done in range(1, 4):
            ctx.progress(done)

    context = Context(a_live(), a_definition(), {}, host=Host(), monotonic=lambda: 0.0)
    await run_to_outcome(Task(work), context, None, threads, ManualClock(NOW))
    assert told == ['{"done":1}', '{"done":3}']


# -- many


async def test_many_results_of_threads_wake_the_loop_once(threads):
    bench = Bench(threads)
    woken: list[int] = []
    take = bench.runner._take_arrivals
    bench.runner._take_arrivals = lambda: (woken.append(1), take())  # type: ignore[method-assign]
    done = threading.Barrier(5)
    together = [bench.start(lambda: None) for _ in range(100)]
    for _ in range(4):
        threads.submit(lambda: done.wait(PATIENCE) and None)
    done.wait(PATIENCE)  # the loop is blocked until all hundred have returned
    for _ in together:
        assert await bench.outcome() == Completed(None)
    assert woken == [1]
    assert set(bench.order) == set(together)


async def test_every_run_finishes_exactly_once(threads):
    bench = Bench(threads)

    async def work(n: int) -> int:
        await a_step()
        return n

    def on_thread(n: int) -> int:
        return n

    started = [bench.start(work if n % 2 else on_thread, MINUTE, n=n) for n in range(500)]
    results = [int((await bench.outcome()).result) for _ in started]
    assert sorted(results) == list(range(500))


def test_a_run_that_is_thrown_away_with_its_loop_reports_nothing(threads):
    async def abandon() -> Bench:
        bench = Bench(threads)
        bench.held = bench.start(for_ever)
        await a_step()
        return bench

    loop = asyncio.new_event_loop()
    bench = loop.run_until_complete(abandon())
    bench.held._loop_task._log_destroy_pending = False
    loop.close()
    del bench.held, loop, bench.loop, bench.runner
    gc.collect()
    assert bench.outcomes == []


def test_a_thread_that_outlives_the_loop_harms_nobody(threads):
    hold, over = threading.Event(), threading.Event()

    async def abandon() -> Bench:
        bench = Bench(threads)
        bench.start(lambda: hold.wait(PATIENCE))
        return bench

    bench = asyncio.run(abandon())
    hold.set()
    threads.submit(over.set)
    threads.stop()
    over.wait(PATIENCE)
    assert bench.outcomes == []

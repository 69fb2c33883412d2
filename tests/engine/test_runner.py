"""Running becomes a value. Time is the loop's, and it jumps: no test waits for it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import threading
from collections.abc import Callable, Coroutine, Iterator
from datetime import timedelta
from typing import Any

import pytest

from ostinato.clock import ManualClock
from ostinato.core.errors import BudgetSpent
from ostinato.core.outcome import (
    Cancelled,
    Completed,
    Deferred,
    Failed,
    Interrupted,
    Lost,
    Outcome,
    TimedOut,
)
from ostinato.engine.runner import OnThread, Runner, Running, run_to_outcome
from ostinato.engine.threads import Threads
from ostinato.task import Context, Defer, GiveUp, RetryLater, Task
from tests.build import MINUTE, NOW, SECOND, a_definition, a_live

SOON = 10  # seconds; what is awaited has always happened long before


class JumpingLoop(asyncio.SelectorEventLoop):
    """A loop on which time passes only when nothing else is left to do, and then at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self._really_select = self._selector.select
        self._selector.select = self._jump  # type: ignore[method-assign]

    def time(self) -> float:
        return getattr(self, "now", 0.0)

    def _jump(self, timeout: float | None = None) -> Any:
        if timeout is None:  # nothing but another thread can go on
            return self._really_select(SOON)
        ready = self._really_select(0)
        if not ready:
            self.now += timeout
        return ready


class Bench:
    """A runner, and what came of what it started."""

    def __init__(self, threads: Threads) -> None:
        self.outcomes: list[Outcome] = []
        self.order: list[Running] = []
        self._finished = asyncio.Event()
        self.runner = Runner(threads, ManualClock(NOW), self._on_finished)
        self.loop = asyncio.get_running_loop()

    def start(self, function: Callable[..., Any], timeout: timedelta | None = None, **args: Any) -> Running:
        return self.runner.start(Task(function, "work"), a_context(args), timeout)

    def later(self, seconds: float, call: Callable[..., object], *args: object) -> None:
        self.loop.call_later(seconds, call, *args)

    async def outcome(self) -> Outcome:
        """The next one to finish."""
        while not self.outcomes:
            self._finished.clear()
            await self._finished.wait()
        return self.outcomes.pop(0)

    def _on_finished(self, running: Running, outcome: Outcome) -> None:
        assert threading.current_thread() is threading.main_thread()
        self.outcomes.append(outcome)
        self.order.append(running)
        self._finished.set()


def a_context(args: dict[str, Any] | None = None) -> Context:
    return Context(a_live(running=True), a_definition(), args or {})


@pytest.fixture
def threads() -> Iterator[Threads]:
    threads = Threads(4, "runner-test")
    yield threads
    threads.stop()


@pytest.fixture
def jumping(threads: Threads) -> Callable[[Callable[[Bench], Coroutine[Any, Any, None]]], None]:
    """Runs a scene on a loop whose time jumps."""

    def run(scene: Callable[[Bench], Coroutine[Any, Any, None]]) -> None:
        async def main() -> None:
            await scene(Bench(threads))

        with asyncio.Runner(loop_factory=JumpingLoop) as runner:
            runner.run(main())

    return run


def on_both(function: Callable[[], Any]) -> list[Callable[[], Any]]:
    """The same task for the loop and for a thread."""

    async def on_loop() -> Any:
        return function()

    return [function, on_loop]


async def come_to(threads: Threads, function: Callable[..., Any], **args: Any) -> Outcome:
    return await run_to_outcome(Task(function, "work"), a_context(args), None, threads, ManualClock(NOW))


def raising(error: BaseException) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


async def for_ever() -> None:
    await asyncio.Event().wait()


async def a_step() -> None:
    """Let the loop turn once."""
    turned = asyncio.Event()
    asyncio.get_running_loop().call_soon(turned.set)
    await turned.wait()


# -- what is returned and raised


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
    for each in on_both(raising(ValueError("here"))):
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

    class Desk:
        def report_progress(self, execution_id: object, fence: int, progress: str) -> None:
            told.append(progress)

    def work(ctx: Context) -> None:
        for done in range(1, 4):
            ctx.progress(done)

    context = Context(a_live(), a_definition(), {}, desk=Desk(), monotonic=lambda: 0.0)
    await run_to_outcome(Task(work), context, None, threads, ManualClock(NOW))
    assert told == ['{"done":1}', '{"done":3}']


# -- timeouts


def test_a_task_on_the_loop_is_stopped_at_its_timeout(jumping):
    async def scene(bench: Bench) -> None:
        running = bench.start(for_ever, MINUTE)
        assert await bench.outcome() == TimedOut(MINUTE)
        assert running.context.cancelled
        assert running.stopping_since == bench.loop.time() == 60

    jumping(scene)


def test_a_task_that_returns_in_time_leaves_no_timer_behind(jumping):
    async def scene(bench: Bench) -> None:
        async def quick() -> int:
            return 1

        bench.start(quick, MINUTE)
        assert await bench.outcome() == Completed("1")
        assert [timer for timer in bench.loop._scheduled if not timer.cancelled()] == []

    jumping(scene)


def test_a_thread_past_its_timeout_stays_running_and_its_late_result_changes_nothing(jumping):
    async def scene(bench: Bench) -> None:
        hold = threading.Event()
        running = bench.start(lambda: hold.wait(SOON), MINUTE)
        seen: list[object] = []

        def look() -> None:
            seen.extend([list(bench.outcomes), running.stopping_since, running.context.cancelled])
            hold.set()

        bench.later(90, look)
        assert await bench.outcome() == TimedOut(MINUTE)
        assert seen == [[], 60, True], "after 90 s it was still running, and told to stop"

    jumping(scene)


def test_a_thread_sees_that_it_should_stop(jumping):
    async def scene(bench: Bench) -> None:
        begun, asked = threading.Event(), threading.Event()

        def work(ctx: Context) -> str:
            begun.set()
            asked.wait(SOON)
            return "stopped" if ctx.cancelled else "went on"

        running = bench.start(work)
        begun.wait(SOON)
        running.cancel(Interrupted())
        asked.set()
        assert await bench.outcome() == Completed('"stopped"')

    jumping(scene)


# -- cancelling


WISHES = [Cancelled(by="ops"), Interrupted(), Lost()]


@pytest.mark.parametrize("wish", WISHES)
def test_a_task_on_the_loop_ends_as_it_was_asked_to(wish, jumping):
    async def scene(bench: Bench) -> None:
        running = bench.start(for_ever)
        await a_step()
        running.cancel(wish)
        assert await bench.outcome() == wish
        assert bench.loop.time() == 0, "at once"

    jumping(scene)


@pytest.mark.parametrize("wish", WISHES)
def test_a_task_that_is_stopped_before_its_first_step_never_runs(wish, jumping):
    async def scene(bench: Bench) -> None:
        ran: list[int] = []

        async def work() -> None:
            ran.append(1)

        bench.start(work).cancel(wish)
        assert await bench.outcome() == wish
        assert ran == []

    jumping(scene)


def test_a_task_that_swallows_the_error_gets_it_again_every_second(jumping):
    async def scene(bench: Bench) -> None:
        swallowed: list[float] = []

        async def stubborn() -> str:
            while len(swallowed) < 4:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    swallowed.append(bench.loop.time())
            return "done at last"

        running = bench.start(stubborn, MINUTE)
        assert await bench.outcome() == TimedOut(MINUTE)
        assert swallowed == [60, 61, 62, 63]
        assert running.stopping_since == 60

    jumping(scene)


@pytest.mark.parametrize("wish", WISHES)
@pytest.mark.parametrize("ending", [lambda: "tidied up", raising(OSError("while tidying up"))])
def test_a_task_that_was_stopped_on_the_loop_has_not_done_its_work(wish, ending, jumping):
    async def scene(bench: Bench) -> None:
        async def tidy() -> Any:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            return ending()

        running = bench.start(tidy)
        await a_step()
        running.cancel(wish)
        assert await bench.outcome() == wish

    jumping(scene)


def test_a_result_that_was_there_first_stands(jumping):
    async def scene(bench: Bench) -> None:
        async def work() -> int:
            return 1

        running = bench.start(work)
        await a_step()
        running.cancel(Cancelled())
        assert await bench.outcome() == Completed("1")
        assert running.stopping_since is None

    jumping(scene)


def test_a_thread_that_had_returned_before_it_was_asked_has_completed(jumping):
    async def scene(bench: Bench) -> None:
        handed_back = threading.Event()
        hand_back = bench.runner.hand_back

        def and_tell(running: OnThread, outcome: Outcome) -> None:
            hand_back(running, outcome)
            handed_back.set()

        bench.runner.hand_back = and_tell  # type: ignore[method-assign]
        running = bench.start(lambda: 1)
        handed_back.wait(SOON)  # the loop is held up meanwhile, and has not seen the outcome
        running.cancel(Cancelled())
        assert await bench.outcome() == Completed("1")

    jumping(scene)


def thread_asked(wish: Any, ending: Callable[[], Any]) -> Callable[[Bench], Coroutine[Any, Any, Outcome]]:
    """A thread that is asked to stop while it runs, and then ends like this."""

    async def scene(bench: Bench) -> Outcome:
        begun, asked = threading.Event(), threading.Event()

        def work() -> Any:
            begun.set()
            asked.wait(SOON)
            return ending()

        running = bench.start(work)
        begun.wait(SOON)
        running.cancel(wish)
        asked.set()
        return await bench.outcome()

    return scene


@pytest.mark.parametrize("ending", [lambda: 1, raising(ValueError()), raising(Defer("1h"))])
async def test_a_thread_ends_as_it_was_asked_to_whatever_it_does(ending, threads):
    assert await thread_asked(Cancelled(), ending)(Bench(threads)) == Cancelled()


async def test_a_thread_whose_lease_was_lost_brings_its_own_result_for_the_fence_to_refuse(threads):
    assert await thread_asked(Lost(), lambda: 1)(Bench(threads)) == Completed("1")


async def test_a_thread_may_finish_while_its_worker_stops(threads):
    bench = Bench(threads)
    assert await thread_asked(Interrupted(), lambda: 1)(bench) == Completed("1")
    assert await thread_asked(Interrupted(), raising(Defer("1m")))(bench) == Deferred(NOW + MINUTE)
    assert (await thread_asked(Interrupted(), raising(GiveUp()))(bench)).final
    stopped = await thread_asked(Interrupted(), raising(ValueError("I was told to stop")))(bench)
    assert stopped == Interrupted(), "it spends no retry"


def test_asked_twice_the_weightier_wish_counts(jumping):
    async def scene(bench: Bench) -> None:
        for first, then, outcome in [
            (Interrupted(), Cancelled(by="ops"), Cancelled(by="ops")),
            (Cancelled(by="ops"), Interrupted(), Cancelled(by="ops")),
            (TimedOut(SECOND), Cancelled(), Cancelled()),
            (Cancelled(), Lost(), Lost()),
        ]:
            running = bench.start(for_ever)
            await a_step()
            running.cancel(first)
            running.cancel(then)
            assert await bench.outcome() == outcome

    jumping(scene)


def test_a_task_waiting_for_its_args_to_be_refused_can_be_cancelled(jumping):
    async def scene(bench: Bench) -> None:
        for function in (for_ever, lambda: None):
            bench.start(function, unexpected=1).cancel(Cancelled())
            assert await bench.outcome() == Cancelled()

    jumping(scene)


async def test_a_thread_task_that_was_still_waiting_for_a_thread_never_runs(threads):
    bench, hold, ran = Bench(threads), threading.Event(), []
    for _ in range(4):
        threads.submit(lambda: hold.wait(SOON) and None)
    bench.start(lambda: ran.append(1)).cancel(Interrupted())
    hold.set()
    assert await bench.outcome() == Interrupted()
    assert ran == []


# -- many


async def test_many_results_of_threads_wake_the_loop_once(threads):
    bench = Bench(threads)
    woken: list[int] = []
    take = bench.runner._take_arrivals
    bench.runner._take_arrivals = lambda: (woken.append(1), take())  # type: ignore[method-assign]
    done = threading.Barrier(5)
    together = [bench.start(lambda: None) for _ in range(100)]
    for _ in range(4):
        threads.submit(lambda: done.wait(SOON) and None)
    done.wait(SOON)  # the loop is held up until all hundred have returned
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
    bench.held._lane._log_destroy_pending = False
    loop.close()
    del bench.held, loop, bench.loop, bench.runner
    gc.collect()
    assert bench.outcomes == []


def test_a_thread_that_outlives_the_loop_harms_nobody(threads):
    hold, over = threading.Event(), threading.Event()

    async def abandon() -> Bench:
        bench = Bench(threads)
        bench.start(lambda: hold.wait(SOON))
        return bench

    bench = asyncio.run(abandon())
    hold.set()
    threads.submit(over.set)
    threads.stop()
    over.wait(SOON)
    assert bench.outcomes == []

"""Timeouts and cancellations. Time is the loop's, and it jumps: no test waits for it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ostinato.core.outcome import Cancelled, Completed, Deferred, Interrupted, Lost, Outcome, TimedOut
from ostinato.engine.running import OnThread
from ostinato.engine.threads import Threads
from ostinato.task import Context, Defer, GiveUp
from tests.build import MINUTE, NOW, SECOND
from tests.engine.bench import Bench, JumpingLoop, a_step, for_ever, raising
from tests.waiting import PATIENCE


@pytest.fixture
def jumping(threads: Threads) -> Callable[[Callable[[Bench], Coroutine[Any, Any, None]]], None]:
    """Return a runner of scenes on a loop whose time jumps."""

    def run(scene: Callable[[Bench], Coroutine[Any, Any, None]]) -> None:
        async def main() -> None:
            await scene(Bench(threads))

        with asyncio.Runner(loop_factory=JumpingLoop) as runner:
            runner.run(main())

    return run


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
        running = bench.start(lambda: hold.wait(PATIENCE), MINUTE)
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
            asked.wait(PATIENCE)
            return "stopped" if ctx.cancelled else "went on"

        running = bench.start(work)
        begun.wait(PATIENCE)
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
        handed_back.wait(PATIENCE)  # the loop is blocked meanwhile, and has not seen the outcome
        running.cancel(Cancelled())
        assert await bench.outcome() == Completed("1")

    jumping(scene)


def thread_asked(wish: Any, ending: Callable[[], Any]) -> Callable[[Bench], Coroutine[Any, Any, Outcome]]:
    """Ask a thread to stop while it runs, and let it end like this."""

    async def scene(bench: Bench) -> Outcome:
        begun, asked = threading.Event(), threading.Event()

        def work() -> Any:
            begun.set()
            asked.wait(PATIENCE)
            return ending()

        running = bench.start(work)
        begun.wait(PATIENCE)
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
        threads.submit(lambda: hold.wait(PATIENCE) and None)
    bench.start(lambda: ran.append(1)).cancel(Interrupted())
    hold.set()
    assert await bench.outcome() == Interrupted()
    assert ran == []

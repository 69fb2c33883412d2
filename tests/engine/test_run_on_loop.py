"""Runs share an asyncio task only as long as none can notice it."""

import asyncio
from contextvars import ContextVar
from typing import Any

from ostinato.clock import SystemClock
from ostinato.core.outcome import Completed, Failed
from ostinato.engine.runner import Runner
from ostinato.engine.threads import LoopTasks, Threads
from ostinato.task import Context, Task

NAME: ContextVar[str] = ContextVar("NAME", default="nobody's")


async def outcomes(*functions: Any) -> list[Any]:
    """Start them all at once; return their outcomes in the order in which they end."""
    ended: list[Any] = []
    done = asyncio.Event()

    def on_finished(running: Any, outcome: Any) -> None:
        ended.append((running.task.name, outcome))
        if len(ended) == len(functions):
            done.set()

    runner = Runner(Threads(1), SystemClock(), on_finished)
    tasks = [Task(each) for each in functions]
    held = [runner.start(each, Context.quiet(each.name, {}), None) for each in tasks]
    await done.wait()
    del held
    return ended


async def test_runs_that_never_wait_share_a_loop_task():
    seen: list[Any] = []

    async def notes() -> None:
        seen.append(asyncio.current_task())

    await outcomes(notes, notes, notes)
    assert len(set(seen)) == 1


async def test_a_run_that_waits_keeps_its_loop_task_and_blocks_no_other_run():
    seen: dict[str, Any] = {}
    others_ran = asyncio.Event()

    async def waits() -> None:
        seen["waits"] = asyncio.current_task()
        await others_ran.wait()
        assert asyncio.current_task() is seen["waits"]

    async def follows() -> None:
        seen["follows"] = asyncio.current_task()
        others_ran.set()

    ended = await outcomes(waits, follows)
    assert [name for name, _ in ended] == ["follows", "waits"]
    assert all(isinstance(outcome, Completed) for _, outcome in ended)
    assert seen["waits"] is not seen["follows"]


async def test_after_a_run_that_waited_the_loop_task_is_closed():
    seen: list[Any] = []
    loop_tasks = LoopTasks(asyncio.get_running_loop())
    done = asyncio.Event()

    class Waits:
        async def go(self, loop_task: Any) -> bool:
            seen.append(loop_task)
            await asyncio.sleep(0)  # no other run is there
            loop_tasks.start(Last())
            return False

    class Last:
        async def go(self, loop_task: Any) -> bool:
            seen.append(loop_task)
            done.set()
            return True

    loop_tasks.start(Waits())
    await done.wait()
    assert seen[0] is not seen[1]


async def test_each_run_has_contextvars_of_its_own():
    seen: list[str] = []

    async def names_itself() -> None:
        seen.append(NAME.get())
        NAME.set("mine")
        await asyncio.sleep(0)  # the same value after a wait
        seen.append(NAME.get())

    async def looks() -> None:
        seen.append(NAME.get())
        NAME.set("another's")

    await outcomes(looks, looks, names_itself, looks)
    assert sorted(seen) == ["mine", *["nobody's"] * 4]
    assert NAME.get() == "nobody's"


async def test_the_current_context_is_that_of_the_run():
    seen: list[bool] = []

    async def looks(ctx: Context) -> None:
        seen.append(Context.current() is ctx)
        await asyncio.sleep(0)
        seen.append(Context.current() is ctx)

    await outcomes(looks, looks)
    assert seen == [True] * 4


async def test_a_run_that_cancels_its_own_loop_task_is_the_last_in_it():
    async def cancels_itself() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()  # it would reach the next run of this loop task

    async def waits() -> str:
        await asyncio.sleep(0)
        return "waited"

    ended = await outcomes(cancels_itself, waits, waits)
    assert [(name, type(outcome)) for name, outcome in ended] == [
        ("cancels_itself", Completed),
        ("waits", Completed),
        ("waits", Completed),
    ]


async def test_an_error_ends_a_run_not_the_others():
    async def fails() -> None:
        raise SystemExit(3)

    async def works() -> None:
        pass

    ended = await outcomes(works, fails, works)
    assert [type(outcome) for _, outcome in ended] == [Completed, Failed, Completed]

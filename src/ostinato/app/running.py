"""Running a program on a loop to its end: nothing that refuses to end keeps the process alive."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

LAST_CHANCE: Final = 0.5  # seconds for what is cancelled at the very end


def run_to_the_end(work: Coroutine[Any, Any, None]) -> None:
    """As `asyncio.run`, which would wait for ever for a task that does not let itself be cancelled."""
    runner = asyncio.Runner()
    try:
        runner.run(work)
    finally:
        if runner.run(_all_over()):
            runner.close()


async def _all_over() -> bool:
    """Cancel what is left; whether all of it has ended. What has not is left to the end of the process."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for each in left:
        each.cancel()
    going_on = (await asyncio.wait(left, timeout=LAST_CHANCE))[1] if left else set()
    for each in going_on:
        each._log_destroy_pending = False  # type: ignore[attr-defined]  # the engine has told of it already
    return not going_on

"""Running a program on a loop to its end: nothing that refuses to end keeps the process alive."""

import asyncio
import gc
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final

LAST_CHANCE: Final = 0.5  # seconds for what is cancelled at the very end
# New objects before Python looks for circles among them. Its 700 are 70 runs, which are not garbage yet: looking at
# them over and over took 5 % of the throughput.
YOUNG: Final = 10_000
IMMORTAL: Final = 1000  # Python 3.12 counts about 400 immortal objects as frozen


def run_to_the_end(work: Coroutine[Any, Any, None]) -> None:
    """As `asyncio.run`, which would wait for ever for a task that does not let itself be cancelled."""
    runner = asyncio.Runner()
    try:
        with _rare_collections():
            runner.run(work)
    finally:
        if runner.run(_all_over()):
            runner.close()


@contextmanager
def _rare_collections() -> Iterator[None]:
    """While this process is ours. Whoever has chosen more, or none, keeps it.

    What was imported is not looked at again: that was most of the 50 ms for which everything stood still now and then.
    """
    young, *older = before = gc.get_threshold()
    ours = bool(young) and gc.isenabled() and gc.get_freeze_count() < IMMORTAL
    if young:
        gc.set_threshold(max(young, YOUNG), *older)
    if ours:
        gc.collect()
        gc.freeze()
    try:
        yield
    finally:
        if ours:
            gc.unfreeze()
        gc.set_threshold(*before)


async def _all_over() -> bool:
    """Cancel what is left; whether all of it has ended. What has not is left to the end of the process."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for each in left:
        each.cancel()
    going_on = (await asyncio.wait(left, timeout=LAST_CHANCE))[1] if left else set()
    for each in going_on:
        each._log_destroy_pending = False  # type: ignore[attr-defined]  # the engine has told of it already
    return not going_on

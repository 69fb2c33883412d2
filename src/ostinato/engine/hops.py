"""From any thread to the loop."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import ParamSpec

P = ParamSpec("P")


def hopping_to(loop: asyncio.AbstractEventLoop) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Turns a call into one that hops from any thread to the loop, if there still is one."""

    def hop(call: Callable[P, None]) -> Callable[P, None]:
        def from_a_thread(*args: P.args, **kwargs: P.kwargs) -> None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(lambda: call(*args, **kwargs))

        return from_a_thread

    return hop

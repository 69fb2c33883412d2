"""Threads for the checks of each request, which slow requests cannot occupy."""

from collections.abc import Callable
from typing import Final, TypeVar

from anyio import CapacityLimiter
from anyio.lowlevel import RunVar
from anyio.to_thread import run_sync

CHECKS_AT_ONCE: Final = 4

T = TypeVar("T")

_limiter: Final = RunVar[CapacityLimiter]("_limiter")


async def run_check(check: Callable[[], T]) -> T:
    """Run a check of a credential or of readiness on a thread that is reserved for checks."""
    try:
        limiter = _limiter.get()
    except LookupError:
        limiter = CapacityLimiter(CHECKS_AT_ONCE)
        _limiter.set(limiter)
    return await run_sync(check, limiter=limiter)

"""The CPU time that one question of the API or the dashboard may use."""

import time
from collections.abc import Callable
from typing import Final

from ostinato.core.searching import Expired

SECONDS: Final = 0.25


def allowance(seconds: float = SECONDS, spent: Callable[[], float] = time.thread_time) -> Expired:
    """Start to count the CPU time of this thread; the result turns true once `seconds` of it are used."""
    end = spent() + seconds
    return lambda: spent() > end

"""Progress and counters of a run in a process, from its messages and its output.

Its output comes by the pipes, line by line, and is counted here as it passes. A run that tells no progress of its own
shows its last line instead.
"""

import asyncio
from dataclasses import replace
from typing import Any, Final

from ostinato.core.account import Account
from ostinato.core.model import Json
from ostinato.core.payload import cut, decode
from ostinato.task import Context

EVERY: Final = 0.25  # seconds; what comes in between is told together
LONGEST_MESSAGE: Final = 200


class Told:
    """Of one run. It belongs to the loop."""

    def __init__(self, context: Context, loop: asyncio.AbstractEventLoop) -> None:
        self._context, self._loop = context, loop
        self._lines = self._bytes = 0
        self._last = ""
        self._silent = True  # it has told no progress of its own
        self._timer: asyncio.TimerHandle | None = None

    def progressed(self, progress: Json) -> None:
        """It says how far it is, in its process."""
        told = decode(progress)
        self._silent = self._silent and "done" not in told
        self._context.take_over(told)

    def wrote(self, lines: int, size: int, last: str) -> None:
        """It has written so many lines more, of so many bytes; the last one that is not empty, or nothing."""
        self._lines += lines
        self._bytes += size
        self._last = last or self._last
        if self._timer is None:
            self._timer = self._loop.call_later(EVERY, self._tell)

    def ended(self, account: Account) -> Account:
        """Return the account of the run with its counters."""
        if self._timer is not None:
            self._tell()
        crawled, indexed = self._context.items
        counters = dict(self._context.counters or ())
        code = account.exit_code if account.exit_code is not None else counters.pop("exit_code", None)
        return replace(
            account,
            exit_code=None if code is None else int(code),  # of its process, or of the program that it ran
            items_crawled=crawled,
            items_indexed=indexed,
            counters=tuple(counters.items()) or None,
        )

    def _tell(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        told: dict[str, Any] = {"counters": {"output_lines": self._lines, "output_bytes": self._bytes}}
        if self._silent:
            told |= {"done": self._lines, "message": cut(self._last, LONGEST_MESSAGE)}
        self._context.take_over(told)

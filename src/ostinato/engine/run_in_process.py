"""Progress and counters of a run in a process, from its messages and its output.

The output comes through pipes, line by line, and is counted here. If a run reports no progress of its own, its last
line is shown instead.
"""

import asyncio
from dataclasses import replace
from typing import Any, Final

from ostinato.core.account import Account
from ostinato.core.model import Json
from ostinato.core.payload import cut, decode
from ostinato.task import Context

EVERY: Final = 0.25  # seconds; later updates within this are combined
LONGEST_MESSAGE: Final = 200


class RunProgress:
    """Progress and counters of one run. It belongs to the loop."""

    def __init__(self, context: Context, loop: asyncio.AbstractEventLoop) -> None:
        self._context, self._loop = context, loop
        self._lines = self._bytes = 0
        self._last = ""
        self._silent = True  # no progress of its own so far
        self._timer: asyncio.TimerHandle | None = None

    def progressed(self, progress: Json) -> None:
        """Take over the progress that the run reports from its process."""
        reported = decode(progress)
        self._silent = self._silent and "done" not in reported
        self._context.take_over(reported)

    def wrote(self, lines: int, size: int, last: str) -> None:
        """Count output: so many more lines and bytes; `last` is the last line that is not empty, or ""."""
        self._lines += lines
        self._bytes += size
        self._last = last or self._last
        if self._timer is None:
            self._timer = self._loop.call_later(EVERY, self._report)

    def ended(self, account: Account) -> Account:
        """Return the account of the run with its counters."""
        if self._timer is not None:
            self._report()
        crawled, indexed = self._context.items
        counters = dict(self._context.counters or ())
        code = account.exit_code if account.exit_code is not None else counters.pop("exit_code", None)
        return replace(
            account,
            exit_code=None if code is None else int(code),  # of the process, or of the program that it ran
            items_crawled=crawled,
            items_indexed=indexed,
            counters=tuple(counters.items()) or None,
            traceparent=self._context.traceparent,
        )

    def _report(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        progress: dict[str, Any] = {"counters": {"output_lines": self._lines, "output_bytes": self._bytes}}
        if self._silent:
            progress |= {"done": self._lines, "message": cut(self._last, LONGEST_MESSAGE)}
        self._context.take_over(progress)

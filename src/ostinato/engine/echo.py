"""Copy of the first output lines of runs in processes, on the worker's own log.

A record takes fifty microseconds of the loop. A program that writes a million lines would keep it busy for a minute,
and all of them are in the log of the execution anyway.
"""

import logging
from typing import Final
from uuid import UUID

from ostinato.core.payload import Line
from ostinato.isolation.plan import CUT, OUTPUT, Written, to_logging

MOST: Final = 1000  # lines of a run


class Echo:
    """Shows lines, as many of each run as is good."""

    def __init__(self, most: int | None = MOST) -> None:
        """`most` None: all of them, since nobody else keeps them."""
        self._most = most
        self._shown: dict[UUID, int] = {}

    def show(self, line: Written) -> None:
        if self._most is None or line.execution_id is None or line.stream == CUT:
            to_logging(line)
            return
        shown = self._shown[line.execution_id] = self._shown.get(line.execution_id, 0) + 1
        if shown <= self._most:
            to_logging(line)
        elif shown == self._most + 1 and OUTPUT.isEnabledFor(logging.INFO):
            OUTPUT.info(
                Line("The rest is in the log of the execution", {"execution_key": line.execution_key})
            )

    def ended(self, execution_id: UUID) -> None:
        self._shown.pop(execution_id, None)

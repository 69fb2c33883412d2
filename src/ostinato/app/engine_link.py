"""Queries from the HTTP process to the engine's process, over a pair of sockets.

The answer contains the reasons why no job comes due, if there are any, and the counts and times for `/metrics`. At most
one query is sent per second: all callers in this time share its answer.
"""

import asyncio
import json
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Lock
from typing import Final

from ostinato.core.errors import StoreUnavailable
from ostinato.isolation.frames import BYTES_OF_A_READ, Frame, Unpacking, packed
from ostinato.telemetry.process_metrics import EndedTotals, EngineView, MetricsSnapshot

QUERY_EVERY: Final = 1.0  # seconds between two queries
ANSWER_TIMEOUT: Final = 2.0  # seconds until an answer counts as missing
ASK: Final = "ask"
STOP: Final = "stop"
SILENT: Final = "The engine's process does not answer."


@dataclass(frozen=True, slots=True)
class EngineReport:
    """State of an engine: the reasons why no job comes due, if any, and its counts and times."""

    troubles: list[str]
    measurement: MetricsSnapshot

    @classmethod
    def of(cls, engine: EngineView) -> "EngineReport":
        return cls(engine.troubles(), engine.measure().measurement())

    def to_json(self) -> bytes:
        return json.dumps({"troubles": self.troubles, "measurement": self.measurement.to_json()}).encode()

    @classmethod
    def from_json(cls, text: bytes) -> "EngineReport":
        value = json.loads(text)
        return cls(value["troubles"], MetricsSnapshot.from_json(value["measurement"]))


async def frames(reader: asyncio.StreamReader, take: Callable[[Frame], None]) -> None:
    """Pass on each frame until the other end is closed."""
    unpacking = Unpacking()
    try:
        while data := await reader.read(BYTES_OF_A_READ):
            for frame in unpacking.feed(data):
                take(frame)
    except ConnectionError:
        return


class EngineLink:
    """The engine as the HTTP process sees it. Threads send queries; the loop receives the answers."""

    def __init__(
        self,
        writer: asyncio.StreamWriter,
        pid: int,
        patience: float = ANSWER_TIMEOUT,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._writer, self.pid, self._patience, self._now = writer, pid, patience, now
        self._loop = asyncio.get_running_loop()
        self._lock = Lock()
        self._asked_at = float("-inf")
        self._report = Future[EngineReport]()
        self.executions = EndedTotals()

    def troubles(self) -> list[str]:
        """List the reasons why no job comes due."""
        try:
            return self._ask().troubles
        except StoreUnavailable as error:
            return [str(error)]

    def measure(self) -> "EngineLink":
        return self

    def measurement(self) -> MetricsSnapshot:
        """Query counts and times; raise StoreUnavailable if no answer comes."""
        return self._ask().measurement

    def answered(self, frame: Frame) -> None:
        """Take an answer, on the loop."""
        if not self._report.done():
            self._report.set_result(EngineReport.from_json(frame.body))

    def _ask(self) -> EngineReport:
        with self._lock:
            if self._now() - self._asked_at >= (QUERY_EVERY if self._report.done() else self._patience):
                if self._report.done():  # else callers still wait for this report
                    self._report = Future()
                self._asked_at = self._now()
                self._loop.call_soon_threadsafe(self._writer.write, packed({"do": ASK}))
            report = self._report
        try:
            return report.result(self._patience)
        except TimeoutError:
            raise StoreUnavailable(SILENT) from None

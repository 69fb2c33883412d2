"""R: many jobs of `every 1s` with the same due times, run by one process for 20 seconds."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from benchmarks import marks
from benchmarks.catalogue import SQLITE, Stage, Subject, stage
from benchmarks.measures.rounds import Figures
from benchmarks.measures.running import Unwell, cpu_seconds, percentile, run, worker
from benchmarks.servers import Servers

LATE = 1.0  # seconds after the last due time in which runs may still start
LOOK_EVERY = 0.1


class Recurring:
    def __init__(self, servers: Servers, folder: Path, seconds: int) -> None:
        self._servers, self._folder, self._seconds = servers, folder, seconds

    def measure(self, subject: Subject, schedules: int) -> Figures:
        file = self._folder / "marks"
        file.unlink(missing_ok=True)
        set_up = stage(subject, self._servers, self._folder)
        expected = schedules * self._seconds
        if not subject.ours:
            answer = run(set_up, file, "recur", str(schedules), str(self._seconds))
            return _figures(file, answer["began"], self._seconds, expected, None)
        run(set_up, file, "setup", "0")
        began = run(set_up, file, "recur", str(schedules), str(self._seconds))["began"]
        with looking(set_up) as ask, worker(set_up, file) as process:
            time.sleep(max(0.0, began - 0.5 - time.time()))
            before = cpu_seconds(process)
            longest = _watch(ask, began + self._seconds + LATE)
            cpu = (cpu_seconds(process) - before) / (self._seconds + 1.5)
            skipped = int(ask("SELECT coalesce(sum(count), 0) FROM {skips}"))
            within = f"due_at < {round((began + self._seconds) * 1e6)}"
            recorded = ask(f"SELECT count(*) FROM {{executions}} WHERE {within}")
        ours = {"skipped": skipped, "recorded": recorded, "settle_wait": longest, "cpu": cpu}
        return _figures(file, began, self._seconds, expected, ours)


def _figures(file: Path, began: float, seconds: int, expected: int, ours: Figures | None) -> Figures:
    late = sorted(
        microseconds / 1000
        for microseconds, when in marks.read(file)
        if began <= when < began + seconds + LATE and when - microseconds / 1e6 < began + seconds - 0.5
    )
    if not late:
        raise Unwell("nothing fired")
    return {
        "fired": min(100.0, 100 * len(late) / expected),
        "early": sum(ms < 0 for ms in late),
        "p50": percentile(late, 0.5),
        "p99": percentile(late, 0.99),
        **(ours or {}),
    }


def _watch(ask: Any, until: float) -> float:
    """Return the greatest age of an unsettled run; a no-op ends when it starts."""
    longest = 0.0
    while time.time() < until:
        oldest = ask("SELECT min(started_at) FROM {live} WHERE worker_id IS NOT NULL")
        if oldest is not None:
            longest = max(longest, time.time() - oldest / 1e6)
        time.sleep(LOOK_EVERY)
    return longest


@contextmanager
def looking(set_up: Stage) -> Iterator[Any]:
    """Query one value of Ostinato's tables."""
    on_sqlite = set_up.subject.store == SQLITE
    connection: Any = (
        sqlite3.connect(set_up.url.removeprefix("sqlite:///"))
        if on_sqlite
        else psycopg.connect(set_up.url, autocommit=True)
    )
    names = {name: f"ostinato_{name}" if on_sqlite else f"ostinato.{name}" for name in ("live", "executions", "skips")}
    try:
        yield lambda sql: connection.execute(sql.format(**names)).fetchone()[0]
    finally:
        connection.close()

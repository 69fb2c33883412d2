"""S and G: durations of fire, claim and settle with very many other rows.

The rows are copies of one that the store wrote, made with plain SQL.
"""

import sqlite3
import statistics
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg

from benchmarks.catalogue import SQLITE, Subject, stage
from benchmarks.measures.rounds import Figures
from benchmarks.servers import Servers
from ostinato.chance import RandomChance
from ostinato.core import lifecycle
from ostinato.core.model import Claimed, Definition, Finished
from ostinato.core.outcome import Completed
from ostinato.core.schedule import Every, Once
from ostinato.store import migrate
from ostinato.store.database import open_database
from ostinato.store.store import Store
from ostinato.store.workers import NewWorker

AT_ONCE = 100
REPEATS = 11
IN_TURN = 31
HOUR = timedelta(hours=1)
KEPT_LIGHT = 200  # turns


class Tables:
    """A store of Ostinato, and a second connection that fills its tables."""

    def __init__(self, subject: Subject, servers: Servers, folder: Path, name: str = "bench") -> None:
        set_up = stage(subject, servers, folder, name)
        self.on_sqlite = subject.store == SQLITE
        self.chance = RandomChance()
        database = open_database(set_up.url)
        migrate.upgrade(database)
        self.store = Store(database, self.chance)
        self._sql: Any = (
            sqlite3.connect(set_up.url.removeprefix("sqlite:///"), isolation_level=None, timeout=60)
            if self.on_sqlite
            else psycopg.connect(set_up.url, autocommit=True)
        )
        self.worker = self.chance.id(self.now)
        joining = NewWorker(self.worker, "bench", "host", 1, "1", ("work",), (), AT_ONCE)
        self.store.workers.join(joining, self.now, HOUR)

    @property
    def now(self) -> datetime:
        return datetime.now(UTC)

    def close(self) -> None:
        self.store.close()
        self._sql.close()

    # -- rows

    def add(self, *, recurring: bool = False, task: str = "work") -> UUID:
        """Create one job through the store."""
        schedule = Every(HOUR) if recurring else Once(self.now)
        change = lifecycle.create(self.chance.id(self.now), Definition(task, schedule), self.now, self.chance)
        return self.store.jobs.add([change])[0]

    def copy(self, table: str, count: int, source: UUID, column: str = "id", **columns: str) -> None:
        """Copy a row `count` times; `columns` are SQL expressions with the number `i` of the copy."""
        name = self._name(table)
        described = self._sql.execute(f"SELECT * FROM {name} LIMIT 0").description
        names = [each[0] for each in described if each[0] != "rowid"]
        values = ", ".join(columns.get(each, f"t.{each}") for each in names)
        numbers = f"WITH RECURSIVE g (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM g WHERE i < {count})"
        self._sql.execute(
            f"INSERT INTO {name} ({', '.join(names)}) {numbers} "
            f"SELECT {values} FROM g, {name} AS t WHERE t.{column} = {self._literal(source)}"
        )

    def number_to_id(self, first: int) -> str:
        """Return SQL for the id of copy `i`; ids have the order of i."""
        if self.on_sqlite:
            return f"unhex_id(i + {first})"
        return f"lpad(to_hex(i + {first}), 32, '0')::uuid"

    def make_due(self, first: int) -> None:
        """Make 100 jobs, from copy `first` on, due now."""
        ids = ", ".join(self._literal(UUID(int=number)) for number in range(first, first + AT_ONCE))
        due = int(self.now.timestamp() * 1e6) - 1000
        anchor = due - int(HOUR / timedelta(microseconds=1))
        self._sql.execute(f"UPDATE {self._name('jobs')} SET next_due_at = {due}, anchor = {anchor} WHERE id IN ({ids})")

    def settled_in(self) -> None:
        """Update the database's statistics, as it does itself after a while."""
        if not self.on_sqlite:
            self._sql.execute("VACUUM ANALYZE")

    def define_ids(self) -> None:
        if self.on_sqlite:
            self._sql.create_function("unhex_id", 1, lambda i: i.to_bytes(16, "big"), deterministic=True)

    def _name(self, table: str) -> str:
        return f"ostinato_{table}" if self.on_sqlite else f"ostinato.{table}"

    def _literal(self, value: UUID) -> str:
        return f"X'{value.hex}'" if self.on_sqlite else f"'{value}'::uuid"

    # -- timed calls

    def clock(self) -> datetime:
        return self.now

    def fire(self) -> None:
        assert len(self.store.queue.fire_due(self.clock, timedelta(0), AT_ONCE)) == AT_ONCE

    def claim(
        self, worker: UUID | None = None, tasks: Sequence[str] = ("work",), expect: int = AT_ONCE
    ) -> Sequence[Claimed]:
        claim = self.store.queue.claim(worker or self.worker, tasks, (), self.clock, AT_ONCE)
        assert len(claim.claimed) == expect, f"{len(claim.claimed)} claimed"
        return claim.claimed

    def settle(self, claimed: Sequence[Claimed]) -> None:
        settled = self.store.queue.settle([Finished(each.live, Completed(None), self.now) for each in claimed])
        assert not settled.refused
        assert not settled.left


def milliseconds(call: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    answer = call()
    return (time.perf_counter() - began) * 1000, answer


class Scale:
    """Measure S: fire and claim with many other rows."""

    def __init__(self, servers: Servers, folder: Path, many: int, few: int) -> None:
        self._servers, self._folder, self._many, self._few = servers, folder, many, few

    def measure(self, subject: Subject) -> Figures:
        few, many = (self._future(subject, count) for count in (self._few, self._many))
        return {
            "many": self._many,
            "fire_few": few[0],
            "fire_many": many[0],
            "claim_few": few[1],
            "claim_many": many[1],
            "claim_due": self._claim(subject, self._many, priority="1 + i % 5"),
            "claim_backoff": self._claim(subject, self._many // 10, run_at=_later(subject)),
            **self._claim_unknown(subject),
        }

    def _future(self, subject: Subject, count: int) -> tuple[float, float]:
        """Measure fire and claim, with jobs far in the future and 100 due ones."""
        tables = self._open(subject)
        job = tables.add(recurring=True)
        tables.copy("jobs", count, job, id=tables.number_to_id(0))
        tables.settled_in()
        fires, claims = [], []
        for repeat in range(REPEATS):
            tables.make_due(repeat * AT_ONCE + 1)
            fires.append(milliseconds(tables.fire)[0])
            took, claimed = milliseconds(tables.claim)
            claims.append(took)
            tables.settle(claimed)
        tables.close()
        return statistics.median(fires), statistics.median(claims)

    def _claim(self, subject: Subject, count: int, **columns: str) -> float:
        """Measure a claim of 100 with `count` other rows in the queue."""
        tables = self._open(subject)
        self._queue(tables, count, "work", **columns)
        claims = []
        for _ in range(REPEATS):
            if "run_at" in columns:  # the other rows wait; these may start
                self._enqueue(tables)
            took, claimed = milliseconds(tables.claim)
            claims.append(took)
            tables.settle(claimed)
        tables.close()
        return statistics.median(claims)

    def _claim_unknown(self, subject: Subject) -> Figures:
        """Measure a claim behind rows of an unknown task, of which each claim sets aside a limited number."""
        tables = self._open(subject)
        self._queue(tables, self._many // 10, "strange")
        claims = []
        for _ in range(REPEATS):
            self._enqueue(tables)
            took, claim = milliseconds(
                lambda: tables.store.queue.claim(tables.worker, ("work",), (), tables.clock, AT_ONCE)
            )
            claims.append(took)
            if claim.claimed:
                tables.settle(claim.claimed)
        tables.close()
        return {"claim_unknown": statistics.median(claims), "claim_unknown_worst": max(claims)}

    def _enqueue(self, tables: Tables) -> None:
        now = tables.now
        new = [lifecycle.create(tables.chance.id(now), Definition("work", Once(now)), now, tables.chance)
               for _ in range(AT_ONCE)]  # fmt: skip
        tables.store.jobs.add(new)

    def _queue(self, tables: Tables, count: int, task: str, **columns: str) -> None:
        job = tables.add(task=task)
        ids, jobs = tables.number_to_id(10**9), tables.number_to_id(0)
        tables.copy("jobs", count, job, id=jobs)
        tables.copy("live", count, job, column="job_id", id=ids, job_id=jobs, **columns)
        tables.settled_in()

    def _open(self, subject: Subject) -> Tables:
        tables = Tables(subject, self._servers, self._folder)
        tables.define_ids()
        return tables


def _later(subject: Subject) -> str:
    return f"{int(time.time() * 1e6) + 3_600_000_000} + i"


class Growth:
    """Measure G: fire, claim and settle of 100 with much history, alternating with the same on empty tables.

    It alternates because it takes minutes, and the speed of the machine may change meanwhile.
    """

    def __init__(self, servers: Servers, folder: Path, history: int, churn: int) -> None:
        self._servers, self._folder, self._history, self._churn = servers, folder, history, churn

    def measure(self, subject: Subject) -> Figures:
        little, tables = self._open(subject, "little"), self._open(subject, "bench")
        self._turns(REPEATS, tables)
        source = tables.store.history.page(1)[0]
        tables.copy(
            "executions", self._history, source.id, id=tables.number_to_id(10**9),
            job_id=tables.number_to_id(10**9), number="i",
        )  # fmt: skip
        tables.settled_in()
        empty, full = self._turns(IN_TURN, little, tables)
        self._turns(self._churn, tables)
        still_empty, churned = self._turns(IN_TURN, little, tables)
        little.close()
        tables.close()
        found = {"empty": empty, "full": full, "still_empty": still_empty, "churned": churned}
        figures = {f"{verb}_{when}": ms for when, turns in found.items() for verb, ms in turns.items()}
        return {"history": self._history} | figures

    def _open(self, subject: Subject, name: str) -> Tables:
        tables = Tables(subject, self._servers, self._folder, name)
        tables.define_ids()
        job = tables.add(recurring=True)
        tables.copy("jobs", 1000, job, id=tables.number_to_id(0))
        tables.settled_in()
        return tables

    def _turns(self, repeats: int, *each: Tables) -> list[dict[str, float]]:
        """Run turns on each stage alternately; return the medians of their durations."""
        took = [{"fire": list[float](), "claim": list[float](), "settle": list[float]()} for _ in each]
        for repeat in range(repeats):
            for tables, times in zip(each, took, strict=True):
                self._turn(tables, times, repeat)
        return [{verb: statistics.median(ms) for verb, ms in times.items()} for times in took]

    def _turn(self, tables: Tables, times: dict[str, list[float]], number: int) -> None:
        if number % KEPT_LIGHT == 0:  # a worker does this every few seconds
            tables.store.database.upkeep()
        tables.make_due(number * AT_ONCE % 900 + 1)
        times["fire"].append(milliseconds(tables.fire)[0])
        ms, claimed = milliseconds(tables.claim)
        times["claim"].append(ms)
        times["settle"].append(milliseconds(lambda: tables.settle(claimed))[0])

"""The raw prototype: the limit of the database alone.

It claims and finishes batches of 500 with plain SQL, with one history row per run and one asyncio task per job. It has
no rules, fences, leases, retries, timeouts, counters or logs.
"""

import asyncio
import os
import sqlite3
import time
from collections.abc import Sequence

import psycopg

from benchmarks.marks import mark
from benchmarks.subjects.verbs import Subject, main

BATCH = 500
URL = os.environ["DATABASE_URL"]
TABLES = """
CREATE TABLE jobs (id {id} PRIMARY KEY, number bigint NOT NULL, state int NOT NULL DEFAULT 0, worker bigint);
CREATE INDEX jobs_waiting ON jobs (id) WHERE state = 0;
CREATE TABLE history (id {id} PRIMARY KEY, job_id bigint, started_at double precision, finished_at double precision)
"""
CLAIM = """UPDATE jobs SET state = 1, worker = 1 WHERE id IN (
    SELECT id FROM jobs WHERE state = 0 ORDER BY id LIMIT 500 {lock}) RETURNING id, number"""

Done = tuple[int, float, float]


class OnSqlite(Subject):
    def __init__(self) -> None:
        self.connection = sqlite3.connect(URL.removeprefix("sqlite:///"), isolation_level=None)
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute("PRAGMA synchronous = FULL")

    async def setup(self) -> None:
        self.connection.executescript(TABLES.format(id="integer"))

    async def many(self, numbers: Sequence[int]) -> None:
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.executemany("INSERT INTO jobs (number) VALUES (?)", [(n,) for n in numbers])
        self.connection.execute("COMMIT")

    async def one(self, number: int) -> None:
        self.connection.execute("INSERT INTO jobs (number) VALUES (?)", (number,))

    def turn(self, done: list[Done]) -> list[tuple[int, int]]:
        """Finish ended jobs and claim new ones, in one transaction."""
        execute, many = self.connection.execute, self.connection.executemany
        execute("BEGIN IMMEDIATE")
        many("INSERT INTO history (job_id, started_at, finished_at) VALUES (?, ?, ?)", done)
        many("UPDATE jobs SET state = 2, worker = NULL WHERE id = ?", [(row[0],) for row in done])
        claimed = execute(CLAIM.format(lock="")).fetchall()
        execute("COMMIT")
        return claimed

    def work(self) -> None:
        asyncio.run(self._work())

    async def _work(self) -> None:
        done: list[Done] = []
        while True:
            claimed = self.turn(done)
            done = []
            await asyncio.gather(*(_run(*job, done) for job in claimed))
            if not claimed and not done:
                await asyncio.sleep(0.001)


class OnPostgres(OnSqlite):
    def __init__(self) -> None:
        self.pg = psycopg.connect(URL, autocommit=True, prepare_threshold=0)
        self.cursor = self.pg.cursor(binary=True)

    async def setup(self) -> None:
        for table in TABLES.format(id="bigint GENERATED ALWAYS AS IDENTITY").split(";"):
            self.pg.execute(table)

    async def many(self, numbers: Sequence[int]) -> None:
        self.pg.execute("INSERT INTO jobs (number) SELECT unnest(%b::bigint[])", [list(numbers)])

    async def one(self, number: int) -> None:
        self.pg.execute("INSERT INTO jobs (number) VALUES (%s)", [number])

    def turn(self, done: list[Done]) -> list[tuple[int, int]]:
        if done:
            self.cursor.execute(
                """WITH u AS (SELECT * FROM unnest(%b::bigint[], %b::float8[], %b::float8[]) AS u (id, a, b)),
                h AS (INSERT INTO history (job_id, started_at, finished_at) SELECT id, a, b FROM u)
                UPDATE jobs SET state = 2, worker = NULL FROM u WHERE jobs.id = u.id""",
                [list(column) for column in zip(*done, strict=True)],
            )
        return self.cursor.execute(CLAIM.format(lock="FOR UPDATE SKIP LOCKED")).fetchall()


async def _run(job: int, number: int, done: list[Done]) -> None:
    began = time.time()
    mark(number)
    done.append((job, began, time.time()))


if __name__ == "__main__":
    main(OnSqlite if URL.startswith("sqlite") else OnPostgres)

"""A large move: 10,000 jobs with 100,000 executions, checked and taken back."""

import json
import sqlite3
from uuid import UUID

import pytest

from tests.cli.places import the_json
from tests.features.transfer.old_systems import INTERVAL, a_crawl, a_crawl_run, sqlite_of
from tests.features.transfer.test_seeds_import import rows_of, tables_of_ours

JOBS, RUNS = 10_000, 10


def add(there, table, rows):
    names = list(rows[0])
    places = ", ".join("?" for _ in names)
    with sqlite3.connect(there.url.removeprefix("sqlite:///")) as connection:
        cells = (tuple(map(there._cell, row.values())) for row in rows)
        connection.executemany(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({places})", cells)
    connection.close()


@pytest.mark.soak
def test_ten_thousand_jobs_with_a_hundred_thousand_runs_move_in_and_out(
    ostinato, database_url, tmp_path, monkeypatch
):  # fmt: skip
    monkeypatch.setenv("OSTINATO_DATABASE_URL", database_url)
    there, jobs = sqlite_of(tmp_path, INTERVAL), [a_crawl(number) for number in range(1, JOBS + 1)]
    add(there, "jobs", jobs)
    for job in jobs:  # ids of their own
        job["number"] = job["id"].int % 2**16
    runs = [
        a_crawl_run(job, number, id=UUID(int=job["number"] * 100 + number))
        for job in jobs
        for number in range(1, RUNS + 1)
    ]
    add(there, "job_executions", runs)
    before = rows_of(database_url, tables_of_ours())
    answer = json.loads(ostinato("import", "interval", there.url, "--history", "--yes", "--json").out)
    assert sum(job["made"] for job in answer["jobs"]) == JOBS
    after = rows_of(database_url, tables_of_ours())
    assert (after["jobs"] - before["jobs"], after["executions"] - before["executions"]) == (JOBS, JOBS * RUNS)
    assert the_json(ostinato("db", "check", "--json"))["problems"] == []
    undone = the_json(ostinato("import", "interval", "--undo", "--yes", "--json"))
    assert (len(undone["deleted"]), rows_of(database_url, tables_of_ours())) == (JOBS, before)

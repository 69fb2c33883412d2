"""Plans of PostgreSQL that stay good with wrong statistics.

`live` is often empty. If it is vacuumed then, the server takes it for empty until the next time. A batch of 500 then
scanned all of it for each of its rows, and a settle took 700 instead of 20 ms.
"""

import re

import psycopg
import pytest

from ostinato.core.model import Change
from tests.build import a_job, a_live

ROWS = 3_000
BUSY = {"jobs", "live", "executions", "skips", "logs", "log_sizes"}
SCAN = re.compile(
    r"[ >-]*(?P<kind>Index Scan|Index Only Scan|Seq Scan)( Backward)?( using (?P<index>\w+))? on (?P<table>\w+)"
)
LEADING = """SELECT i.indexrelid::regclass::text, a.attname FROM pg_index AS i
    JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]"""


@pytest.fixture(params=[("live",), ("live", "jobs")], ids=" and ".join)
def deserted(postgres_world, request):
    """Tables that were large, and empty when they were vacuumed."""
    jobs = [a_job() for _ in range(ROWS)]
    postgres_world.store.jobs.add([Change(job, add=(a_live(job),)) for job in jobs])
    with psycopg.connect(postgres_world.url, autocommit=True) as connection:
        connection.execute("SET search_path TO ostinato")
        for table in request.param:
            connection.execute(f"DELETE FROM {table}")
        for table in BUSY:
            connection.execute(f"VACUUM (TRUNCATE false) {table}")
        size = connection.execute("SELECT reltuples, relpages > 0 FROM pg_class WHERE oid = 'live'::regclass")
        assert size.fetchone() == (0, True)
    return postgres_world


def test_no_batch_walks_through_a_table_that_is_taken_for_empty(deserted):
    database = deserted.store.database
    writing = {name: each.sql for name, each in database.statements.items() if writes(each.sql)}
    assert {"claim", "move_completed", "lock_expecting", "fire_plainly", "save_progress"} <= set(writing)
    with database.write() as tx:
        ask = tx._cursor.execute
        ask("SET LOCAL search_path TO ostinato")
        leading = dict(ask(LEADING).fetchall())
        plans = {
            name: [row[0] for row in ask("EXPLAIN (GENERIC_PLAN) " + sql).fetchall()] for name, sql in writing.items()
        }
    walking = {name: lines for name, lines in plans.items() if walks(lines, leading)}
    assert not walking, "\n\n".join("\n".join([name, *lines]) for name, lines in walking.items())


def writes(sql):
    return re.search(r"\b(UPDATE|INSERT|DELETE|FOR SHARE|FOR KEY SHARE)\b", sql) is not None


def walks(lines, leading):
    """Return True if a busy table is read other than by the beginning of an index."""
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        scan = SCAN.match(line)
        if scan is None or scan["table"] not in BUSY:
            continue
        if scan["kind"] == "Seq Scan" or not re.search(rf"Index Cond: .*\b{leading[scan['index']]} ", following):
            return True
    return False

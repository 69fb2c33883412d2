"""Old queries go on working: the SELECTs of the seeds, on read-only views of both databases."""

import re
import sqlite3
from contextlib import closing
from datetime import UTC, datetime

import psycopg
import pytest

from tests.cli.places import the_json
from tests.features.transfer.old_systems import (
    HERMES,
    HOUR,
    INTERVAL,
    MINUTE,
    NOW,
    a_crawl,
    a_crawl_run,
    a_definition,
    plain,
    sqlite_of,
)


@pytest.fixture
def cli(ostinato, database_url, monkeypatch):
    monkeypatch.setenv("OSTINATO_DATABASE_URL", database_url)
    return ostinato


@pytest.fixture
def ask(cli, database_url):
    """A query as its author would send it, after the views were created."""
    if database_url.startswith("postgres"):
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute("DROP SCHEMA IF EXISTS crawler CASCADE")
        the_json(cli("db", "views", "--schema", "crawler", "--json"))
    else:
        the_json(cli("db", "views", "--json"))

    def asked(query):
        if database_url.startswith("postgres"):
            with psycopg.connect(database_url, options="-c search_path=crawler") as connection:
                cursor = connection.execute(query)
                return [dict(zip([each.name for each in cursor.description], row, strict=True)) for row in cursor]
        with closing(sqlite3.connect(re.sub("^sqlite:///", "", database_url))) as connection:
            connection.row_factory = sqlite3.Row
            query = query.replace("NOW()", "CURRENT_TIMESTAMP")  # SQLite has no NOW
            return [dict(row) for row in connection.execute(query)]

    return asked


@pytest.fixture
def moved(cli, tmp_path):
    """The interval scheduler, moved in with its history."""
    there = sqlite_of(tmp_path, INTERVAL)
    jobs = [
        a_crawl(1, next_run_at=NOW - MINUTE),
        a_crawl(2, is_paused=True, status="paused", paused_at=NOW - HOUR),
        a_crawl(3, interval_minutes=6, interval_type="hours", schedule_time="0 */6 * * *"),
        a_crawl(4, status="failed", completed_at=NOW - HOUR),
    ]
    there.add("jobs", *jobs)
    there.add("job_executions", *[a_crawl_run(jobs[0], n) for n in range(90, 100)])
    there.add("job_executions", a_crawl_run(jobs[3], 5, status="failed", error_message="gone", stack_trace="panic"))
    the_json(cli("import", "interval", there.url, "--history", "--yes", "--json"))
    return jobs


def at(value):
    """An instant of a view, on either database."""
    return value if isinstance(value, datetime) else datetime.fromisoformat(value).replace(tzinfo=UTC)


def test_the_views_have_the_columns_of_the_seeds(ask, moved):
    for table in ("jobs", "job_executions"):
        (text,) = re.findall(rf"CREATE TABLE {table} \((.*?)\n\);", INTERVAL, re.S)
        wanted = re.findall(r"(?:^|,)\s*([a-z_]+) (?:UUID|TEXT|VARCHAR|TIMESTAMPTZ|INTEGER|BIGINT|BOOLEAN|JSONB)", text)
        (row,) = ask(f"SELECT * FROM {table} LIMIT 1")
        assert sorted(row) == sorted(wanted)
    ask("SELECT source_name, period_start, retry_count, next_retry_at FROM retries")


def test_the_query_of_the_poller_finds_what_is_due(ask, moved):
    """Seed 003, job polling; its `!is_paused` is no SQL."""
    (due,) = ask(
        "SELECT * FROM jobs WHERE next_run_at <= NOW() AND NOT is_paused AND status IN ('pending', 'scheduled') "
        "AND lock_token IS NULL"
    )
    assert str(due["id"]) == str(moved[0]["id"])
    assert at(due["next_run_at"]) == NOW - MINUTE


def test_a_job_is_shown_as_its_row_was(ask, moved):
    rows = {str(row["id"]): row for row in ask("SELECT * FROM jobs")}
    first, paused, six, failed = (rows[str(job["id"])] for job in moved)
    assert (first["url"], first["source_id"], first["source_name"]) == (
        "https://example.com",
        "source-1",
        "example.com",
    )
    assert (first["interval_minutes"], first["interval_type"], first["status"]) == (30, "minutes", "scheduled")
    assert (first["max_retries"], first["retry_backoff_seconds"], first["current_retry_count"]) == (3, 60, 0)
    assert (at(first["created_at"]), bool(first["is_paused"])) == (moved[0]["created_at"], False)
    assert (bool(paused["is_paused"]), at(paused["paused_at"]), paused["status"]) == (True, NOW - HOUR, "paused")
    assert (six["interval_minutes"], six["interval_type"], six["schedule_time"]) == (6, "hours", "0 */6 * * *")
    assert (failed["status"], failed["error_message"]) == ("failed", "gone")


def test_history_is_shown_as_its_rows_were(ask, moved):
    rows = ask(f"SELECT * FROM job_executions WHERE job_id = '{moved[0]['id']}' ORDER BY started_at DESC")
    was = [a_crawl_run(moved[0], n) for n in range(99, 89, -1)]
    assert [(row["id"], row["execution_number"]) for row in rows] == [
        (str(each["id"]), each["execution_number"]) for each in was
    ]
    assert [(at(row["started_at"]), at(row["completed_at"]), row["duration_ms"]) for row in rows] == [
        (each["started_at"], each["completed_at"], each["duration_ms"]) for each in was
    ]
    assert {
        (row["items_crawled"], row["items_indexed"], row["cpu_time_ms"], row["memory_peak_mb"]) for row in rows
    } == {(25, 23, 900, 256)}
    (failed,) = ask("SELECT * FROM job_executions WHERE status = 'failed'")
    assert (failed["error_message"], failed["stack_trace"]) == ("gone", "panic")


@pytest.mark.parametrize(
    ("every", "minutes", "kind"),
    [("45m", 45, "minutes"), ("90m", 90, "minutes"), ("1h30m", 90, "minutes"), ("2d", 2, "days"), ("1w", 7, "days"),
     ("1d12h", 36, "hours"), ("24h", 24, "hours")],
)  # fmt: skip
def test_intervals_in_our_words_are_shown_in_theirs(cli, ask, every, minutes, kind):
    the_json(cli("job", "add", "--url", "https://example.org", "--every", every, "--json"))
    (row,) = ask("SELECT interval_minutes, interval_type FROM jobs")
    assert (row["interval_minutes"], row["interval_type"]) == (minutes, kind)


def test_the_retry_table_of_hermes(cli, ask, tmp_path):
    there = sqlite_of(tmp_path, HERMES)
    for number, (name, begun) in enumerate({"retrying": NOW - HOUR, "stale": NOW - 50 * HOUR}.items()):
        there.add("sources", {"id": number, "name": name, "status": "active", "definition": a_definition(name)})
        row = {"source_name": name, "period_start": plain(begun), "retry_count": 2}
        there.add("retries", {**row, "next_retry_at": plain(NOW + 4 * MINUTE)})
    the_json(cli("import", "hermes", there.url, "--yes", "--json"))
    rows = {row["source_name"]: row for row in ask("SELECT * FROM retries WHERE retry_count > 0")}
    assert list(rows) == ["retrying"]
    assert at(rows["retrying"]["next_retry_at"]) == NOW + 4 * MINUTE
    assert at(rows["retrying"]["period_start"]) == NOW - HOUR
    assert len(ask("SELECT * FROM retries")) == 2


def test_nothing_can_be_written_to_a_view(ask, moved):
    with pytest.raises((sqlite3.OperationalError, psycopg.Error), match="view"):
        ask("UPDATE jobs SET lock_token = NULL")


def test_views_are_replaced_and_removed_and_others_are_left_alone(cli, ask, database_url, tmp_path):
    flags = ("--schema", "crawler") if database_url.startswith("postgres") else ()
    assert cli("db", "views", *flags).out.startswith("Created: ")
    assert "job_executions" in cli("db", "views", *flags, "--drop").out
    assert cli("db", "views", *flags, "--drop").out == "Removed: nothing.\n"
    taken = "CREATE TABLE crawler.jobs (mine TEXT)" if flags else "CREATE TABLE jobs (mine TEXT)"
    if flags:
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute(taken)
    else:
        with closing(sqlite3.connect(database_url.removeprefix("sqlite:///"))) as connection:
            connection.execute(taken)
    refused = cli("db", "views", *flags)
    assert (refused.code, "which is not ours" in refused.err) == (4, True)
    assert cli("db", "views", *flags, "--prefix", "old_").code == 0
    assert cli("db", "check").code == 0


def test_what_is_refused(cli, database_url):
    on_sqlite = database_url.startswith("sqlite")
    assert cli("db", "views", "--prefix", "a-b").code == 2
    answer = cli("db", "views", "--schema", "other" if on_sqlite else "ostinato")
    assert (answer.code, ("SQLite has no schemas" if on_sqlite else "our own tables") in answer.err) == (2, True)

"""The four systems of the seeds move in: ids, pauses, next times, counters, retry state and history come along."""

import json
from datetime import datetime

import pytest

from tests.cli.places import the_json
from tests.features.transfer.old_systems import (
    DAY,
    HERMES,
    HOUR,
    INTERVAL,
    MINUTE,
    NOW,
    PIPELIT,
    a_crawl,
    a_crawl_run,
    a_definition,
    a_document,
    a_schedule,
    mongo,
    plain,
    postgres_of,
    sqlite_of,
)


@pytest.fixture
def cli(ostinato, database_url, monkeypatch):
    """A command on a database of either kind; the former systems are beside it."""
    monkeypatch.setenv("OSTINATO_DATABASE_URL", database_url)
    return ostinato


def old(script, cli_url, request, tmp_path):
    """The database of the other system, of the same kind as ours."""
    if cli_url.startswith("postgres"):
        return postgres_of(request.getfixturevalue("postgres_database"), "old_system", script)
    return sqlite_of(tmp_path, script)


@pytest.fixture
def crawler(database_url, request, tmp_path):
    """The interval scheduler: a job in each state."""
    there = old(INTERVAL, database_url, request, tmp_path)
    jobs = [
        a_crawl(1),
        a_crawl(2, is_paused=True, status="paused", paused_at=NOW - DAY, next_run_at=None),
        a_crawl(3, current_retry_count=1, next_run_at=NOW + 2 * MINUTE),
        a_crawl(4, status="failed", completed_at=NOW - HOUR, next_run_at=None, error_message="gone"),
        a_crawl(5, status="cancelled", cancelled_at=NOW - HOUR, next_run_at=None),
        a_crawl(6, interval_minutes=None, interval_type=None, schedule_time="0 6 * * *", next_run_at=None),
        a_crawl(7, schedule_time="0 */6 * * *", interval_minutes=6, interval_type="hours"),
        a_crawl(8, interval_minutes=None, interval_type=None, status="completed", completed_at=NOW - HOUR,
                schedule_enabled=False, next_run_at=None),
        a_crawl(9, next_run_at=NOW - 2 * HOUR, interval_minutes=1, interval_type="days"),
    ]  # fmt: skip
    there.add("jobs", *jobs)
    runs = [a_crawl_run(jobs[0], n, status="failed" if n == 98 else "completed") for n in range(90, 100)]
    runs += [
        a_crawl_run(jobs[2], 1, status="completed"),
        a_crawl_run(jobs[2], 2, status="failed", error_message="timeout"),
    ]
    runs += [a_crawl_run(jobs[3], 5, status="failed", stack_trace="panic")]
    runs += [a_crawl_run(jobs[1], 1, status="running", completed_at=None, duration_ms=None)]
    there.add("job_executions", *runs)
    return there


def shown(cli, number, make=a_crawl):
    return the_json(cli("job", "show", str(make(number)["id"]), "--json"))


def history(cli, number):
    answer = the_json(cli("job", "history", str(a_crawl(number)["id"]), "--json"))
    return answer["executions"]


def clean(cli):
    assert the_json(cli("db", "check", "--json"))["problems"] == []


def test_the_plan_shows_both_rules_and_writes_nothing(cli, crawler):
    answer = cli("import", "interval", crawler.url, "--history")
    assert (answer.code, answer.err) == (0, "Nothing was written. Use --yes to write it.\n")
    assert "Next runs there" in answer.out
    assert "every 30 minutes" in answer.out
    assert "1 executions were running there: they are left out." in answer.out
    plan = json.loads(cli("import", "interval", crawler.url, "--json").out)
    assert {job["made"] for job in plan["jobs"]} == {False}
    assert all(job["differences"] == [] and not job["paused"] for job in plan["jobs"])
    times = {job["ref"][-1]: (job["next_there"], job["next"]) for job in plan["jobs"]}
    assert [datetime.fromisoformat(at) for at in times["1"][1]] == [
        NOW + 10 * MINUTE + k * 30 * MINUTE for k in range(10)
    ]
    assert the_json(cli("job", "list", "--json"))["total"] == 0


def test_the_interval_scheduler_moves_with_ids_states_and_next_times(cli, crawler):
    answer = the_json(cli("import", "interval", crawler.url, "--history", "--yes", "--verify", "--json"))
    assert [job["made"] for job in answer["jobs"]] == [True] * 9
    assert all(job["differences"] == [] for job in answer["jobs"])
    states = [shown(cli, number)["status"] for number in range(1, 10)]
    assert states == [
        "scheduled",
        "paused",
        "scheduled",
        "failed",
        "cancelled",
        "scheduled",
        "scheduled",
        "completed",
        "scheduled",
    ]
    first = shown(cli, 1)
    assert (first["interval_minutes"], first["interval_type"], first["max_retries"]) == (30, "minutes", 3)
    assert datetime.fromisoformat(first["next_run_at"]) == NOW + 10 * MINUTE
    assert datetime.fromisoformat(first["created_at"]) == NOW - 90 * DAY
    assert (first["url"], first["source_id"], first["metadata"]["category"]) == (
        "https://example.com",
        "source-1",
        "news",
    )
    assert shown(cli, 6)["schedule"] == {"cron": "0 6 * * *", "timezone": "UTC"}
    assert shown(cli, 7)["schedule_time"] == "0 */6 * * *"
    clean(cli)


def test_its_counters_history_and_retries_come_along(cli, crawler):
    the_json(cli("import", "interval", crawler.url, "--history", "--yes", "--json"))
    runs = history(cli, 1)
    assert [run["execution_number"] for run in runs] == list(range(99, 89, -1))
    assert [run["status"] for run in runs][:3] == ["completed", "failed", "completed"]
    assert (runs[0]["duration_ms"], runs[0]["items_crawled"], runs[0]["items_indexed"]) == (120_000, 25, 23)
    assert (runs[0]["cpu_time_ms"], runs[0]["memory_peak_mb"]) == (900, 256)
    stats = the_json(cli("job", "stats", str(a_crawl(1)["id"]), "--json"))
    assert (stats["total_executions"], stats["successful_runs"], stats["failed_runs"]) == (10, 9, 1)
    waiting = shown(cli, 3)
    assert (waiting["current_retry_count"], datetime.fromisoformat(waiting["next_run_at"])) == (1, NOW + 2 * MINUTE)
    failed = shown(cli, 4)
    assert failed["status"] == "failed"
    again = the_json(cli("job", "retry", failed["id"], "--json"))
    assert again["current_retry_count"] == 0
    clean(cli)


def test_without_history_the_counters_come_and_the_runs_do_not(cli, crawler):
    the_json(cli("import", "interval", crawler.url, "--yes", "--json"))
    assert history(cli, 1) == []
    stats = the_json(cli("job", "stats", str(a_crawl(1)["id"]), "--json"))
    assert (stats["total_executions"], stats["successful_runs"]) == (10, 9)
    clean(cli)


def test_twice_changes_nothing(cli, crawler):
    the_json(cli("import", "interval", crawler.url, "--history", "--yes", "--json"))
    before = [shown(cli, number) for number in range(1, 9)]
    again = the_json(cli("import", "interval", crawler.url, "--history", "--yes", "--json"))
    assert [job["made"] for job in again["jobs"]] == [False] * 9
    assert [shown(cli, number) for number in range(1, 9)] == before
    assert "there is nothing to do" in cli("import", "interval", crawler.url, "--yes").out


def test_a_row_that_cannot_be_read_is_told_and_the_others_go_on(cli, crawler):
    crawler.add("jobs", a_crawl(20, interval_type="fortnights"), a_crawl(21, url="not a url"))
    answer = cli("import", "interval", crawler.url, "--yes", "--json")
    told = json.loads(answer.out)
    assert answer.code == 1
    assert [(each["ref"][-2:], each["why"][:24]) for each in told["refused"]] == [("14", "interval_type is one of ")]
    assert ["cannot be used" in job["refused"] for job in told["jobs"] if job["refused"]] == [True]
    assert sum(job["made"] for job in told["jobs"]) == 9


def test_pipelit_moves_with_its_counters_and_its_backoff(cli, database_url, request, tmp_path):
    there = old(PIPELIT, database_url, request, tmp_path)
    there.add(
        "scheduled_jobs",
        a_schedule(1, total_repeats=9),
        a_schedule(2, status="paused", next_run_at=None),
        a_schedule(3, status="done", total_repeats=5, next_run_at=None),
        a_schedule(4, status="dead", current_retry=4, error_count=4, last_error="boom", next_run_at=None),
        a_schedule(5, current_retry=2, error_count=2, last_error="boom"),
    )
    answer = the_json(cli("import", "pipelit", there.url, "--yes", "--history", "--verify", "--json"))
    assert all(job["differences"] == [] and job["made"] for job in answer["jobs"])
    assert answer["notes"] == ["Workflows are not converted: create 1 here before the jobs run."]
    assert [shown(cli, n, a_schedule)["status"] for n in range(1, 6)] == [
        "scheduled", "paused", "completed", "failed", "scheduled",
    ]  # fmt: skip
    first = shown(cli, 1, a_schedule)
    assert first["args"] == {
        "workflow": 1, "trigger": "trigger_schedule_abc123", "payload": {"report_type": "daily"},
    }  # fmt: skip
    assert (first["total_repeats"], first["max_retries"], first["owner"], first["timeout"]) == (9, 3, "7", "10m")
    assert datetime.fromisoformat(first["next_run_at"]) == NOW + 2 * MINUTE
    assert first["backoff"]["base"] == "5m"
    waiting = shown(cli, 5, a_schedule)
    assert (waiting["current_retry_count"], datetime.fromisoformat(waiting["next_run_at"])) == (2, NOW + 2 * MINUTE)
    clean(cli)


def test_hermes_moves_with_its_retry_state(cli, database_url, request, tmp_path):
    there = old(HERMES, database_url, request, tmp_path)
    names = ["fresh", "stored", "retrying", "spent", "stale"]
    for number, name in enumerate(names):
        there.add("sources", {"id": number, "name": name, "status": "active", "definition": a_definition(name)})
    there.add("sources", {"id": 9, "name": "off", "status": "inactive", "definition": a_definition("off")})
    there.add("gdp", {"source_name": "stored", "amount": 1.5, "created_at": plain(NOW - 20 * HOUR)})
    for name, begun, count, retry_at in (
        ("retrying", NOW - HOUR, 2, plain(NOW + 4 * MINUTE)),
        ("spent", NOW - HOUR, 5, None),
        ("stale", NOW - 2 * DAY, 5, None),
    ):
        row = {"source_name": name, "period_start": plain(begun), "retry_count": count, "next_retry_at": retry_at}
        there.add("retries", row)
    answer = the_json(cli("import", "hermes", there.url, "--yes", "--json"))
    assert all(job["made"] for job in answer["jobs"])
    sources = {each["name"]: each for each in the_json(cli("source", "list", "--json"))["sources"]}
    assert sorted(sources) == sorted([*names, "off"])
    assert datetime.fromisoformat(sources["stored"]["next_run_at"]) == NOW + 4 * HOUR
    assert (sources["retrying"]["retry_count"], datetime.fromisoformat(sources["retrying"]["next_retry_at"])) == (
        2, NOW + 4 * MINUTE,
    )  # fmt: skip
    assert (sources["spent"]["retry_count"], datetime.fromisoformat(sources["spent"]["next_run_at"])) == (
        5,
        NOW + 23 * HOUR,
    )
    assert (sources["stale"]["retry_count"], sources["stale"]["job_status"]) == (0, "queued")
    assert (sources["fresh"]["job_status"], sources["off"]["job_status"]) == ("queued", "paused")
    clean(cli)
    again = the_json(cli("import", "hermes", there.url, "--yes", "--json"))
    assert [job["made"] for job in again["jobs"]] == [False] * 6


def test_hermes_moves_from_files_alone(cli, tmp_path):
    (tmp_path / "gdp.yaml").write_text(json.dumps(a_definition("us_gdp")))
    (job,) = the_json(cli("import", "hermes", str(tmp_path / "gdp.yaml"), "--yes", "--json"))["jobs"]
    assert (job["ref"], job["made"]) == ("source:us_gdp", True)
    plan = the_json(cli("source", "apply", str(tmp_path / "gdp.yaml"), "--dry-run", "--json"))
    assert [each["change"] for each in plan["plan"]] == ["unchanged"]


def test_chronos_moves_from_lines_of_mongoexport(cli, tmp_path):
    documents = [
        a_document(1),
        a_document(2, interval=None, cronExpression="30 9 * * 1-5", timezone="Europe/Paris", nextRunAt=None),
        a_document(3, status="PAUSED", pausedAt=mongo(NOW - DAY)),
        a_document(4, retryCount=2, nextRetryAt=mongo(NOW + MINUTE), nextRunAt=mongo(NOW + MINUTE),
                   lastError="refused", lastErrorStack="at x"),
        a_document(5, jobType="ONE_TIME", interval=None, scheduleTime=mongo(NOW + DAY),
                   nextRunAt=mongo(NOW + DAY), lastRunAt=None, result=None),
        a_document(6, jobType="ONE_TIME", interval=None, scheduleTime=mongo(NOW - DAY), status="COMPLETED"),
        a_document(7, interval=None, cronExpression="*/10 * * * * *"),
        a_document(8, dependsOnJobId={"$oid": "65a1b2c3d4e5f60718290001"}, status="WAITING", shard=7),
    ]  # fmt: skip
    file = tmp_path / "jobs.jsonl"
    file.write_text("\n".join(map(json.dumps, documents)))
    answer = cli("import", "chronos", str(file), "--map", "sendEmail=send_email", "--yes", "--history", "--json")
    told = json.loads(answer.out)
    assert answer.code == 1, "one document is refused"
    assert [(each["ref"], "names seconds" in each["why"]) for each in told["refused"]] == [("7", True)]
    assert sum(job["made"] for job in told["jobs"]) == 7
    assert any("OSTINATO_POLL_INTERVAL" in each for each in told["notes"])
    first = the_json(cli("job", "show", "chronos-1", "--json"))
    assert (first["task"], first["args"], first["priority"]) == ("send_email", {"to": "a@example.org"}, 3)
    assert (first["schedule"], first["tags"]) == ({"every": "1h"}, ["mail"])
    assert datetime.fromisoformat(first["next_run_at"]) == NOW + 20 * MINUTE
    assert first["metadata"]["chronos"]["_id"] == "65a1b2c3d4e5f60718290001"
    (run,) = the_json(cli("job", "history", "chronos-1", "--json"))["executions"]
    assert (run["duration_ms"], run["result"]) == (1500, {"sent": True})
    assert the_json(cli("job", "show", "chronos-2", "--json"))["schedule"]["timezone"] == "Europe/Paris"
    states = [the_json(cli("job", "show", f"chronos-{n}", "--json"))["status"] for n in (3, 4, 5, 6, 8)]
    assert states == ["paused", "scheduled", "scheduled", "completed", "paused"]
    assert the_json(cli("job", "show", "chronos-4", "--json"))["current_retry_count"] == 2
    (dependent,) = [job for job in told["jobs"] if job["ref"] == "8"]
    assert (dependent["paused"], "runs after" in dependent["changes"][0]) == (True, True)
    assert "shard" in dependent["notes"][0]
    clean(cli)


def rows_of(cli_url, world_tables):
    """Count the rows of every table of ours."""
    from ostinato.store.database import open_database

    database = open_database(cli_url)
    try:
        counts = {}
        for table in world_tables:
            with database.read() as tx:
                ((count,),) = tx.rows(database.dialect.statement(f"SELECT count(*) FROM {{{table}}}"))
            counts[table] = count
        return counts
    finally:
        database.close()


def tables_of_ours():
    from ostinato.feature import our_features
    from ostinato.store.dialect import TABLES

    return sorted(
        (set(TABLES) | our_features().tables) - {"events", "imports", "job_status", "queues"}
    )  # a queue stays: processes remember it


def test_undo_leaves_every_table_as_it_was_and_spares_what_was_edited(cli, crawler, database_url):
    the_json(cli("job", "add", "--url", "https://example.org", "--every", "1h", "--json"))
    before = rows_of(database_url, tables_of_ours())
    answer = the_json(cli("import", "interval", crawler.url, "--history", "--queue", "crawls", "--yes", "--json"))
    assert rows_of(database_url, tables_of_ours()) != before
    refused = cli("import", "interval", "--undo")
    assert (refused.code, "9 jobs of" in refused.err) == (2, True)
    undone = the_json(cli("import", "interval", "--undo", answer["import"], "--yes", "--json"))
    assert (len(undone["deleted"]), undone["spared"]) == (9, [])
    assert rows_of(database_url, tables_of_ours()) == before
    assert cli("import", "interval", "--undo", "--yes").code == 3
    the_json(cli("import", "interval", crawler.url, "--yes", "--json"))
    edited = str(a_crawl(1)["id"])
    the_json(cli("job", "edit", edited, "--every", "2h", "--json"))
    undone = the_json(cli("import", "interval", "--undo", "--yes", "--json"))
    assert (len(undone["deleted"]), undone["spared"]) == (8, [edited])
    clean(cli)


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["interval"], 2, "Give what to read: ostinato import interval postgresql://HOST/crawler --history"),
        (["interval", "mysql://host/db"], 2, "mysql:// is not read"),
        (["interval", "sqlite:///no/such.db"], 3, "There is no file"),
        (["interval", "env:NO_SUCH_URL"], 2, "The variable NO_SUCH_URL is not set"),
        (["chronos", "/no/such.jsonl"], 3, "There is no file /no/such.jsonl."),
        (["pipelit", "x.db", "--map", "nonsense"], 2, "--map is written OLD=NEW"),
        (["pipelit", "--undo"], 3, "There is no import to undo."),
    ],
    ids=str,
)
def test_what_is_refused(cli, arguments, code, sentence):
    answer = cli("import", *arguments)
    assert (answer.code, sentence in answer.err) == (code, True), answer.err


def test_a_database_without_their_tables_is_refused(cli, tmp_path):
    there = sqlite_of(tmp_path, "CREATE TABLE other (id INTEGER)")
    answer = cli("import", "interval", there.url)
    assert (answer.code, answer.err) == (2, "The tables cannot be read: no such table: jobs.\n")


def test_paused_brings_every_job_paused(cli, crawler):
    the_json(cli("import", "interval", crawler.url, "--paused", "--yes", "--json"))
    assert [shown(cli, number)["status"] for number in (1, 2, 3, 6)] == ["paused"] * 4
    clean(cli)

"""Other schedulers move in: their due times over a year are as the real peer named them, or the difference is told.

The peers are not installed: their answers were recorded by the scripts in peers/.
"""

import base64
import json
import zlib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import redis
from rq.job import Job

from ostinato.core.errors import Invalid
from ostinato.core.schedule import from_json
from ostinato.features.transfer.rules.apscheduler import apscheduler_job
from ostinato.features.transfer.rules.celery import beat_entry
from ostinato.features.transfer.rules.found import by, other_nights, shifted
from ostinato.features.transfer.rules.systemd import calendar
from tests.cli.places import the_json
from tests.features.transfer.old_systems import sqlite_of

SECOND = timedelta(seconds=1)
PEERS = Path(__file__).parent / "peers"


def recorded(name):
    return json.loads((PEERS / f"{name}.json").read_text())


def row_of(job):
    state = base64.b64decode(job["job_state"])
    return {"id": job["id"], "next_run_time": job["next_run_time"], "job_state": state}


APSCHEDULER = recorded("apscheduler")
JOBS = {job["id"]: job for job in APSCHEDULER["jobs"]}
BEGIN = datetime.fromtimestamp(APSCHEDULER["begin"], UTC)
REFUSED = {
    "both-days": "Day and day_of_week must both match",
    "seconds": "second is */10",
    "year": "year is 2028",
    "week": "week is 20",
    "either": "OrTrigger has no counterpart",
}


@pytest.mark.parametrize("name", sorted(JOBS.keys() - REFUSED.keys()))
def test_the_rule_of_apscheduler_is_its_own_over_a_year_with_two_clock_changes(name):
    found, theirs = apscheduler_job(row_of(JOBS[name]), BEGIN), JOBS[name]["times"]
    said = found.times(BEGIN - SECOND, len(theirs))
    assert [round(at.timestamp()) for at in said] == [round(at) for at in theirs]
    schedule = from_json(found.job["schedule"])
    ours = by(schedule)(BEGIN - SECOND, len(theirs)) if "cron" in found.job["schedule"] else said
    if [round(at.timestamp()) for at in ours] != [round(at) for at in theirs]:
        assert any("when the clocks of Europe/Paris change" in each for each in found.changes)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_apscheduler_has_and_we_do_not_is_refused_with_the_reason(name):
    with pytest.raises(Invalid) as refused:
        apscheduler_job(row_of(JOBS[name]), BEGIN)
    assert REFUSED[name] in str(refused.value)


def test_its_policies_and_arguments_come_along():
    shop, many, kept = (
        apscheduler_job(row_of(JOBS[name]), BEGIN).job
        for name in ("interval-paris", "weekday-numbers", "daily-paris")
    )  # fmt: skip
    assert (shop["task"], shop["args"], shop["key"]) == ("__main__:work", {"shop": "one"}, "interval-paris")
    assert (shop["catch_up"], shop["late_after"], shop["max_retries"]) == ("none", "1s", 0)
    assert (many["overlap"], many["max_overlap"]) == ("allow", 3)
    assert kept["catch_up"] == "all"
    positional = apscheduler_job(row_of(JOBS["positional"]), BEGIN)
    assert (positional.job["args"], "positional" in positional.changes[0]) == ({"args": ["a", 2]}, True)


def test_a_store_of_apscheduler_moves_in(ostinato, database_url, tmp_path, monkeypatch):
    monkeypatch.setenv("OSTINATO_DATABASE_URL", database_url)
    there = sqlite_of(
        tmp_path,
        "CREATE TABLE apscheduler_jobs (id VARCHAR(191) PRIMARY KEY, next_run_time FLOAT, job_state BLOB NOT NULL)",
    )
    there.add("apscheduler_jobs", *map(row_of, JOBS.values()))
    there.add("apscheduler_jobs", {"id": "hostile", "next_run_time": 1.0, "job_state": b"cos\nsystem\n(S'true'\ntR."})
    answer = ostinato("import", "apscheduler", there.url, "--map", "__main__:work=work", "--yes", "--json")
    told = json.loads(answer.out)
    assert answer.code == 1, "some are refused"
    assert sorted(each["ref"] for each in told["refused"]) == sorted([*REFUSED, "hostile"])
    paused = {
        job["ref"] for job in told["jobs"] if the_json(ostinato("job", "show", job["job"], "--json"))["is_paused"]
    }
    assert paused == {"paused", "gap", "gap-many", "positional"}
    daily = the_json(ostinato("job", "show", "daily", "--json"))
    assert daily["next_run_at"] == "2027-01-01T09:30:00Z"
    assert the_json(ostinato("db", "check", "--json"))["problems"] == []
    again = json.loads(ostinato("import", "apscheduler", there.url, "--yes", "--json").out)
    assert {job["made"] for job in again["jobs"]} == {False}


# -- Celery


CELERY = recorded("celery")
ENTRIES = CELERY["entries"]


def an_entry(name):
    """An entry with a schedule object that has the recorded attributes."""
    told = ENTRIES[name]
    kind = type(told["kind"], (), {field: value for field, value in told.items() if field.startswith("_orig_")})
    return {"task": "shop.tasks.work", "schedule": kind(), "kwargs": {"shop": 1}, "options": {"queue": "mail"}}


@pytest.mark.parametrize("name", sorted(ENTRIES.keys() - {"both-days"}))
def test_the_rule_of_celery_is_its_own_over_a_year_with_two_clock_changes(name):
    found, theirs = beat_entry(name, an_entry(name), ENTRIES[name]["timezone"], BEGIN), ENTRIES[name]["times"]
    assert [at.timestamp() for at in found.times(BEGIN, len(theirs))] == theirs
    ours = by(from_json(found.job["schedule"]))(BEGIN, len(theirs))
    if [at.timestamp() for at in ours] != theirs:
        assert any("when the clocks of Europe/Paris change" in each for each in found.changes)
    assert (found.job["task"], found.job["args"], found.job["queue"]) == ("shop.tasks.work", {"shop": 1}, "mail")


def test_what_celery_has_and_we_do_not_is_refused_with_the_reason():
    with pytest.raises(Invalid, match="must both match"):
        beat_entry("both-days", an_entry("both-days"), "UTC", BEGIN)
    sun = type(CELERY["others"]["sun"]["kind"], (), {})()
    with pytest.raises(Invalid, match="The schedule solar has no counterpart"):
        beat_entry("sun", {"task": "x", "schedule": sun}, "UTC", BEGIN)


AN_APP = """
class Conf:
    timezone = "Europe/Paris"
    beat_schedule = {
        "every": {"task": "shop.work", "schedule": 30.0},
        "positional": {"task": "shop.work", "schedule": 60, "args": (1, 2)},
        "nothing": {"schedule": 60},
    }

class App:
    conf = Conf()

app = App()
"""


def test_the_schedule_of_an_app_moves_in(ostinato, sqlite_url, tmp_path, monkeypatch):
    monkeypatch.setenv("OSTINATO_DATABASE_URL", sqlite_url)
    module = f"an_app_of_celery_{tmp_path.name}"
    (tmp_path / f"{module}.py").write_text(AN_APP)
    monkeypatch.syspath_prepend(str(tmp_path))
    answer = ostinato("import", "celery-beat", f"{module}:app", "--yes", "--json")
    told = json.loads(answer.out)
    assert [(job["ref"], job["made"], job["paused"]) for job in told["jobs"]] == [
        ("every", True, False), ("positional", True, True),
    ]  # fmt: skip
    assert [each["why"] for each in told["refused"]] == ["It names no task."]
    assert the_json(ostinato("job", "show", "every", "--json"))["schedule"] == {"every": "30s"}
    assert ostinato("import", "celery-beat", "nonsense").code == 2
    assert ostinato("import", "celery-beat", f"{module}:other").code == 3


def test_the_tables_of_django_celery_beat_move_in(ostinato, database_url, tmp_path, monkeypatch):
    monkeypatch.setenv("OSTINATO_DATABASE_URL", database_url)
    there = sqlite_of(tmp_path, "\n".join(CELERY["tables"]))
    answer = ostinato("import", "django-celery-beat", there.url, "--yes", "--json")
    told = json.loads(answer.out)
    assert [(each["ref"], each["why"][:23]) for each in told["refused"]] == [("at sunrise", "A solar schedule has no")]
    shown = {job["ref"]: the_json(ostinato("job", "show", job["job"], "--json")) for job in told["jobs"]}
    assert {ref: job["status"] for ref, job in shown.items()} == {
        "every six hours": "scheduled", "in the morning": "scheduled", "never ran": "scheduled",
        "switched off": "paused", "once": "scheduled", "once, done": "completed", "positional": "paused",
    }  # fmt: skip
    six, morning = shown["every six hours"], shown["in the morning"]
    assert (six["schedule"], six["args"], six["next_run_at"]) == ({"every": "6h"}, {"shop": 1}, "2027-01-01T02:00:00Z")
    assert (morning["schedule"]["timezone"], morning["next_run_at"]) == ("Europe/Paris", "2027-01-01T08:30:00Z")
    assert (morning["queue"], morning["description"]) == ("mail", "a letter")
    assert the_json(ostinato("db", "check", "--json"))["problems"] == []


# -- rq-scheduler


def a_job_of_rq(client, at, *args, meta=None, **kwargs):
    """What rq-scheduler writes: a job of RQ, and its time in a sorted set."""
    job = Job.create("shop.work", args, kwargs, connection=client, meta=meta or {}, timeout=90, origin="mail")
    job.save()
    client.zadd("rq:scheduler:scheduled_jobs", {job.id: at.timestamp()})
    return job.id


def test_the_jobs_of_rq_scheduler_move_in(ostinato, sqlite_url, redis_url, monkeypatch):
    monkeypatch.setenv("OSTINATO_DATABASE_URL", sqlite_url)
    at = datetime.now(UTC).replace(microsecond=0) + timedelta(minutes=7)
    with redis.Redis.from_url(redis_url) as client:
        every = a_job_of_rq(client, at, shop=1, meta={"interval": 3600, "repeat": 5})
        cron = a_job_of_rq(client, at, meta={"cron_string": "0 9 * * *", "use_local_timezone": False})
        local = a_job_of_rq(client, at, meta={"cron_string": "0 9 * * *", "use_local_timezone": True})
        one, positional = a_job_of_rq(client, at), a_job_of_rq(client, at, "a", meta={"interval": 60})
        hostile = a_job_of_rq(client, at)
        client.hset(f"rq:job:{hostile}", "data", zlib.compress(b"cos\nsystem\n(S'true'\ntR."))
        bomb = a_job_of_rq(client, at)
        client.hset(f"rq:job:{bomb}", "data", zlib.compress(b"N" * 50_000_000))
    answer = ostinato("import", "rq-scheduler", redis_url, "--timezone", "Europe/Paris", "--yes", "--json")
    told = json.loads(answer.out)
    assert {each["ref"]: each["why"][:20] for each in told["refused"]} == {
        hostile: "It names os.system, ", bomb: "Its call has more th",
    }  # fmt: skip
    shown = {job["ref"]: the_json(ostinato("job", "show", job["job"], "--json")) for job in told["jobs"]}
    assert {job["ref"] for job in told["jobs"] if job["paused"]} == {local, positional}
    assert (shown[every]["schedule"], shown[every]["args"]) == ({"every": "1h"}, {"shop": 1})
    assert (shown[every]["total_repeats"], shown[every]["queue"], shown[every]["timeout"]) == (5, "mail", "1m30s")
    assert datetime.fromisoformat(shown[every]["next_run_at"]) == at
    assert shown[cron]["schedule"] == {"cron": "0 9 * * *", "timezone": "UTC"}
    assert shown[local]["schedule"]["timezone"] == "Europe/Paris"
    assert datetime.fromisoformat(shown[one]["schedule"]["at"]) == at
    assert ostinato("import", "rq-scheduler", "redis://127.0.0.1:1").code == 5


# -- systemd


SYSTEMD = recorded("systemd")

A_TIMER = """
[Unit]
Description=Dump of the shop
[Timer]
OnCalendar=
OnCalendar=Mon..Fri 08:30
OnCalendar=*-*-01 02:30 Europe/Paris
RandomizedDelaySec=1h 30min
Unit=dump.service
"""
A_SERVICE = """
[Service]
Type=oneshot
User=postgres
Environment=PGHOST=db "WHO=a b"
WorkingDirectory=/srv
ExecStart=-/usr/bin/pg_dump --file \\
    /backup/shop.sql shop
"""


@pytest.mark.parametrize("written", sorted(SYSTEMD["times"]))
def test_the_rule_of_systemd_is_its_own_over_a_year_with_two_clock_changes(written):
    theirs, cron = SYSTEMD["times"][written], calendar(written, "UTC")
    rule = shifted(cron, both_passes=False, in_gap=False)
    assert [at.timestamp() for at in rule(BEGIN - SECOND, len(theirs))] == theirs
    ours = by(cron)(BEGIN - SECOND, len(theirs))
    if [at.timestamp() for at in ours] != theirs:
        assert "when the clocks of Europe/Paris change" in other_nights(rule, cron, BEGIN)


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("2027-01-01 00:00", "names a year"),
        ("*:*:30", "names a year or seconds"),
        ("*-*~01", "end of the month"),
        ("Mon *-*-01 00:00", "both match"),
        ("Fri..Mon 12:00", "ends before it begins"),
        ("tomorrow", "not read here|not a calendar"),
        ("Mon Tue Wed", "not read here|not a calendar"),
    ],
)
def test_calendars_that_cron_cannot_say_are_refused(written, says):
    with pytest.raises(Invalid, match=says):
        calendar(written, "UTC")


def test_a_timer_of_systemd_moves_in(ostinato, sqlite_url, tmp_path, monkeypatch):
    monkeypatch.setenv("OSTINATO_DATABASE_URL", sqlite_url)
    monkeypatch.setenv("OSTINATO_ALLOW_COMMANDS", "on")
    units = tmp_path / "units"
    units.mkdir()
    (units / "shop.timer").write_text(A_TIMER)
    (units / "dump.service").write_text(A_SERVICE)
    (units / "boot.timer").write_text("[Timer]\nOnBootSec=5min\n")
    (units / "alone.timer").write_text("[Timer]\nOnUnitActiveSec=1d\n")
    answer = ostinato("import", "systemd", str(units), "--timezone", "UTC", "--yes", "--json")
    told = json.loads(answer.out)
    assert {each["ref"]: each["why"][:24] for each in told["refused"]} == {
        "boot.timer": "It has OnBootSec: no sch", "alone.timer": "Its service alone.servic",
    }  # fmt: skip
    first, second = (the_json(ostinato("job", "show", job["job"], "--json")) for job in told["jobs"])
    assert (first["key"], first["schedule"]["cron"]) == ("systemd-shop-1", "30 8 * * mon,tue,wed,thu,fri")
    assert (second["schedule"]["timezone"], first["jitter"], first["catch_up"]) == ("Europe/Paris", "1h30m", "none")
    assert first["args"] == {
        "argv": ["/usr/bin/pg_dump", "--file", "/backup/shop.sql", "shop"], "cwd": "/srv",
        "env": {"PGHOST": "db", "WHO": "a b"},
    }  # fmt: skip
    assert all("it runs as postgres there" in job["changes"][-1] and job["paused"] for job in told["jobs"])
    assert ostinato("import", "systemd", str(tmp_path)).code == 3

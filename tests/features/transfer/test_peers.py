"""Other schedulers move in: their due times over a year are as the real peer named them, or the difference is told.

The peers are not installed: their answers were recorded by the scripts in peers/.
"""

import base64
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ostinato.core.errors import Invalid
from ostinato.core.schedule import from_json
from ostinato.features.transfer.rules.apscheduler import apscheduler_job
from ostinato.features.transfer.rules.found import by
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

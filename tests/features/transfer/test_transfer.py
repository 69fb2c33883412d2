"""`ostinato export` and `ostinato import`: jobs out and in again, directly and by a server."""

import io
import json
from uuid import uuid4

import pytest

from tests.cli.places import the_json

PLACES = ("direct-sqlite", "server-postgres")  # each way and each database once: they are only clients


@pytest.fixture
def tag():
    return f"tag-{uuid4().hex[:8]}"


def make(at, tag, *flags):
    return the_json(at("job", "add", "fine", "--tag", tag, *flags, "--json"))


def exported(at, tag, *flags):
    answer = at("export", "--tag", tag, *flags)
    assert answer.code == 0
    return [json.loads(line) for line in answer.out.splitlines()]


def test_a_job_goes_out_and_comes_in_as_it_was(at, tag, tmp_path):
    made = make(
        at, tag, "--every", "6h", "--key", tag, "--arg", "n=2", "--retries", "7", "--set", "window="
        '{"days": "mon-fri", "from": "09:00", "to": "17:00", "timezone": "Europe/Paris"}', "--set", "catch_up_limit=9",
        "--set", 'backoff={"steps": ["1s", "2m"], "cap": "2m"}', "--set", "fixed_delay=true",
    )  # fmt: skip
    file = tmp_path / "jobs.jsonl"
    out = at("export", str(file), "--tag", tag)
    assert (out.code, out.out, out.err) == (0, "", f"1 jobs were written to {file}.\n")
    assert file.stat().st_mode & 0o777 == 0o600, "arguments may be nobody else's business"
    at("job", "delete", made["id"], "--yes")
    assert the_json(at("import", str(file), "--json")) == {"made": 1, "updated": 0, "there": 0, "refused": 0}
    again = the_json(at("job", "show", tag, "--json"))
    moving = {"id", "created_at", "updated_at", "start_at", "version"}
    assert again["id"] != made["id"]
    assert {name: again[name] for name in again.keys() - moving} == {name: made[name] for name in made.keys() - moving}
    assert again["next_run_at"] == made["next_run_at"], "an interval goes on where it was"


def test_a_job_that_is_paused_comes_in_paused(at, tag, tmp_path):
    made = make(at, tag, "--cron", "0 9 * * *", "--key", tag)
    at("job", "pause", made["id"])
    (line,) = exported(at, tag)
    assert line["is_paused"] is True
    at("job", "delete", made["id"], "--yes")
    (tmp_path / "f").write_text(json.dumps(line))
    assert at("import", "jobs", str(tmp_path / "f")).out == "Jobs: 1 created.\n"
    assert the_json(at("job", "show", tag, "--json"))["status"] == "paused"


def test_a_job_whose_key_is_there_stays_unless_told_otherwise(at, tag, tmp_path):
    make(at, tag, "--every", "6h", "--key", tag)
    (line,) = exported(at, tag)
    (tmp_path / "f").write_text(json.dumps(line | {"priority": 1}))
    assert the_json(at("import", str(tmp_path / "f"), "--json"))["there"] == 1
    assert the_json(at("job", "show", tag, "--json"))["priority"] == 5
    assert the_json(at("import", str(tmp_path / "f"), "--update", "--json"))["updated"] == 1
    assert the_json(at("job", "show", tag, "--json"))["priority"] == 1


def test_what_has_ended_goes_out_only_when_asked_for(at, tag):
    made = make(at, tag, "--every", "6h")
    at("job", "cancel", made["id"])
    assert exported(at, tag) == []
    assert len(exported(at, tag, "--ended")) == 1
    assert exported(at, tag, "--ended", "--of-app", "another") == []


def test_a_line_that_is_wrong_is_told_and_the_others_come_in(at, tag, tmp_path):
    good = {"task": "fine", "schedule": {"every": "6h"}, "tags": [tag]}
    lines = [
        "{",
        "[1]",
        json.dumps(good),
        "",
        json.dumps(good | {"priority": 11}),
        json.dumps(good | {"frob": 1}),
    ]
    (tmp_path / "f").write_text("\n".join(lines))
    answer = at("import", str(tmp_path / "f"))
    assert (answer.code, answer.out) == (2, "Jobs: 1 created, 4 rejected.\n")
    assert [line.split(":")[0] for line in answer.err.splitlines()] == [
        "Line 1",
        "Line 2",
        "Line 5",
        "Line 6",
    ]
    assert len(exported(at, tag)) == 1


def test_standard_input(at, tag, monkeypatch):
    body = json.dumps({"task": "nobody-knows", "schedule": {"manual": True}, "tags": [tag]})
    monkeypatch.setattr("sys.stdin", io.StringIO(body))
    assert at("import", "-").out == "Jobs: 1 created.\n"


def test_files_that_cannot_be(at, tag, tmp_path):
    (tmp_path / "there").write_text("mine")
    taken = at("export", str(tmp_path / "there"), "--tag", tag)
    assert (taken.code, (tmp_path / "there").read_text()) == (2, "mine")
    assert at("export", str(tmp_path / "no" / "where"), "--tag", tag).code == 2
    assert at("import", str(tmp_path / "none")).code == 3
    (tmp_path / "bytes").write_bytes(b"\xff\xff")
    assert at("import", str(tmp_path / "bytes")).code == 2


def test_more_than_a_page_goes_out(at, tag, monkeypatch):
    monkeypatch.setattr("ostinato.cli.verbs.PAGE_LIMIT", 2)
    keys = [make(at, tag, "--every", "6h", "--key", f"{tag}-{n}")["key"] for n in range(5)]
    assert [line["key"] for line in exported(at, tag)] == keys

"""`ostinato import crontab` and `ostinato job convert`: directly and by a server."""

import io
import json
import time
from uuid import uuid4

import pytest

from tests.cli.places import Keyboard, the_json

PLACES = ("direct-sqlite", "server-postgres")  # each way and each database once: they are only clients
ENVIRONMENT = {"OSTINATO_ALLOW_COMMANDS": "on", "OSTINATO_ALLOW_SHELL": "on"}

A_CRONTAB = """
SHELL=/bin/bash
0 * * * * hourly-{mark}
0 */6 * * * six-{mark}
0 0 * * * daily-{mark} 50\\% %some%input
0 9 * * mon-fri weekdays-{mark}
@daily again-{mark}
CRON_TZ=Europe/Paris
0 0 * * * parisian-{mark}
"""


@pytest.fixture
def crontab(tmp_path):
    """A crontab that no other test has imported."""
    file = tmp_path / f"crontab-{uuid4().hex[:8]}"
    file.write_text(A_CRONTAB.format(mark=uuid4().hex[:8]))
    return str(file)


def imported(at, file, *flags):
    return the_json(at("import", "crontab", file, "--yes", "--json", *flags))


def jobs_of(at, answer):
    return [the_json(at("job", "show", line["job"], "--json")) for line in answer["jobs"]]


def test_plain_periods_become_intervals_and_midnight_stays_midnight(at, crontab):
    answer = imported(at, crontab)
    jobs = jobs_of(at, answer)
    assert [job["schedule"] for job in jobs] == [
        {"every": "1h"},
        {"every": "6h"},
        {"every": "1d"},
        {"cron": "0 9 * * mon-fri", "timezone": "UTC"},
        {"every": "1d"},
        {"cron": "0 0 * * *", "timezone": "Europe/Paris"},
    ]
    assert [job["interval_type"] for job in jobs][:3] == ["hours", "hours", "days"]
    assert jobs[0]["next_run_at"][14:] == "00:00Z"
    assert int(jobs[1]["next_run_at"][11:13]) % 6 == 0
    assert jobs[2]["next_run_at"][11:] == "00:00:00Z"
    for ref in (jobs[2]["id"], jobs[4]["id"]):
        assert {at_[11:] for at_ in the_json(at("job", "next", ref, "--json"))["times"]} == {"00:00:00Z"}


def test_a_line_becomes_a_command(at, crontab):
    daily = jobs_of(at, imported(at, crontab))[2]
    assert daily["task"] == "command"
    assert daily["args"]["script"].startswith("daily-")
    assert daily["args"]["script"].endswith("50%")
    assert daily["args"]["stdin"] == "some\ninput\n"
    assert daily["args"]["env"] == {"SHELL": "/bin/bash"}
    assert daily["max_retries"] == 0, "cron does not repeat what failed"
    assert daily["metadata"]["crontab"]["expression"] == "0 0 * * *"


def test_keep_cron_keeps_them(at, crontab):
    jobs = jobs_of(at, imported(at, crontab, "--keep-cron"))
    assert {("every" in job["schedule"]) for job in jobs} == {False}
    assert jobs[0]["schedule"] == {"cron": "0 * * * *", "timezone": "UTC"}


def test_another_task_queue_and_zone(at, crontab):
    (job, *_) = jobs_of(at, imported(at, crontab, "--task", "cron_line", "--queue", "cron", "--timezone", "Asia/Tokyo"))
    assert (job["task"], job["queue"], job["metadata"]["crontab"]["timezone"]) == (
        "cron_line",
        "cron",
        "Asia/Tokyo",
    )


def test_everything_is_shown_and_nothing_written_without_yes(at, crontab):
    answer = at("import", "crontab", crontab)
    assert answer.code == 0
    assert "every 6 hours" in answer.out
    assert "stays cron: Europe/Paris puts its clocks forward and back by 1h" in answer.out
    assert answer.err == "Nothing was written. Use --yes to write it.\n"
    shown = json.loads(at("import", "crontab", crontab, "--json").out)
    assert shown["import"] is None
    assert {line["job"] for line in shown["jobs"]} == {None}
    assert len(shown["jobs"][0]["next"]) == len(shown["jobs"][0]["next_there"]) == 10


def test_whoever_sits_at_the_terminal_is_asked(at, crontab, monkeypatch):
    def answering(words, *arguments):
        monkeypatch.setattr("sys.stdin", Keyboard(words))
        return at(*arguments)

    assert "jobs were created" not in answering("n\n", "import", "crontab", crontab).out
    made = answering("y\n", "import", "crontab", crontab).out
    assert "6 jobs were created" in made
    assert "A worker runs them: ostinato worker." in made
    assert answering("n\n", "import", "crontab", crontab, "--undo").code == 130
    assert "6 jobs of" in answering("y\n", "import", "crontab", crontab, "--undo").out


def test_a_second_import_makes_nothing_again(at, crontab):
    first, second = imported(at, crontab), imported(at, crontab)
    assert [line["job"] for line in first["jobs"]] == [line["job"] for line in second["jobs"]]
    assert [line["made"] for line in second["jobs"]] == [False] * 6
    assert "there is nothing to do" in at("import", "crontab", crontab, "--yes").out


def test_a_line_that_stands_twice_is_two_jobs(at, tmp_path):
    file = tmp_path / "twice"
    file.write_text(f"0 0 * * * same-{tmp_path.name}-{uuid4()}\n" * 2)
    one, other = imported(at, str(file))["jobs"]
    assert one["job"] != other["job"]


def test_verify_compares_ten_times_before_and_after(at, crontab):
    answer = imported(at, crontab, "--verify")
    assert [line["differences"] for line in answer["jobs"]] == [[]] * 6
    said = at("import", "crontab", crontab, "--verify")
    assert (said.code, "The next 10 times of each job are the same" in said.out) == (0, True)


def test_verify_finds_a_job_that_somebody_moved(at, crontab):
    answer = imported(at, crontab)
    moved = answer["jobs"][1]["job"]
    assert at("job", "edit", moved, "--every", "7h").code == 0
    said = at("import", "crontab", crontab, "--verify", "--json")
    assert said.code == 1
    lines = json.loads(said.out)["jobs"]
    assert [bool(line["differences"]) for line in lines] == [False, True, False, False, False, False]
    assert "of its next 10 times differ" in at("import", "crontab", crontab, "--verify").out


def test_undo_takes_an_import_back_and_no_other(at, crontab, tmp_path):
    other = tmp_path / f"other-{uuid4().hex[:8]}"
    other.write_text(f"@daily kept-{uuid4()}")
    kept = imported(at, str(other))
    answer = imported(at, crontab)
    refused = at("import", "crontab", "--undo", crontab)
    assert (refused.code, "6 jobs of" in refused.err) == (2, True)
    undone = the_json(at("import", "crontab", "--undo", crontab, "--yes", "--json"))
    assert undone["import"] == answer["import"]
    assert sorted(undone["deleted"]) == sorted(line["job"] for line in answer["jobs"])
    for line in answer["jobs"]:
        assert at("job", "show", line["job"]).code == 3
    assert at("job", "show", kept["jobs"][0]["job"]).code == 0
    assert at("import", "crontab", "--undo", crontab, "--yes").code == 3, "nothing of it is left"
    again = at("import", "crontab", "--undo", kept["import"], "--yes")
    assert (again.code, "1 jobs of" in again.out) == (0, True)


def test_undo_alone_takes_the_newest_back(at, crontab):
    answer = imported(at, crontab)
    assert the_json(at("import", "crontab", "--undo", "--yes", "--json"))["import"] == answer["import"]


def test_lines_that_cannot_be_are_told_and_the_rest_goes_on(at, tmp_path):
    file = tmp_path / "odd"
    file.write_text(f"@reboot x\n61 * * * * y\n@daily fine-{uuid4()}\n")
    answer = at("import", "crontab", str(file), "--yes")
    assert answer.code == 1
    assert "Line 1 is skipped: it runs when the machine starts" in answer.out
    assert "Line 2 is skipped: The cron expression" in answer.out
    assert "1 jobs were created" in answer.out


def test_lines_that_are_refused_for_one_reason_share_a_sentence(at, tmp_path):
    file = tmp_path / "long"
    file.write_text("".join(f"@daily echo {letter * 300_000}\n" for letter in "ab"))
    assert "Line 1, Line 2 are refused: args is" in at("import", "crontab", str(file)).out


def test_a_crontab_that_is_imported_as_jobs_is_told_the_command(at, crontab):
    answer = at("import", "jobs", crontab)
    assert (answer.code, "For a crontab: ostinato import crontab FILE." in answer.err) == (2, True)


def test_a_line_that_the_api_refuses_does_not_keep_the_others_from_it(at, tmp_path):
    file = tmp_path / "long"
    file.write_text(f"@daily echo {'x' * 300_000}\n@daily short-{uuid4()}\n")
    answer = at("import", "crontab", str(file), "--yes", "--json")
    assert answer.code == 1
    long, short = json.loads(answer.out)["jobs"]
    assert (long["job"], long["made"], "bytes of JSON" in long["refused"]) == (None, False, True)
    assert short["made"]
    assert "Line 1 is refused: args is" in at("import", "crontab", str(file), "--yes").out


def test_a_machine_in_another_zone_is_told(at, crontab, monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        said = at("import", "crontab", crontab).out
        assert "This machine is in JST (UTC+0900); lines above CRON_TZ are read in UTC: see --timezone." in said
        assert "This machine" not in at("import", "crontab", crontab, "--timezone", "UTC").out
    finally:
        monkeypatch.undo()
        time.tzset()


def test_standard_input_and_system_crontabs(at, monkeypatch):
    text = f"17 * * * * root run-{uuid4()}\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    (line,) = imported(at, "-", "--system")["jobs"]
    job = the_json(at("job", "show", line["job"], "--json"))
    assert job["metadata"]["crontab"]["user"] == "root"
    assert job["args"]["script"].startswith("run-")


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        ([], 2, "Give a crontab"),
        (["/no/such/file"], 3, "There is no file /no/such/file."),
        (["/"], 2, "/ cannot be read: Is a directory."),
        (["/dev/null", "--timezone", "Europe/Pairs"], 2, "did you mean Europe/Paris"),
    ],
    ids=str,
)
def test_what_is_refused(at, arguments, code, sentence):
    answer = at("import", "crontab", *arguments)
    assert (answer.code, answer.out) == (code, "")
    assert sentence in answer.err


def test_bytes_that_are_no_text(at, tmp_path):
    (tmp_path / "bytes").write_bytes(b"\xff\xfe@daily x")
    assert "is not text in UTF-8" in at("import", "crontab", str(tmp_path / "bytes")).err
    (tmp_path / "large").write_text("# " + "x" * 1024 * 1024)
    assert "that is no crontab" in at("import", "crontab", str(tmp_path / "large")).err


# -- convert


def a_job(at, expression, *flags):
    made = at("job", "add", "fine", "--cron", expression, *flags, "--json")
    return the_json(made)["id"]


def test_convert_turns_plain_periods_into_intervals_and_back(at):
    six, paris = a_job(at, "30 */6 * * *"), a_job(at, "0 0 * * *", "--timezone", "Europe/Paris")
    at("job", "pause", paris)
    dry = at("job", "convert", six, paris)
    assert "every 6 hours" in dry.out
    assert dry.err == "Nothing was written. Use --yes to write it.\n"
    first, second = the_json(at("job", "convert", six, paris, "--yes", "--verify", "--json"))
    assert (first["converted"], first["after"], first["differences"]) == (True, {"every": "6h"}, [])
    assert (second["converted"], second["differences"]) == (False, [])
    assert "clocks forward and back" in second["why"]
    job = the_json(at("job", "show", six, "--json"))
    assert (job["interval_minutes"], job["interval_type"]) == (6, "hours")
    assert job["schedule_time"] == "30 */6 * * *"  # kept for a rollback
    assert job["next_run_at"][14:] == "30:00Z"
    assert the_json(at("job", "convert", six, "--json")) == []
    assert "is cron again" in at("job", "convert", "--undo", six).out
    job = the_json(at("job", "show", six, "--json"))
    assert (job["schedule_time"], job["metadata"], job["start_at"]) == ("30 */6 * * *", {}, None)
    assert "nothing to undo" in at("job", "convert", "--undo", six).out


def test_convert_asks_whoever_sits_at_the_terminal(at, monkeypatch):
    job = a_job(at, "0 * * * *")
    for words, told in (("n\n", False), ("y\n", True)):
        monkeypatch.setattr("sys.stdin", Keyboard(words))
        assert ("1 jobs were converted" in at("job", "convert", job).out) == told


def test_convert_of_everything_takes_what_was_made_with_schedule_time(at):
    body = ["--set", "schedule_time=0 0 * * *", "--set", "source_name=x", "--set", "url=https://example.com"]
    made = the_json(at("job", "add", *body, "--json"))
    assert (made["schedule_time"], made["interval_minutes"]) == ("0 0 * * *", None)
    answer = at("job", "convert", "--yes")
    assert (answer.code, "jobs were converted" in answer.out) == (0, True)
    job = the_json(at("job", "show", made["id"], "--json"))
    assert (job["interval_minutes"], job["interval_type"]) == (1, "days")
    assert job["next_run_at"][11:] == "00:00:00Z"
    assert at("job", "convert", "--undo").code == 0


def test_convert_of_a_job_that_is_not_there(at):
    assert at("job", "convert", "no-such-job", "--yes").code == 3


def test_where_commands_are_off_every_line_is_refused_and_it_is_told_before(at, crontab, monkeypatch, place):
    if place.mode == "server":
        pytest.skip("its settings are the server's")
    monkeypatch.setenv("OSTINATO_ALLOW_COMMANDS", "off")
    assert "OSTINATO_ALLOW_COMMANDS=on" in at("import", "crontab", crontab).out
    answer = at("import", "crontab", crontab, "--yes", "--json")
    lines = json.loads(answer.out)["jobs"]
    assert all("OSTINATO_ALLOW_COMMANDS" in line["refused"] for line in lines)

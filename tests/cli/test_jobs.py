"""`ostinato job …`, directly and by a server, on both databases."""

import io
import json
import os
import pwd
from uuid import uuid4

import pytest

from tests.cli.places import Keyboard, the_json
from tests.waiting import eventually


def make(at, *flags, task="fine"):
    return the_json(at("job", "add", task, *flags, "--json"))


def some_key():
    return f"job-{uuid4().hex[:8]}"


def test_add_makes_a_job_as_the_flags_say(at):
    key = some_key()
    job = make(
        at, "--every", "6h", "--arg", "n=3", "--arg", "who=me", "--key", key, "--name", "Six", "--description", "d",
        "--queue", "slow", "--priority", "2", "--tag", "a", "--tag", "b", "--start-at", "2030-01-01T00:00:00Z",
        "--end-at", "2031-01-01T00:00:00Z", "--retries", "1", "--backoff", "5s", "--timeout", "1m", "--overlap",
        "queue_one", "--catch-up", "none", "--set", "owner=ops", "--set", 'metadata={"x": [1]}',
    )  # fmt: skip
    assert (job["task"], job["args"]) == ("fine", {"n": 3, "who": "me"})
    assert (job["schedule"], job["next_run_at"]) == ({"every": "6h"}, "2030-01-01T00:00:00Z")
    assert (job["key"], job["name"], job["description"], job["queue"]) == (key, "Six", "d", "slow")
    assert (job["priority"], job["tags"], job["end_at"]) == (2, ["a", "b"], "2031-01-01T00:00:00Z")
    assert (job["max_retries"], job["backoff"]["base"], job["timeout"]) == (1, "5s", "1m")
    assert (job["overlap"], job["catch_up"], job["owner"], job["metadata"]) == (
        "queue_one",
        "none",
        "ops",
        {"x": [1]},
    )


@pytest.mark.parametrize(
    ("flags", "schedule"),
    [
        (["--cron", "0 9 * * mon-fri", "--timezone", "Europe/Paris"],
         {"cron": "0 9 * * mon-fri", "timezone": "Europe/Paris"}),
        (["--cron", "@daily"], {"cron": "@daily", "timezone": "UTC"}),
        (["--at", "2031-01-01T00:00:00+01:00"], {"at": "2030-12-31T23:00:00Z"}),
        (["--manual"], {"manual": True}),
    ],
    ids=str,
)  # fmt: skip
def test_every_kind_of_schedule(at, flags, schedule):
    assert make(at, *flags)["schedule"] == schedule


def test_now_runs_once_and_so_does_nothing_said(at):
    for flags in (["--now"], []):
        job = make(at, *flags)
        assert "at" in job["schedule"]
        eventually(lambda job=job: the_json(at("job", "show", job["id"], "--json"))["status"] == "completed")


def test_an_answer_for_people(at):
    answer = at("job", "add", "fine", "--every", "30m", "--name", "Half")
    assert answer.code == 0
    assert "every 30 minutes" in answer.out
    assert "scheduled" in answer.out


def test_list_filters_and_sorts(at):
    tag = some_key()
    late, soon, manual = (
        make(at, "--tag", tag, "--key", some_key(), *schedule)
        for schedule in (["--every", "6h"], ["--every", "1h"], ["--manual"])
    )

    def listed(*flags):
        return [job["id"] for job in the_json(at("job", "list", "--tag", tag, "--json", *flags))["jobs"]]

    assert listed() == [manual["id"], soon["id"], late["id"]], "the newest first"
    assert listed("--sort", "next_run_at", "--status", "scheduled") == [soon["id"], late["id"]]
    assert listed("--status", "scheduled", "--status", "pending", "-n", "1") == [manual["id"]]
    assert listed("--offset", "1", "--limit", "1") == [soon["id"]]
    assert listed("--search", late["key"]) == [late["id"]]
    assert listed("--due-before", "2001-01-01T00:00:00Z") == []
    assert listed("--due-after", "2001-01-01T00:00:00Z", "--task", "fine", "--queue", "default")[-1] == late["id"]
    assert the_json(at("job", "list", "--tag", tag, "--json", "-n", "1"))["total"] == 3


def test_a_list_for_people_says_when_there_is_more(at):
    tag = some_key()
    keys = [make(at, "--tag", tag, "--key", some_key(), "--every", "6h")["key"] for _ in range(3)]
    answer = at("job", "list", "--tag", tag, "-n", "2")
    assert keys[2] in answer.out
    assert keys[0] not in answer.out
    assert "2 of 3" in answer.out
    assert at("job", "list", "--tag", "no-such-tag").out == "There are no such jobs.\n"


def test_a_job_is_found_by_id_and_by_key(at):
    job = make(at, "--every", "6h", "--key", some_key())
    for ref in (job["id"], job["key"]):
        assert the_json(at("job", "show", ref, "--json"))["id"] == job["id"]


def test_a_key_may_hold_anything(at):
    job = make(at, "--every", "6h", "--key", f"a/b?c=d#{uuid4()} ü%2F")
    assert the_json(at("job", "show", job["key"], "--json"))["id"] == job["id"]


def test_edit_changes_what_it_says_and_nothing_else(at):
    job = make(at, "--every", "6h", "--name", "Six", "--arg", "n=3")
    edited = the_json(at("job", "edit", job["id"], "--every", "2h", "--retries", "7", "--json"))
    assert (edited["schedule"], edited["max_retries"]) == ({"every": "2h"}, 7)
    assert (edited["name"], edited["args"], edited["version"]) == ("Six", {"n": 3}, 2)


def test_an_argument_is_changed_alone_or_with_all_others(at):
    job = make(at, "--every", "6h", "--args", '{"n": 3, "who": "me"}')
    assert the_json(at("job", "edit", job["id"], "--arg", "n=4", "--json"))["args"] == {"n": 4, "who": "me"}
    edited = the_json(at("job", "edit", job["id"], "--args", '{"n": 1}', "--json"))
    assert edited["args"] == {"n": 1}
    edited = the_json(at("job", "edit", job["id"], "--args", "{}", "--arg", "who=you", "--json"))
    assert edited["args"] == {"who": "you"}


def test_an_edit_of_an_old_version_is_a_conflict(at):
    job = make(at, "--every", "6h")
    assert at("job", "edit", job["id"], "--queue", "a", "--if-version", "1").code == 0
    stale = at("job", "edit", job["id"], "--queue", "b", "--if-version", "1")
    assert (stale.code, stale.out) == (4, "")
    assert "version 2" in stale.err


def test_an_edit_that_says_nothing_is_refused(at):
    job = make(at, "--every", "6h")
    answer = at("job", "edit", job["id"])
    assert (answer.code, answer.err[:18]) == (2, "Say what to change")


def test_pause_resume_cancel(at):
    job = make(at, "--every", "6h", "--key", some_key())
    paused = at("job", "pause", job["key"])
    assert (paused.code, paused.out) == (0, f"{job['key']} ({job['id']}) was paused, and is paused now.\n")
    assert the_json(at("job", "resume", job["id"], "--json"))["status"] == "scheduled"
    assert the_json(at("job", "cancel", job["id"], "--json"))["status"] == "cancelled"


def test_several_at_once_and_one_that_cannot_does_not_keep_the_others_from_it(at):
    first, second = make(at, "--every", "6h"), make(at, "--every", "6h")
    answer = at("job", "pause", first["id"], "no-such-job", second["id"], "--json")
    assert answer.code == 3
    assert "no-such-job: There is no job with the key 'no-such-job'" in answer.err
    assert [job["status"] for job in json.loads(answer.out)] == ["paused", "paused"]


def test_run_takes_other_arguments_and_does_not_move_the_schedule(at):
    job = make(at, "--every", "6h")
    ran = the_json(at("job", "run", job["id"], "--arg", "n=41", "--json"))
    assert ran["next_run_at"] is not None
    history = eventually(lambda: the_json(at("job", "history", job["id"], "--json"))["executions"])
    done = eventually(lambda: the_json(at("execution", "show", history[0]["id"], "--json"))["result"])
    assert done == 42
    assert "was asked to run" in at("job", "run", job["id"]).out


def test_a_failed_job_is_retried_and_restarted(at):
    job = make(at, "--now", "--set", "when_exhausted=fail", task="fails")

    def failed():
        return the_json(at("job", "show", job["id"], "--json"))["status"] == "failed"

    eventually(failed)
    shown = at("job", "show", job["id"])
    assert "out of" in shown.out
    assert "\x1b" not in shown.out, "an error of others cannot speak to the terminal"
    assert the_json(at("job", "retry", job["id"], "--json"))["current_retry_count"] == 0
    eventually(failed)
    assert at("job", "restart", job["id"]).code == 0
    stats = eventually(lambda: (s := the_json(at("job", "stats", job["id"], "--json")))["failed_runs"] == 3 and s)
    assert stats["success_rate"] == 0
    assert "Failed" in at("job", "stats", job["id"]).out


def test_delete_asks_first(at, monkeypatch):
    job = make(at, "--every", "6h")
    monkeypatch.setattr("sys.stdin", Keyboard("n\n"))
    assert at("job", "delete", job["id"]).code == 130
    monkeypatch.setattr("sys.stdin", io.StringIO())
    nobody = at("job", "delete", job["id"])
    assert (nobody.code, nobody.out, "confirm with --yes" in nobody.err) == (2, "", True)
    assert at("job", "show", job["id"]).code == 0
    monkeypatch.setattr("sys.stdin", Keyboard("y\n"))
    gone = at("job", "delete", job["id"])
    assert (gone.code, job["id"] in gone.out) == (0, True)
    assert at("job", "show", job["id"]).code == 3
    assert at("job", "delete", make(at)["id"], "--yes").code == 0


def test_history_and_next_and_why(at):
    job = make(at, "--cron", "0 0 * * *", "--timezone", "Europe/Paris")
    assert at("job", "history", job["id"]).out == "No executions match.\n"
    following = the_json(at("job", "next", job["id"], "-n", "3", "--json"))
    assert len(following["times"]) == 3
    shown = at("job", "next", job["id"], "-n", "2").out.splitlines()
    assert shown[0] == "At 00:00 every day, Europe/Paris."
    assert len(shown) == 3
    why = the_json(at("job", "why", job["id"], "--json"))
    told = at("job", "why", job["id"], "--at", "2020-01-01T00:00:00Z")
    assert why["sentences"]
    assert told.code == 0
    assert told.out


def test_who_did_it_is_recorded(at, place, monkeypatch):
    """Directly it is the user of the operating system, at a server whoever it recognises."""
    me = pwd.getpwuid(os.getuid()).pw_name
    monkeypatch.setenv("USER", "somebody-else")
    monkeypatch.setenv("LOGNAME", "somebody-else")
    job = make(at, "--every", "6h")
    at("job", "pause", job["id"])
    from ostinato import Ostinato

    app = Ostinato(database_url=place.environment["OSTINATO_DATABASE_URL"], schema=place.environment["OSTINATO_SCHEMA"])
    by = {event.by for event in app.jobs.events(job["id"])}
    app.close()
    assert by == {me if place.mode == "direct" else "anonymous"}


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["job", "show", "no-such-job"], 3, "There is no job with the key 'no-such-job'."),
        (["job", "show", "01a1e564-5286-7e49-889e-389aa297e15a"], 3, "There is no job"),
        (["job", "add", "fien"], 2, "Did you mean 'fine'?"),
        (["job", "add"], 2, "A job needs a task to run"),
        (["job", "add", "fine", "--every", "0s"], 2, "The shortest interval is 1 second"),
        (["job", "add", "fine", "--every", "1h", "--now"], 2, "--every and --now exclude each other"),
        (["job", "add", "fine", "--cron", "61 * * * *"], 2, "its minute field cannot be '61'"),
        (["job", "add", "fine", "--args", "[1]"], 2, "--args is a JSON object"),
        (["job", "add", "fine", "--args", "{"], 2, "--args is not JSON: "),
        (["job", "add", "fine", "--arg", "n"], 2, "--arg is written NAME=VALUE"),
        (["job", "add", "fine", "--set", "prioritty=3"], 2, "did you mean priority"),
        (["job", "add", "fine", "--set", "=3"], 2, "--set is written NAME=VALUE"),
        (["job", "list", "--status", "happy"], 2, "happy"),
        (["job", "list", "-n", "251"], 2, "limit"),
        (["job", "list", "--sort", "colour"], 2, "cannot be sorted by 'colour'"),
        (["job", "list", "--due-before", "tomorrow"], 2, "due_before"),
        (["job", "next", "no-such-job"], 3, "There is no job"),
        (["job", "why", "no-such-job"], 3, "There is no job"),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_refused_is_one_sentence_and_an_exit_code(at, arguments, code, sentence):
    answer = at(*arguments)
    assert (answer.code, answer.out) == (code, "")
    assert sentence in answer.err
    assert len(answer.err.splitlines()) == 1


def test_a_state_that_does_not_allow_it_is_a_conflict(at):
    job = make(at, "--every", "6h")
    answer = at("job", "retry", job["id"])
    assert (answer.code, answer.out) == (4, "")
    assert "scheduled" in answer.err


def test_a_task_that_nobody_knows_can_be_asked_for(at):
    made = at("job", "add", some_key(), "--every", "6h", "--allow-unknown", "--json")
    assert (made.code, json.loads(made.out)["status"]) == (0, "scheduled")


@pytest.mark.parametrize(("arg", "field"), [("n=notint", "args.n"), ("q=1", "args.q")])
def test_args_that_do_not_fit_a_task_of_the_app_are_refused(at, arg, field):
    for command in (["job", "add", "fine", "--every", "1h"], ["job", "add", "fine", "--now"]):
        refused = at(*command, "--arg", arg)
        assert (refused.code, field in refused.err) == (2, True), refused
    made = the_json(at("job", "add", "fine", "--arg", "n=5", "--manual", "--json"))
    assert field in at("job", "run", made["id"], "--arg", arg).err
    assert field in at("job", "edit", made["id"], "--arg", arg).err


def test_args_of_a_task_that_no_worker_has_described_are_accepted_and_that_is_said(at):
    made = at("job", "add", "stranger", "--arg", "q=1", "--manual", "--allow-unknown")
    assert made.code == 0
    assert "No worker has described the task 'stranger'" in made.err

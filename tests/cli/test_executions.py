"""`ostinato execution …`, `workers`, `queue`, `stats`: directly and by a server, on both databases."""

from uuid import uuid4

import pytest

from tests.cli.places import the_json
from tests.waiting import eventually


def running(at):
    """An execution that hangs, once it runs."""
    job = the_json(at("job", "add", "hang", "--now", "--json"))
    found = eventually(lambda: the_json(at("job", "history", job["id"], "--json"))["executions"][0:1])[0]
    eventually(lambda: the_json(at("execution", "show", found["id"], "--json"))["progress"])
    return found["id"]


def test_list_show_cancel(at):
    execution = running(at)
    listed = the_json(at("execution", "list", "--status", "running", "--task", "hang", "--json"))
    assert execution in [each["id"] for each in listed["executions"]]
    shown = at("execution", "show", execution)
    assert execution in shown.out
    assert "1 of 3 (33%): at it" in shown.out
    assert execution in at("execution", "list", "--status", "running").out
    assert "asked to stop and is still running" in at("execution", "cancel", execution).out
    eventually(lambda: the_json(at("execution", "show", execution, "--json"))["status"] == "cancelled")
    again = at("execution", "cancel", execution)
    assert (again.code, again.out) == (4, "")


def test_of_one_job(at):
    execution = running(at)
    job = the_json(at("execution", "show", execution, "--json"))["job_id"]
    listed = the_json(at("execution", "list", "--job", job, "--json"))
    assert [each["id"] for each in listed["executions"]] == [execution]
    assert the_json(at("execution", "cancel", execution, "--force", "--json"))["known_dead"] is False


def test_a_job_that_is_cancelled_or_deleted_says_that_its_run_still_runs(at):
    jobs = [the_json(at("execution", "show", running(at), "--json"))["job_id"] for _ in range(2)]
    for answer in (at("job", "cancel", jobs[0]), at("job", "delete", jobs[1], "--yes")):
        assert answer.code == 0
        assert "asked to stop and is still running" in answer.out


def test_release_hands_it_to_another(at):
    execution = running(at)
    assert "may still run it" in at("execution", "release", execution).out
    shown = the_json(at("execution", "show", execution, "--json"))
    assert shown["status"] in ("queued", "running")
    at("execution", "cancel", execution, "--force")


@pytest.mark.parametrize("verb", ["show", "cancel", "release", "log"])
@pytest.mark.parametrize("ref", ["01a1e564-5286-7e49-889e-389aa297e15a", "not-an-id", "../jobs"])
def test_an_execution_that_is_not_there(at, verb, ref):
    answer = at("execution", verb, ref)
    assert (answer.code, answer.out) == (3, "")
    assert len(answer.err.splitlines()) == 1


def test_workers(at):
    (worker,) = the_json(at("workers", "--json"))["workers"]
    assert worker["status"] == "working"
    assert "hang" in worker["tasks"]
    answer = at("workers")
    assert worker["id"] in answer.out
    assert "working" in answer.out
    assert at("workers", "--drain", "01a1e564-5286-7e49-889e-389aa297e15a").code == 3


def test_a_queue_is_paused_and_goes_on(at):
    name = f"q-{uuid4().hex[:8]}"
    the_json(at("job", "add", "fine", "--every", "6h", "--queue", name, "--json"))
    assert at("queue", "pause", name).out == f"The queue {name} is paused.\n"

    def queue():
        return next(each for each in the_json(at("queue", "list", "--json"))["queues"] if each["name"] == name)

    assert queue()["is_paused"]
    assert "paused" in next(line for line in at("queue", "list").out.splitlines() if line.startswith(name))
    assert at("queue", "resume", name).out == f"The queue {name} is resumed.\n"
    assert not queue()["is_paused"]


def test_a_queue_cannot_be_called_anything(at):
    answer = at("queue", "pause", "a b")
    assert (answer.code, answer.out) == (2, "")


def test_stats(at):
    job = the_json(at("job", "add", "fine", "--now", "--json"))
    eventually(lambda: the_json(at("job", "show", job["id"], "--json"))["status"] == "completed")
    figures = the_json(at("stats", "--json"))
    assert figures["executions"]["total"] >= 1
    shown = at("stats").out
    assert "Success rate" in shown
    assert "fine" in shown


def test_the_log_of_a_run(at):
    job = the_json(at("job", "add", "fine", "--now", "--json"))
    eventually(lambda: the_json(at("job", "show", job["id"], "--json"))["status"] == "completed")
    (run,) = the_json(at("job", "history", job["id"], "--json"))["executions"]
    for flags in ([], ["-f"]):
        answer = at("execution", "log", run["id"], *flags)
        assert answer.code == 0
        assert [line.split()[2:] for line in answer.out.splitlines()] == [["stdout", "working"]]
        assert answer.err == ""
    (line,) = the_json(at("execution", "log", run["id"], "--json"))["lines"]
    assert (line["number"], line["level"], line["stream"], line["text"]) == (1, "info", "stdout", "working")
    grave = at("execution", "log", run["id"], "--level", "warning")
    assert (grave.out, grave.err) == ("", "The log has no lines of this level.\n")
    refused = at("execution", "log", run["id"], "--level", "loud")
    assert (refused.code, "level" in refused.err) == (2, True)

"""Tasks over HTTP: which there are, what they take; args of built-in ones are checked at every door."""

from __future__ import annotations

from typing import Literal

import pytest

from ostinato import Context, Invalid, Ostinato
from ostinato.core.access import Role
from tests.rest.conftest import Client


@pytest.fixture
def private(new_app) -> Client:
    """Where everything may be called."""
    return Client(new_app(allow_private_addresses=True, allow_commands=True, python_prefixes="shop"))


def test_built_in_tasks_are_described(api: Client):
    http = api.get("/tasks/http")
    assert (http["origin"], http["allowed"], http["reason"]) == ("built_in", True, None)
    assert http["args"]["required"] == ["url"]
    assert http["args"]["properties"]["method"]["default"] == "GET"


def test_one_that_is_off_says_which_setting_allows_it(api: Client):
    command = api.get("/tasks/command")
    assert command["allowed"] is False
    assert "OSTINATO_ALLOW_COMMANDS" in command["reason"]


def test_a_task_of_the_app_is_described_by_its_signature(api: Client, app: Ostinato):
    @app.task
    def report(ctx: Context, day: str, copies: int = 2, mood: Literal["good", "bad"] = "good", **more: object) -> None:
        """Write the report.

        And more about it.
        """

    told = api.get("/tasks/report")
    assert told["origin"] == "own"
    assert told["help"] == "Write the report."
    assert told["args"] == {
        "type": "object",
        "properties": {
            "day": {"type": "string"},
            "copies": {"type": "integer", "default": 2},
            "mood": {"enum": ["good", "bad"], "default": "good"},
        },
        "required": ["day"],
        "additionalProperties": True,
    }


def test_the_list_has_all_of_them(api: Client):
    answer = api.get("/tasks")
    names = [each["name"] for each in answer["tasks"]]
    assert {"http", "command", "python", "fine", "bad"} <= set(names)
    assert names == sorted(names)
    assert answer["total"] == len(names)


def test_a_task_that_nobody_knows(api: Client):
    assert "'nope'" in api.refused("GET", "/tasks/nope", code=404)


def test_a_viewer_may_look(api: Client, as_role):
    assert as_role(Role.VIEWER).get("/tasks/http")["name"] == "http"


def test_args_are_checked_when_a_job_is_made(api: Client):
    answer = api.told(422, "POST", "/jobs", json={"task": "http", "args": {"url": "https://x.example", "metod": "GET"}})
    assert answer["errors"] == [{"field": "args.metod", "message": "args.metod does not exist; did you mean method?"}]
    assert api.get("/jobs")["total"] == 0


def test_what_is_off_is_refused_when_a_job_is_made(api: Client):
    told = api.refused("POST", "/jobs", {"task": "command", "args": {"argv": ["ls"]}})
    assert "OSTINATO_ALLOW_COMMANDS=on" in told
    told = api.refused("POST", "/jobs?allow_unknown=true", {"task": "python", "args": {"function": "os:system"}})
    assert "OSTINATO_PYTHON_PREFIXES" in told
    assert api.get("/jobs")["total"] == 0


def test_args_are_checked_at_an_edit_and_at_a_run_with_others(private: Client):
    job = private.make(task="http", args={"url": "http://127.0.0.1:1/"}, schedule={"manual": True})
    told = private.refused("PUT", f"/jobs/{job['id']}", {"args": {"url": "nowhere"}})
    assert "args.url" in told
    told = private.refused("POST", f"/jobs/{job['id']}/run", {"args": {"url": None}})
    assert "args.url is required" in told
    assert private.get(f"/jobs/{job['id']}")["args"] == {"url": "http://127.0.0.1:1/"}


def test_args_are_checked_in_python(app: Ostinato):
    with pytest.raises(Invalid, match=r"args\.url is required"):
        app.call("http")
    with pytest.raises(Invalid, match="OSTINATO_ALLOW_COMMANDS"):
        app.call("command", argv=["ls"])
    assert app.call("http", url="https://example.org").task == "http"


def test_many_at_once_are_checked_too(app: Ostinato):
    from ostinato.task import Call

    calls = [Call("http", '{"url": "https://example.org"}'), Call("http", '{"url": 3}')]
    with pytest.raises(Invalid, match=r"args\.url must be text"):
        app.enqueue(calls)
    assert app.scheduler.jobs.search().total == 0


def test_a_task_of_the_user_goes_first(api: Client, app: Ostinato):
    @app.task(name="http")
    def mine(anything: int) -> None:
        """Mine."""

    assert api.get("/tasks/http")["origin"] == "own"
    assert api.make(task="http", args={"anything": 1})["task"] == "http"

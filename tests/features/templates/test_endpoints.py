"""Job templates over HTTP, on both databases."""

from __future__ import annotations

import pytest

from ostinato.core.access import Role
from tests.features.workflows.test_endpoints import LITERALS
from tests.rest.conftest import Client

MINE = {
    "description": "Mine.",
    "parameters": [
        {"name": "n", "type": "integer", "description": "How many."},
        {"name": "to", "type": "list", "default": ["ann"]},
    ],
    "job": {"task": "fine", "args": {"n": "{{ params.n }}", "to": "{{ params.to }}"}, "schedule": {"every": "1h"}},
}  # fmt: skip


def test_a_template_is_made_listed_used_changed_and_deleted(api: Client):
    made = api.post("/templates", {"name": "mine", **MINE}, 201)
    assert (made["name"], made["built_in"], made["updated_by"]) == ("mine", False, "ann")
    assert made["parameters"] == MINE["parameters"]
    assert made["args"]["required"] == ["n"]
    names = [each["name"] for each in api.get("/templates")["templates"]]
    assert names == ["crawl-a-site", "mine", "nightly-backup", "ping-a-url"]

    job = api.post("/templates/mine/jobs", {"params": {"n": 3}, "job": {"key": "k", "queue": "slow"}}, 201)
    assert (job["task"], job["args"], job["key"], job["queue"]) == (
        "fine",
        {"n": 3, "to": ["ann"]},
        "k",
        "slow",
    )
    assert job["schedule"] == {"every": "1h"}
    again = api.post("/templates/mine/jobs", {"params": {"n": 4}, "job": {"key": "k"}}, 200)
    assert again["id"] == job["id"]

    assert api.put("/templates/mine", {**MINE, "description": "Changed."})["description"] == "Changed."
    assert api.get("/templates/mine")["description"] == "Changed."
    assert "mine" in api.told(200, "DELETE", "/templates/mine")["message"]
    api.refused("GET", "/templates/mine", code=404)
    assert api.get(f"/jobs/{job['id']}")["args"] == {"n": 3, "to": ["ann"]}
    events = {event["kind"] for event in api.get("/events")["events"]}
    assert {"template.saved", "template.deleted"} <= events


def test_a_name_that_is_taken(api: Client):
    api.post("/templates", {"name": "mine", **MINE}, 201)
    assert "already" in api.refused("POST", "/templates", {"name": "mine", **MINE}, 409)
    assert "built in" in api.refused("PUT", "/templates/ping-a-url", MINE, 409)
    assert "built in" in api.refused("DELETE", "/templates/ping-a-url", code=409)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({**MINE, "job": {"tusk": "fine"}}, "job.tusk"),
        ({**MINE, "parameters": []}, "template.job"),
        ({**MINE, "parameters": [{"name": "n", "type": "int"}]}, "template.parameters[0].type"),
        ({**MINE, "jobs": {}}, "jobs"),
        ({"description": "x"}, "job"),
    ],
)
def test_a_wrong_template_names_the_field(api: Client, body, field):
    answer = api.told(422, "PUT", "/templates/mine", json=body)
    assert answer["errors"][0]["field"] == field


@pytest.mark.parametrize(
    ("use", "field"),
    [
        ({}, "params.n"),
        ({"params": {"n": "many"}}, "params.n"),
        ({"params": {"n": 1, "m": 2}}, "params.m"),
        ({"params": {"n": 1}, "job": {"priority": 11}}, "priority"),
        ({"params": {"n": 1}, "job": {"prioritty": 1}}, "prioritty"),
        ({"params": {"n": 1}, "job": {"schedule": "never"}}, "schedule"),
        ({"params": {"n": 1}, "job": {"task": "nobody-knows"}}, "task"),
    ],
)
def test_what_cannot_be_made_names_the_field(api: Client, use, field):
    api.post("/templates", {"name": "mine", **MINE}, 201)
    answer = api.told(422, "POST", "/templates/mine/jobs", json=use)
    assert answer["errors"][0]["field"] == field
    assert api.get("/jobs")["total"] == 0


def test_those_that_we_bring_make_jobs(api: Client):
    job = api.post("/templates/ping-a-url/jobs", {"params": {"url": "https://example.org/health"}}, 201)
    assert (job["task"], job["name"]) == ("http", "Ping https://example.org/health")
    refused = api.refused("POST", "/templates/nightly-backup/jobs", {"params": {"argv": ["backup"]}})
    assert "OSTINATO_ALLOW_COMMANDS" in refused


def test_the_crawl_that_we_bring(api: Client):
    job = api.post("/templates/crawl-a-site/jobs", {"params": {"url": "https://example.org/"}}, 201)
    assert (job["task"], job["args"]["url"]) == ("crawl", "https://example.org/")


def test_a_backup_where_commands_are_allowed(new_app):
    api = Client(new_app(allow_commands=True))
    job = api.post("/templates/nightly-backup/jobs", {"params": {"argv": ["backup", "--all"]}}, 201)
    assert job["args"] == {"argv": ["backup", "--all"], "secrets": {}}
    assert job["schedule"]["cron"] == "30 2 * * *"


def test_only_an_admin_makes_them_and_everybody_may_look(api: Client, as_role):
    viewer, operator = as_role(Role.VIEWER), as_role(Role.OPERATOR)
    assert viewer.get("/templates")["total"] == 3
    operator.refused("PUT", "/templates/mine", MINE, 403)
    operator.refused("POST", "/templates/ping-a-url/jobs", {"params": {"url": "https://example.org"}}, 403)


@pytest.mark.parametrize(("args", "field"), LITERALS)
def test_a_template_holds_no_credential(api: Client, args, field):
    body = {**MINE, "job": {"task": "http", "args": {"url": "https://a.org", **args}}, "parameters": []}
    refused = api.refused("PUT", "/templates/leak", body, 422)
    assert f"job.args.{field}" in refused
    assert "literal-1" not in refused


def test_no_default_of_a_parameter_is_a_credential(api: Client):
    args = {"url": "https://a.org", "auth": {"type": "bearer", "token": "{{ params.token }}"}}
    token = {"name": "token", "default": "literal-1"}
    body = {**MINE, "job": {"task": "http", "args": args}, "parameters": [token]}
    refused = api.refused("PUT", "/templates/leak", body, 422)
    assert "job.args.auth.token" in refused
    assert "literal-1" not in refused
    for allowed in ({"name": "token", "default": "env:SECRET_TOKEN"}, {"name": "token"}):
        api.put("/templates/open", {**body, "parameters": [allowed]})


def test_a_task_that_is_no_name_is_refused_when_the_template_is_used(api: Client):
    api.put("/templates/odd", {**MINE, "job": {"task": ["http"]}, "parameters": []})
    assert "task" in api.refused("POST", "/templates/odd/jobs", {"params": {}}, 422)

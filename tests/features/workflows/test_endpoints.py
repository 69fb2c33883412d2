"""Workflows over HTTP."""

import pytest

NODES = [{"id": "t", "type": "trigger_schedule"}, {"id": "n", "task": "note", "after": ["t"]}]
LITERAL = {"name": "good", "nodes": NODES}


@pytest.fixture
def api(app, api):
    app.register("note", lambda text="": text)
    return api


def test_the_workflow_of_the_issue_is_made(api):
    made = api.post("/workflows", LITERAL, 201)
    assert made["id"] == 1
    assert (made["name"], made["version"], made["active"], made["nodes"]) == ("good", 1, True, NODES)
    assert api.get("/workflows/1") == api.get("/workflows/good") == made
    assert api.get("/workflows") == {"workflows": [made]}
    assert api.post("/workflows", {**LITERAL, "name": "other"}, 201)["id"] == 2


def test_an_unknown_one_is_not_found(api):
    for path in ("/workflows/7", "/workflows/no", "/workflows/99999999999999999999"):
        assert "There is no workflow" in api.refused("GET", path, code=404)
    assert "There is no workflow" in api.refused("DELETE", "/workflows/7", code=404)
    assert "There is no workflow" in api.refused("POST", "/workflows/7/run", {}, 404)


def test_a_name_is_taken_once(api):
    api.post("/workflows", LITERAL, 201)
    assert "already a workflow 'good'" in api.refused("POST", "/workflows", LITERAL, 409)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (
            {"name": "x", "nodes": [*NODES, {"id": "n", "task": "note"}]},
            "nodes[2].id: there are two nodes 'n'",
        ),
        ({"name": "x", "nodes": [{"id": "n", "task": "nota"}]}, "nodes[0].task: No process here"),
        ({"name": "7", "nodes": NODES}, "name: "),
        ({"name": " ", "nodes": NODES}, "name: "),
        ({"name": "x", "nodes": []}, "nodes: "),
        ({"name": "x", "nodes": {}}, "nodes"),
        ({"name": "x"}, "nodes"),
        ({"name": "x", "nodes": NODES, "nods": 1}, "did you mean nodes"),
    ],
)
def test_what_is_wrong_is_refused_with_the_place(api, body, sentence):
    assert sentence in api.refused("POST", "/workflows", body)
    assert api.get("/workflows") == {"workflows": []}


def test_other_nodes_are_another_version(api):
    made = api.post("/workflows", LITERAL, 201)
    assert api.put("/workflows/good", made)["version"] == 1
    edited = api.put("/workflows/1", {"nodes": [*NODES, {"id": "m", "task": "note"}], "active": False})
    assert (edited["version"], edited["active"], len(edited["nodes"])) == (2, False, 3)
    assert api.put("/workflows/1", {"name": "better"})["version"] == 2
    assert api.get("/workflows/better")["id"] == 1


def test_a_deleted_one_is_gone_and_its_id_is_not_used_again(api):
    api.post("/workflows", LITERAL, 201)
    api.told(200, "DELETE", "/workflows/good")
    assert api.get("/workflows") == {"workflows": []}
    assert api.post("/workflows", LITERAL, 201)["id"] == 2


def test_a_run_is_a_job_of_its_own(api):
    api.post("/workflows", LITERAL, 201)
    started = api.post("/workflows/good/run", {"payload": {"region": "eu"}}, 202)
    job = api.get(f"/jobs/{started['job_id']}")
    assert (job["task"], job["args"]) == (
        "workflow",
        {"workflow": 1, "payload": {"region": "eu"}, "event": "manual"},
    )
    assert "No matching trigger" in api.refused("POST", "/workflows/good/run", {"trigger": "n"})


def test_a_workflow_that_is_not_active_does_not_run(api):
    api.post("/workflows", {**LITERAL, "active": False}, 201)
    assert "is not active" in api.told(409, "POST", "/workflows/good/run", json={})["detail"]


def test_an_event_starts_what_waits_for_it(api):
    waiting = [
        {"id": "e", "type": "trigger_event", "event": "order"},
        {"id": "n", "task": "note", "after": ["e"]},
    ]
    for name in ("one", "two", "idle"):
        api.post("/workflows", {"name": name, "nodes": waiting, "active": name != "idle"}, 201)
    api.post("/workflows", LITERAL, 201)
    answer = api.post("/triggers/order", {"total": 7}, 202)
    assert [each["name"] for each in answer["started"]] == ["one", "two"]
    job = api.get(f"/jobs/{answer['started'][0]['job_id']}")
    assert job["args"] == {"workflow": 1, "trigger": "e", "payload": {"total": 7}, "event": "order"}
    assert api.post("/triggers/refund", {}, 202)["started"] == []


def test_the_steps_of_a_run_that_has_not_begun_wait(api):
    api.post("/workflows", LITERAL, 201)
    started = api.post("/workflows/good/run", None, 202)
    (run,) = api.get(f"/jobs/{started['job_id']}/executions")["executions"]
    answer = api.get(f"/executions/{run['id']}/steps")
    assert (answer["workflow_id"], answer["version"], answer["run"]["id"]) == (1, None, run["id"])
    assert answer["steps"] == [
        {"id": "n", "task": "note", "after": ["t"], "state": "waiting", "because": None, "attempts": []}
    ]


def test_the_steps_of_what_has_none_are_refused(api):
    job = api.make(task="fine")
    (run,) = api.get(f"/jobs/{job['id']}/executions")["executions"]
    assert "no steps" in api.refused("GET", f"/executions/{run['id']}/steps", code=404)
    api.refused("GET", f"/executions/{job['id']}/steps", code=404)


def test_a_retry_may_begin_from_the_start(api):
    job = api.make(task="bad")
    assert "only a job that is failed" in api.refused("POST", f"/jobs/{job['id']}/retry?from_start=true", None, 409)


LITERALS = [
    ({"headers": {"Authorization": "Bearer literal-1"}}, "headers.Authorization"),
    ({"headers": {"Transfer-Encoding": "chunked"}}, "headers.Transfer-Encoding"),
    ({"auth": {"type": "bearer", "token": "literal-1"}}, "auth.token"),
    ({"auth": {"type": "basic", "username": "x", "password": "env:OSTINATO_AUTH_SECRET"}}, "auth.password"),
    ({"auth": {"type": "oauth2_client_credentials", "clientSecret": "literal-1"}}, "auth.clientSecret"),
    ({"secrets": {"P": "literal-1"}}, "secrets.P"),
    ({"source": {"auth": {"type": "header", "name": "X", "value": "literal-1"}}}, "source.auth.value"),
]


@pytest.mark.parametrize(("args", "field"), LITERALS)
def test_a_built_in_step_holds_no_credential(api, args, field):
    node = {"id": "a", "task": "http", "args": {"url": {"$ref": "t.payload.url"}, **args}, "after": ["t"]}
    refused = api.refused("POST", "/workflows", {"name": "leak", "nodes": [NODES[0], node]}, 422)
    assert f"nodes[1].args.{field}" in refused
    assert "literal-1" not in refused


def test_a_built_in_step_may_name_a_secret_or_leave_it_open(api):
    for number, token in enumerate(("env:SECRET_TOKEN", {"$ref": "t.payload.token"})):
        args = {
            "url": "https://a.org",
            "auth": {"type": "bearer", "token": token},
            "headers": {"X-Mine": "1"},
        }
        nodes = [NODES[0], {"id": "a", "task": "http", "args": args, "after": ["t"]}]
        api.post("/workflows", {"name": f"fine {number}", "nodes": nodes}, 201)

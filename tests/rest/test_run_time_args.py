"""An operator sets no arg of a run that its job does not open, through any door; seen by a real server."""

import asyncio
import json
from datetime import timedelta
from itertools import product

import pytest
from starlette.testclient import TestClient

from ostinato.access.tokens import Tokens
from ostinato.core.access import Role
from ostinato.dashboard.app import routes_of
from ostinato.feature import our_features
from ostinato.wiring import build_api
from tests.app.conftest import during
from tests.dashboard.conftest import TOKEN
from tests.playground import answered
from tests.rest.conftest import NoEngine
from tests.sources import a_source
from tests.waiting import until

SECRET = "0123456789abcdef0123456789abcdef"
STOLEN = "/stolen"
MARK = "hostile"


class Place:
    """An app with auth and a worker, a server that plays both the good address and the sink, and callers by role."""

    def __init__(self, new_app, playground):
        self.app = new_app(auth_secret=SECRET, allow_private_addresses=True)
        self.sink = playground
        self.seen = []
        self.app.register("collect", lambda **args: self.seen.append(args))
        for path in ("/good", STOLEN):
            playground.route(path, lambda _: answered(b"{}"))
        self.client = TestClient(
            build_api(self.app.parts, self.app.scheduler, NoEngine()), base_url="http://127.0.0.1:8060",
            raise_server_exceptions=False, follow_redirects=False,
        )  # fmt: skip
        tokens, now = Tokens.of(self.app.settings), self.app.scheduler.now()
        self.tokens = {role: tokens.issue(f"{role}-ann", role, now, timedelta(hours=1)) for role in Role}

    def ask(self, role, method, path, body=None):
        headers = {"Authorization": f"Bearer {self.tokens[role]}"}
        return self.client.request(method, path, headers=headers, json=body)

    def make(self, **words):
        answer = self.ask(Role.ADMIN, "POST", "/api/v1/jobs", {"schedule": "manual", **words})
        assert answer.status_code == 201, answer.text
        return answer.json()["id"]

    def http_job(self, **words):
        return self.make(task="http", args={"url": self.sink.url("/good")}, **words)

    def run(self, role, job, **args):
        return self.ask(role, "POST", f"/api/v1/jobs/{job}/run", {"args": args})

    def work(self):
        """Let the worker run all that is queued."""

        def idle():
            found = self.app.scheduler.executions.search(states=["queued", "running"], limit=250).items
            return not any(run.waits_for is None for run in found)

        during(self.app, lambda: until(lambda: asyncio.to_thread(idle)))

    @property
    def hostile(self):
        password = {"type": "basic", "username": "x", "password": "file:/proc/self/environ"}
        return {"url": self.sink.url(STOLEN), "auth": password}


@pytest.fixture
def place(new_app, playground):
    return Place(new_app, playground)


def test_an_operator_cannot_send_the_secrets_of_the_worker_to_a_sink(place):
    job = place.http_job()
    answer = place.run(Role.OPERATOR, job, **place.hostile)
    assert answer.status_code == 403
    assert "cannot set auth.password, auth.type, auth.username, url" in answer.json()["detail"]
    assert place.ask(Role.OPERATOR, "POST", f"/api/v1/jobs/{job}/run").status_code == 202
    place.work()
    assert [request.path for request in place.sink.requests] == ["/good"]


def test_an_admin_cannot_send_the_environment_of_the_worker_either(place):
    answer = place.run(Role.ADMIN, place.http_job(), **place.hostile)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "args.auth.password")
    place.work()
    assert place.sink.requests == []


def test_a_declared_arg_reaches_the_task_and_nothing_else_changes(place):
    url = place.sink.url("/good?day={{ args.values.day }}&city={{ args.values.city }}")
    args = {"url": url, "values": {"day": "mon", "city": "Paris"}}
    job = place.make(task="http", args=args, run_args=["values.day"])
    assert place.run(Role.OPERATOR, job, **{"values.city": "Rome"}).status_code == 403
    assert place.run(Role.OPERATOR, job, **{"values.day": "tue&x=/../y"}).status_code == 202
    place.work()
    (request,) = place.sink.requests
    assert request.query == {"day": "tue&x=/../y", "city": "Paris"}


def test_the_default_of_a_task_counts_where_a_job_says_nothing(place):
    place.app.task(name="dated", run_args=["day"])(lambda day="mon", more=0: place.seen.append((day, more)))
    usual, closed = place.make(task="dated"), place.make(task="dated", run_args=[])
    shown = place.ask(Role.VIEWER, "GET", f"/api/v1/jobs/{usual}").json()
    assert shown["run_args"] == ["day"]
    assert place.run(Role.OPERATOR, closed, day="tue").status_code == 403
    assert place.run(Role.OPERATOR, usual, more=1).status_code == 403
    assert place.run(Role.OPERATOR, usual, day="tue").status_code == 202
    place.work()
    assert place.seen == [("tue", 0)]


def test_admins_set_all_and_so_does_everybody_where_no_credential_is_asked_for(place, new_app):
    job = place.http_job()
    assert place.run(Role.ADMIN, job, url=place.sink.url("/good?by=admin")).status_code == 202
    place.work()
    assert [request.query for request in place.sink.requests] == [{"by": "admin"}]
    open_app = new_app("shop")
    open_to_all = TestClient(
        build_api(open_app.parts, open_app.scheduler, NoEngine()), base_url="http://127.0.0.1:8060"
    )
    answer = open_to_all.post(f"/api/v1/jobs/{place.make(task='collect')}/run", json={"args": {"a": 1}})
    assert answer.status_code == 202


def test_run_args_that_would_open_too_much_are_refused_when_the_job_is_made_and_edited(place):
    wrong = {"task": "http", "args": {"url": place.sink.url("/good")}, "run_args": ["auth.password"]}
    answer = place.ask(Role.ADMIN, "POST", "/api/v1/jobs", wrong)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "run_args")
    job = place.http_job(run_args=["values"])
    other = {"args": {"url": "http://{{ args.values.host }}/", "values": {"host": "127.0.0.1"}}}
    assert "scheme, host or port" in place.ask(Role.ADMIN, "PATCH", f"/api/v1/jobs/{job}", other).text
    assert place.ask(Role.ADMIN, "PATCH", f"/api/v1/jobs/{job}", {"run_args": ["url"]}).status_code == 422
    edited = place.ask(Role.ADMIN, "PATCH", f"/api/v1/jobs/{job}", {"run_args": []})
    assert edited.json()["run_args"] == []


# -- every door


def bodies(place):
    """Hostile args in each shape that some door might take."""
    args = place.hostile
    source = {"name": "s", "url": args["url"], "auth": args["auth"], "table": "t"}
    more = {"kind": MARK, "collect": MARK, "payload": MARK}
    return [
        {"args": args}, {"args": {MARK: MARK}}, args, {"payload": args}, {"params": args}, {"job": {"args": args}},
        {"trigger_payload": args}, {"source": source}, source, {"nodes": [{"id": "n", "task": "http", "args": args}]},
        {"task": "http", "args": args}, {"action": "run", "filter": {}, "args": args}, {"data": args} | more,
        {"action": "run", "filter": {"task": "http"}}, {},
    ]  # fmt: skip


def standing(place):
    """What an operator may run: a workflow that sends its payload to the good address, a source, a template."""
    good = place.sink.url("/good")
    call = {"url": good, "method": "POST", "json": {"$ref": "payload"}}
    nodes = [
        {"id": "on", "type": "trigger_event", "event": "order"},
        {"id": "call", "task": "http", "args": call, "after": ["on"]},
    ]
    for path, body in {
        "/workflows": {"name": "flow", "nodes": nodes},
        "/sources": a_source(name="src", url=good),
        "/templates": {"name": "temp", "job": {"task": "http", "args": {"url": good}}},
    }.items():
        answer = place.ask(Role.ADMIN, "POST", f"/api/v1{path}", body)
        assert answer.status_code == 201, answer.text


def real_ids(place, own=False):
    """Something real for each part of a path: a new job, of http or an own task, with a queued execution."""
    job = place.make(task="collect") if own else place.http_job()
    place.ask(Role.ADMIN, "POST", f"/api/v1/jobs/{job}/run")
    (execution,) = place.app.scheduler.executions.list(job=job)
    return {
        "/jobs/{id}": job, "/schedules/{id}": job, "/executions/{id}": str(execution.id), "/workflows/{id}": "flow",
        "/sources/{name}": "src", "/templates/{name}": "temp", "/triggers/{kind}": "order", "/queues/{name}": "spare",
    }  # fmt: skip


def filled(path, ids):
    """A path with a real id in it; None where there is none of that kind."""
    if "{" not in path:
        return path
    prefix = path[: path.index("}") + 1].removeprefix("/api/v1")
    return path.replace(f"{{{prefix.rpartition('{')[2]}", ids[prefix], 1) if prefix in ids else None


def changing(place):
    """Every operation of the API that is no question, with its roles left to the door."""
    paths = place.client.app.openapi()["paths"]
    return [(m.upper(), path) for path, methods in paths.items() for m in methods if m not in ("get", "head")]


def test_no_operation_lets_hostile_args_of_an_operator_reach_a_task(place):
    standing(place)
    taken = set()
    for own, (method, path) in product((False, True), changing(place)):
        if (where := filled(path, real_ids(place, own))) is None:
            continue
        for body in bodies(place):
            answer = place.ask(Role.OPERATOR, method, where, body)
            assert answer.status_code < 500, (method, path, body)
            if answer.status_code < 300:
                taken.add(f"{method} {path.removeprefix('/api/v1')}")
    place.work()
    assert {
        "POST /jobs/{id}/run",
        "POST /jobs/bulk",
        "POST /workflows/{id}/run",
        "POST /triggers/{kind}",
    } <= taken
    assert place.sink.asked("/good"), "the worker has run what an operator may run"
    assert place.sink.asked(STOLEN) == []
    assert place.seen, "the own task has run"
    assert [args for args in place.seen if args] == []


def test_the_same_args_of_an_admin_do_reach_the_task(place):
    """The test above would see it."""
    place.run(Role.ADMIN, place.http_job(), url=place.sink.url(STOLEN))
    place.work()
    assert len(place.sink.asked(STOLEN)) == 1


def test_no_form_of_the_dashboard_lets_hostile_args_of_an_operator_reach_a_task(place):
    standing(place)
    browser = place.client
    key = place.app.scheduler.keys.create("ops", Role.OPERATOR).text

    def send(path, on, **fields):
        token = TOKEN.search(browser.get(on, headers={"accept": "text/html"}).text)[1]
        return browser.post(path, data={"form_token": token, **fields})

    assert send("/login", "/login", credential=key).status_code == 303
    args = place.hostile
    flat = {"args": json.dumps(args), "payload": json.dumps({"order": 1}), "url": args["url"], "arg:url": args["url"],
            "do": "save", "action": "run", "task": "http"}  # fmt: skip
    done = set()
    for route in routes_of(our_features()):
        if route.method == "POST" and route.role in (Role.OPERATOR, Role.ADMIN):
            ids = real_ids(place)
            where = filled(route.path, ids)
            if where is not None and "{" not in where:
                answer = send(where, f"/jobs/{ids['/jobs/{id}']}", **flat, id=ids["/jobs/{id}"])
                assert answer.status_code < 500, (route.path, answer.text)
                done |= {route.path} if answer.status_code == 303 else set()
    place.work()
    assert {"/jobs/{id}/run", "/executions/{id}/run", "/workflows/{id}/run"} <= done
    assert place.sink.asked("/good")
    assert place.sink.asked(STOLEN) == []


def test_run_again_repeats_the_args_of_an_admin_for_admins_alone(place):
    job = place.http_job()
    place.run(Role.ADMIN, job, url=place.sink.url("/good?by=admin"))
    place.work()
    (execution,) = place.app.scheduler.executions.list(job=job)
    for role, status in ((Role.OPERATOR, 403), (Role.ADMIN, 303)):
        browser = TestClient(place.client.app, base_url="http://127.0.0.1:8060", follow_redirects=False)
        key = place.app.scheduler.keys.create("ann", role).text
        page = browser.get("/login", headers={"accept": "text/html"}).text
        browser.post("/login", data={"form_token": TOKEN.search(page)[1], "credential": key})
        page = browser.get(f"/executions/{execution.id}", headers={"accept": "text/html"}).text
        sent = browser.post(f"/executions/{execution.id}/run", data={"form_token": TOKEN.search(page)[1]})
        assert sent.status_code == status, sent.text
    place.work()
    assert [request.query for request in place.sink.requests] == [{"by": "admin"}] * 2

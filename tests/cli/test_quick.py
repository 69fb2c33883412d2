"""What is answered without the HTTP application is what the application answers."""

import json
import subprocess
import sys

import pytest

from ostinato import Ostinato
from ostinato.cli.client import Request, path
from ostinato.cli.direct import InProcessClient
from ostinato.cli.quick import CONTROLS, QUESTIONS, answer_quickly


@pytest.fixture
def world(database_url):
    """Some jobs, and what became of one."""
    app = Ostinato(database_url=database_url)
    app.open(upgrade=True)
    app.register("work", lambda: None)
    for n in range(4):
        app.registry.get("work").using(key=f"job {n}", queue="slow").enqueue()
    app.jobs.pause("job 1")
    yield app
    app.close()


@pytest.fixture
def client(world, database_url):
    client = InProcessClient(database_url)
    yield client
    client.close()


@pytest.fixture
def quickly(client):
    return lambda request: answer_quickly(client._api, "ann", request)


JOB = path("jobs", "job 1")
ASKED = {
    "/jobs": Request("GET", "/jobs", {"status": ["paused", "pending"], "limit": 2, "sort": "-name", "task": None}),
    "/jobs/([^/]+)": Request("GET", JOB),
    "/jobs/([^/]+)/next": Request("GET", f"{JOB}/next", {"n": 3}),
    "/jobs/([^/]+)/stats": Request("GET", f"{JOB}/stats"),
    "/jobs/([^/]+)/executions": Request("GET", f"{JOB}/executions", {"limit": 5}),
    "/executions": Request("GET", "/executions", {"status": ["queued"], "task": "work", "limit": 3}),
    "/executions/([^/]+)": Request("GET", "/executions/EXECUTION"),
    "/workers": Request("GET", "/workers"),
    "/queues": Request("GET", "/queues"),
    "/scheduler/metrics": Request("GET", "/scheduler/metrics"),
}


def test_every_question_is_asked_here():
    assert ASKED.keys() == QUESTIONS.keys()


def without_now(answer):
    """The same, but for the instant at which it was asked."""
    answer.pop("last_metrics_update", None)
    return answer


@pytest.mark.parametrize("pattern", ASKED)
def test_a_question_has_the_answer_of_the_application(world, client, quickly, pattern):
    request = ASKED[pattern]
    if "EXECUTION" in request.path:
        (run, *_) = world.executions.list()
        request = Request("GET", path("executions", str(run.id)))
    quick, slow = quickly(request), client.application.send(request)
    assert (quick.status, slow.status) == (200, 200)
    assert without_now(json.loads(quick.content)) == without_now(json.loads(slow.content))


@pytest.mark.parametrize("action", CONTROLS)
def test_a_control_has_the_answer_of_the_application(client, quickly, action):
    """Asked for one job here and for its twin there: the answers differ in what is each one's own."""
    own = {"id", "key", "created_at", "updated_at", "next_run_at", "paused_at", "cancelled_at", "schedule"}
    own |= {"schedule_description", "completed_at"}
    quick = quickly(Request("POST", path("jobs", "job 2", action)))
    slow = client.application.send(Request("POST", path("jobs", "job 3", action)))
    assert quick.status == slow.status
    one, other = json.loads(quick.content), json.loads(slow.content)
    assert {name: one[name] for name in one.keys() - own} == {name: other[name] for name in other.keys() - own}


def test_a_control_that_is_refused_has_the_refusal_of_the_application(client, quickly):
    request = Request("POST", path("jobs", "no such job", "pause"))
    quick, slow = quickly(request), client.application.send(request)
    assert (quick.status, json.loads(quick.content)) == (slow.status, json.loads(slow.content))
    assert quick.status == 404


def test_who_asked_is_recorded(world, quickly):
    quickly(Request("POST", path("jobs", "job 2", "pause")))
    (event, *_) = world.jobs.events("job 2")
    assert (event.kind, event.by) == ("job.paused", "ann")


@pytest.mark.parametrize(
    "request_",
    [
        Request("GET", "/jobs", {"status": ["happy"]}),
        Request("GET", "/jobs", {"limit": 1000}),
        Request("GET", "/jobs", {"frob": 1}),
        Request("GET", "/jobs", {"cursor": "x", "offset": 3}),
        Request("GET", path("jobs", "no such job")),
        Request("GET", path("jobs", "job 1"), {"frob": 1}),
        Request("GET", path("executions", "no id")),
        Request("GET", "/workers", {"frob": 1}),
        Request("GET", "/no/such/thing"),
        Request("POST", f"{JOB}/run", body={"args": {}}),
        Request("POST", f"{JOB}/pause", headers={"Idempotency-Key": "x"}),
        Request("DELETE", JOB),
        Request("PATCH", JOB, body={}),
    ],
    ids=lambda each: f"{each.method} {each.target}",
)
def test_everything_else_is_left_to_the_application(quickly, request_):
    assert quickly(request_) is None


def test_a_question_does_not_load_the_application(world, database_url):
    code = (
        "import sys; from ostinato.program import run; "
        f"run(['job', 'list', '--database', {database_url!r}]); "
        "print([name for name in ('fastapi', 'starlette', 'httpx2', 'ostinato.engine') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"

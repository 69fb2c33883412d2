"""A command without a server gets the answers of the HTTP API, and loads no more than it needs."""

import json
import subprocess
import sys

import pytest
from fastapi.testclient import TestClient

from ostinato import Ostinato
from ostinato.cli.client import Request, path
from ostinato.cli.direct import InProcessClient, whoami
from ostinato.cli.verbs import lighten
from ostinato.endpoints.table import tables
from ostinato.program import tree
from ostinato.rest.app import create_app

JOB = path("jobs", "job-1")
OWN = {"id", "key", "created_at", "updated_at", "next_run_at", "paused_at", "cancelled_at", "schedule",
       "schedule_description", "completed_at"}  # fmt: skip
# The command line itself, and the endpoints up to the one that is asked: modules that the same question of the Python
# API does not load. More of them would be felt: 100 modules take about 60 ms.
MORE_THAN_PYTHON = 80
HEAVY = ("fastapi", "starlette", "pydantic", "rich", "asyncio", "httpx2", "psycopg", "ostinato.engine", "jwt")


@pytest.fixture
def world(database_url):
    """Some jobs, and what became of one."""
    app = Ostinato(database_url=database_url)
    app.open(upgrade=True)
    app.register("work", lambda: None)
    for n in range(4):
        app.registry.get("work").using(key=f"job-{n}", queue="slow").enqueue()
    app.jobs.pause("job-1")
    yield app
    app.close()


@pytest.fixture
def here(world, database_url):
    client = InProcessClient(database_url)
    yield client
    client.close()


@pytest.fixture
def over_http(world):
    return TestClient(create_app(world.scheduler, world.settings))


def asked(client, request):
    headers = {"content-type": "application/json", **request.headers}
    return client.request(request.method, request.target, content=request.content, headers=headers)


def without_now(answer):
    """The same, but for the instant at which it was asked."""
    for name in ("last_metrics_update", "cursor"):
        answer.pop(name, None)
    return answer


QUESTIONS = [
    Request("GET", "/jobs", {"status": ["paused", "pending"], "limit": 2, "sort": "-name", "task": None}),
    Request("GET", JOB),
    Request("GET", f"{JOB}/next", {"n": 3}),
    Request("GET", f"{JOB}/stats"),
    Request("GET", f"{JOB}/skips"),
    Request("GET", f"{JOB}/executions", {"limit": 5}),
    Request("GET", "/jobs/status-counts"),
    Request("GET", "/executions", {"status": ["queued"], "task": "work", "limit": 3}),
    Request("GET", "/executions/EXECUTION"),
    Request("GET", "/executions/EXECUTION/log"),
    Request("GET", "/events", {"kind": ["job.*"], "limit": 3}),
    Request("GET", "/tasks/http"),
    Request("GET", "/workers"),
    Request("GET", "/queues"),
    Request("GET", "/declined"),
    Request("GET", "/keys"),
    Request("GET", "/templates"),
    Request("GET", "/sources"),
    Request("GET", "/schedules/"),
    Request("GET", "/scheduler/metrics"),
    Request("POST", "/preview", body={"schedule": "1h", "after": "2026-11-19T00:00:00Z"}),
]
REFUSED = [
    Request("GET", "/jobs", {"status": ["happy"]}),
    Request("GET", "/jobs", {"limit": 1000}),
    Request("GET", "/jobs", {"limit": "many"}),
    Request("GET", "/jobs", {"frob": 1}),
    Request("GET", "/jobs", {"due_before": "soon"}),
    Request("GET", "/jobs", {"cursor": "x", "offset": 3}),
    Request("GET", path("jobs", "no such job")),
    Request("GET", path("executions", "no id")),
    Request("POST", "/jobs", body={"task": "work", "frob": 1}),
    Request("POST", "/jobs", body={"task": "nobody has it"}),
    Request("PATCH", JOB, body={"priority": 99}),
    Request("POST", path("jobs", "no such job", "pause")),
    Request("DELETE", path("keys", "no id")),
]


def named(request, world):
    if "EXECUTION" not in request.path:
        return request
    (run, *_) = world.executions.list()
    return Request(request.method, request.path.replace("EXECUTION", str(run.id)))


@pytest.mark.parametrize("request_", QUESTIONS, ids=lambda each: f"{each.method} {each.target}"[:60])
def test_a_question_has_one_answer(world, here, over_http, request_):
    request = named(request_, world)
    one, other = here.send(request), asked(over_http, request)
    assert (one.status, other.status_code) == (200, 200), (one.content, other.text)
    assert without_now(json.loads(one.content)) == without_now(other.json())


@pytest.mark.parametrize("request_", REFUSED, ids=lambda each: f"{each.method} {each.target}"[:60])
def test_a_refusal_has_one_sentence(here, over_http, request_):
    one, other = here.send(request_), asked(over_http, request_)
    assert one.status == other.status_code
    assert 400 <= one.status < 500
    assert json.loads(one.content)["detail"] == other.json()["detail"]


@pytest.mark.parametrize("action", ["pause", "resume", "cancel", "retry", "run", "restart"])
def test_a_control_has_one_answer(here, over_http, action):
    """Asked for one job here and for its twin there: the answers differ in what is each one's own."""
    one = here.send(Request("POST", path("jobs", "job-2", action)))
    other = asked(over_http, Request("POST", path("jobs", "job-3", action)))
    assert one.status == other.status_code
    mine, theirs = json.loads(one.content), other.json()
    assert {name: mine[name] for name in mine.keys() - OWN} == {name: theirs[name] for name in theirs.keys() - OWN}


def test_the_user_at_the_terminal_is_recorded(world, here):
    here.send(Request("POST", path("jobs", "job-2", "pause")))
    (event, *_) = world.jobs.events("job-2")
    assert (event.kind, event.by) == ("job.paused", whoami())


def test_an_address_that_is_not_there_is_not_found(here):
    assert here.send(Request("GET", "/no/such/thing")).status == 404


def test_each_address_is_found_once(world):
    found = [(each.method, each.path) for table in tables(world.scheduler.features) for each in table]
    assert len(found) == len(set(found)) > 50


@pytest.mark.parametrize(
    "command",
    ["job list", "job why job-1", "job pause job-2", "job show job-1", "execution list", "execution log EXECUTION"],
)
def test_an_everyday_command_loads_only_what_it_needs(world, database_url, command):
    (run, *_) = world.executions.list()
    words = command.replace("EXECUTION", str(run.id)).split()
    loaded = loaded_by(f"from ostinato.program import run; assert run({[*words, '--database', database_url]!r}) == 0")
    asked = loaded_by(f"from ostinato import Ostinato; Ostinato(database_url={database_url!r}).jobs.list(limit=50)")
    heavy = [name for name in HEAVY if name in loaded]
    assert heavy == (["asyncio", "psycopg"] if database_url.startswith("postgresql") else [])
    assert [name for name in loaded | asked if name.startswith("ostinato.features.") and name.count(".") > 2] == []
    assert "importlib.metadata" not in loaded | asked or "psycopg" in loaded
    assert len(loaded - asked) <= MORE_THAN_PYTHON, sorted(loaded - asked)


def loaded_by(code):
    """Return the modules that a new process has loaded when it has run this; it must not fail."""
    report = "import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", f"{code}\n{report}"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())


def test_a_wrong_value_has_the_words_of_typer(capsys):
    from ostinato.program import run

    assert run(["job", "list", "--limit", "many"]) == 2
    assert "Invalid value for '-n' / '--limit'" in capsys.readouterr().err


def test_typer_still_has_the_reader_that_is_replaced():
    from typer.main import get_command

    command = get_command(tree("job"))
    lighten(command)
    params = command.commands["job"].commands["list"].params
    assert {type(each._runtime_param).__name__ for each in params} == {"LightReader"}

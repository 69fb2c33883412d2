"""Args of the user's tasks are checked at every door, by the function itself or by what a worker wrote about it."""

from __future__ import annotations

import asyncio

import pytest

from ostinato import Context, Invalid, Ostinato
from ostinato.service.tasks import FRESH
from ostinato.store.workers import NewWorker
from ostinato.task.parameters import describe
from tests.app.conftest import during
from tests.build import MINUTE, FixedChance
from tests.dashboard.conftest import Visitor
from tests.rest.conftest import Client
from tests.test_work import counted_statements

CHANCE = FixedChance()
WRONG = [({"q": 1}, "args.q"), ({"x": "notint"}, "args.x"), ({}, "args.x")]


def typed(ctx: Context, x: int, day: str = "mon") -> None:
    """Do something typed."""


def starts(app: Ostinato, *, described: bool = True) -> None:
    """A worker of the app joins."""
    now = app.now()
    names = app.registry.names()
    app.parts.store.workers.join(
        NewWorker(CHANCE.id(now), app.name, "h", 1, "1", names, (), 1, describe(app.registry) if described else ()),
        now,
        MINUTE,
    )


@pytest.fixture(params=["own", "elsewhere"])
def api(new_app, request) -> Client:
    """A door whose process has the task, and one that knows it from a worker only."""
    app = new_app()
    if request.param == "elsewhere":
        worker = new_app()
        worker.register("typed", typed)
        starts(worker)
    else:
        app.register("typed", typed)
    return Client(app)


@pytest.mark.parametrize(("args", "field"), WRONG)
def test_a_job_with_wrong_args_is_not_made(api, args, field):
    answer = api.told(422, "POST", "/jobs", json={"task": "typed", "args": args})
    assert [error["field"] for error in answer["errors"]] == [field]
    assert answer["detail"].startswith(field)
    assert api.get("/jobs")["total"] == 0


@pytest.mark.parametrize(("args", "field"), WRONG[:2])
def test_nor_edited_to_have_them_nor_run_with_them(api, args, field):
    job = api.make(task="typed", args={"x": 1}, schedule="manual")
    assert api.refused("PATCH", f"/jobs/{job['id']}", {"args": args}).startswith(field)
    assert api.refused("POST", f"/jobs/{job['id']}/run", {"args": args}).startswith(field)
    assert api.get(f"/jobs/{job['id']}")["args"] == {"x": 1}
    api.post(f"/jobs/{job['id']}/run", {"args": {"x": 5, "day": "tue"}}, 202)


def test_templates_and_steps_of_workflows_are_checked_too(api):
    body = {"task": "typed", "args": {"x": "{{ params.x }}"}, "schedule": "manual"}
    api.post("/templates", {"name": "t", "parameters": [{"name": "x", "type": "json"}], "job": body}, 201)
    assert api.refused("POST", "/templates/t/jobs", {"params": {"x": "notint"}}).startswith("args.x")

    def nodes(**args):
        return {"name": "w", "nodes": [{"id": "a", "task": "typed", "args": args}]}

    assert api.refused("POST", "/workflows", nodes(x="notint")).startswith("nodes[0].args.x must be")
    assert api.refused("POST", "/workflows", nodes(q=1)).startswith("nodes[0].args.q does not exist")
    assert api.refused("POST", "/workflows", nodes(day={"$ref": "payload.d"})).startswith("nodes[0].args.x")
    api.post("/workflows", nodes(x={"$ref": "payload.x"}), 201)
    assert api.refused("PUT", "/workflows/w", nodes(x="notint")).startswith("nodes[0].args.x must be")


def test_an_edit_that_leaves_the_args_alone_is_not_judged_by_them(new_app):
    """They may be older than the task."""
    door, worker = new_app(), new_app()
    old = {"task": "typed", "args": {"old": 1}, "schedule": "manual"}
    job = Client(door).post("/jobs?allow_unknown=true", old, 201)
    worker.register("typed", typed)
    starts(worker)
    for app in (new_app(), worker):
        Client(app).told(200, "PATCH", f"/jobs/{job['id']}", json={"priority": 3})
        Client(app).post(f"/jobs/{job['id']}/run", code=202)
        assert Client(app).refused("PATCH", f"/jobs/{job['id']}", {"args": {"old": 2}}).startswith("args.old")


def test_the_task_is_described_wherever_it_is(api):
    told = api.get("/tasks/typed")
    assert (told["help"], told["args"]["required"]) == ("Do something typed.", ["x"])
    assert told in api.get("/tasks")["tasks"]


def test_python_is_a_door_too(new_app):
    app, producer = new_app(), new_app()
    task = app.register("typed", typed)
    starts(app)
    for refused in (lambda: task.enqueue("notint"), lambda: app.call("typed", x="notint")):
        with pytest.raises(Invalid, match=r"args\.x must be a whole number"):
            refused()
    for args in ({"x": "notint"}, {"q": 1}):
        with pytest.raises(Invalid, match=r"args\.[xq]"):
            producer.enqueue([producer.call("typed", **args)])
    assert len(producer.enqueue([producer.call("typed", x=each) for each in (1, 2)])) == 2


def test_a_task_that_no_worker_has_described_is_accepted_and_the_answer_says_so(new_app):
    app, old = new_app(), new_app()
    old.register("typed", typed)
    starts(old, described=False)
    answer = Client(app).ask("POST", "/jobs", json={"task": "typed", "args": {"q": 1}})
    assert answer.status_code == 201
    assert "No worker has described the task 'typed'" in answer.headers["Warning"]
    again = Client(app).ask("PATCH", f"/jobs/{answer.json()['id']}", json={"args": {"q": 2}})
    assert "'typed'" in again.headers["Warning"]
    run = Client(app).ask("POST", f"/jobs/{answer.json()['id']}/run", json={"args": {"q": 3}})
    assert (run.status_code, "'typed'" in run.headers["Warning"]) == (202, True)
    drawn = Client(app).ask("POST", "/workflows", json={"name": "w", "nodes": [{"id": "a", "task": "typed"}]})
    assert "'typed'" in drawn.headers["Warning"]


def test_no_warning_where_the_args_were_checked(api):
    assert "Warning" not in api.ask("POST", "/jobs", json={"task": "typed", "args": {"x": 1}}).headers
    assert (
        "Warning" not in api.ask("POST", "/jobs", json={"task": "http", "args": {"url": "https://x.example"}}).headers
    )


def test_the_worker_that_started_last_describes_the_task(new_app, monkeypatch):
    door, first, second = new_app(), new_app(), new_app()
    first.register("typed", typed)
    starts(first)
    Client(door).make(task="typed", args={"x": 1})
    second.register("typed", lambda *, y: None)
    starts(second)
    now = door.now() + FRESH
    monkeypatch.setattr(door.parts.clock, "now", lambda: now)
    assert Client(door).refused("POST", "/jobs", {"task": "typed", "args": {"x": 1}}).startswith("args.x does not")


def test_a_worker_describes_its_tasks_when_it_starts(new_app):
    app, door = new_app(), new_app()
    handle = app.register("typed", typed).enqueue(1)
    during(app, lambda: asyncio.to_thread(handle.wait, 30))
    assert Client(door).refused("POST", "/jobs", {"task": "typed", "args": {"q": 1}}).startswith("args.q")


def test_enqueueing_a_task_of_this_process_reads_no_description(new_app, monkeypatch):
    app, producer = new_app(), new_app()
    task = app.register("typed", typed)
    starts(app)
    with counted_statements(monkeypatch) as names:
        task.enqueue(1)
        app.enqueue([task.bind(1), task.bind(2)])
        assert "task_schemas" not in names
        for _ in range(5):
            producer.enqueue([producer.call("typed", x=1)])
    assert names.count("task_schemas") <= 3  # once a second


def test_the_form_of_the_dashboard_shows_and_checks_what_a_worker_described(new_app):
    app, worker = new_app(), new_app()
    worker.register("typed", typed)
    starts(worker)
    visitor = Visitor(app)
    assert 'name="arg:x"' in visitor.see("/jobs/new?task=typed")
    wrong = {"task": "typed", "schedule": "manual", "do": "save"}
    assert "must be a whole number" in visitor.send("/jobs/new", 422, on="/jobs/new", **wrong, **{"arg:x": "a"}).text
    worker.register("other", typed)
    starts(worker, described=False)
    sent = visitor.send("/jobs/new", on="/jobs/new", task="other", schedule="manual", do="save")
    assert "No worker has described the task" in visitor.follow(sent)

"""Workflows in Python: built by a function, declared at start, run to their end."""

import asyncio

import pytest

from ostinato import Invalid, RunFailed
from ostinato.core.errors import NotFound
from ostinato.features.workflows.service import WorkflowService
from tests.app.conftest import during
from tests.waiting import PATIENCE


def working(app, body):
    """Return the result of `body`, called on a thread while the app works."""
    return during(app, lambda: asyncio.to_thread(body))


@pytest.fixture
def tasks(app):
    @app.task
    def extract(region: str):
        return {"count": len(region), "rows": [region]}

    @app.task
    async def send_email(to: str, count: int):
        return f"{count} to {to}"

    @app.task
    def fails():
        raise ValueError("no")

    return extract, send_email, fails


def draw_report(app, tasks):
    extract, send_email, _ = tasks

    @app.workflow
    def report(flow):
        """Every night."""
        rows = flow.step(extract, region=flow.payload["region"])
        flow.step(send_email, to="ops@example.org", count=rows.result["count"])

    return report


def test_its_runs_are_those_by_hand_and_its_schedule(app, tasks):
    @app.workflow(every="1h")
    def hourly(flow):
        flow.step(tasks[0], region="eu")

    @app.workflow(every="2h")
    def other(flow):
        flow.step(tasks[0], region="us")

    started = working(app, lambda: hourly.run().id)
    scheduled = app.jobs.get("hourly").id
    assert [job.id for job in app.scheduler.part(WorkflowService).runs("hourly")] == [started, scheduled]
    assert [job.key for job in app.scheduler.part(WorkflowService).runs("other")] == ["other"]


def test_the_workflow_of_the_issue_runs(app, tasks):
    report = draw_report(app, tasks)
    assert report.nodes == [
        {"id": "extract", "task": "extract", "args": {"region": {"$ref": "payload.region"}}},
        {
            "id": "send_email",
            "task": "send_email",
            "args": {"to": "ops@example.org", "count": {"$ref": "extract.result.count"}},
            "after": ["extract"],
        },
    ]
    ended = working(app, lambda: report.run(region="eu").wait(PATIENCE))
    assert (ended.status, ended.result) == ("completed", {"extract": "completed", "send_email": "completed"})
    run = app.scheduler.part(WorkflowService).steps(ended.id)
    assert (run.name, run.version) == ("report", 1)
    assert [(step.id, step.state, step.last.result) for step in run.steps] == [
        ("extract", "completed", {"count": 2, "rows": ["eu"]}),
        ("send_email", "completed", "2 to ops@example.org"),
    ]
    assert [step.last.key.rpartition(f"n{ended.number}-")[2] for step in run.steps] == [
        "extract-rc0",
        "send_email-rc0",
    ]


def test_options_conditions_and_branches(app, tasks):
    extract, send_email, fails = tasks

    @app.workflow
    def report(flow):
        first = flow.using(retries=2, retry_delay="10s", timeout="5m").step(extract, region="eu")
        again = flow.step(extract, region=first.result["rows"][0])
        wanted = (first.result["count"] > 0) & ~(flow.payload["quiet"] == True)  # noqa: E712
        flow.using(id="mail", when=wanted, after=again).step(send_email, to="x", count=1)
        flow.step(fails)

    nodes = {node["id"]: node for node in report.nodes}
    assert nodes["extract"] | {"args": None} == {
        "id": "extract", "task": "extract", "args": None, "retries": 2, "retry_delay": "10s", "timeout": "5m"
    }  # fmt: skip
    assert (nodes["extract_2"]["after"], nodes["mail"]["after"]) == (["extract"], ["extract_2", "extract"])
    assert nodes["mail"]["when"] == "(extract.result.count > 0) and (not (payload.quiet == true))"
    assert "after" not in nodes["fails"]


def test_what_cannot_be_is_refused_when_it_is_declared(app, tasks):
    extract, *_ = tasks
    for draw, sentence in (
        (lambda flow: flow.step(extract, reigon="eu"), "reigon"),
        (lambda flow: None, "needs a list of nodes"),
        (lambda flow: list(flow.payload), "has no value yet"),
        (lambda flow: bool(flow.payload["x"]), "using"),
        (lambda flow: flow.using(retrys=1), "retrys"),
        (lambda flow: flow.payload["a b"], "cannot be used in a reference"),
    ):
        with pytest.raises(Invalid, match=sentence):
            app.workflow(name="broken")(draw)
    with pytest.raises(Invalid, match="needs a schedule"):
        app.workflow(timeout="5m")(lambda flow: flow.step(extract, region="eu"))
    draw_report(app, tasks)
    with pytest.raises(Invalid, match="Two workflows"):
        draw_report(app, tasks)


def test_a_declaration_leaves_what_an_operator_edited_until_it_changes(app, tasks, new_app):
    draw_report(app, tasks)
    app.apply_declarations()
    service = app.scheduler.part(WorkflowService)
    service.put("report", active=False, nodes=[{"id": "x", "task": "fails"}])
    app.apply_declarations()
    assert (service.get("report").version, service.get("report").active) == (2, False)


def test_a_workflow_with_a_schedule_is_also_a_job(app, tasks):
    extract, *_ = tasks

    @app.workflow(every="1h", on="order")
    def hourly(flow):
        flow.step(extract, region="eu")

    app.apply_declarations()
    job = app.jobs.get("hourly")
    assert (job.task, job.args, job.definition.name) == ("workflow", {"workflow": "hourly"}, "hourly")
    assert [node["type"] for node in hourly.nodes[:2]] == ["trigger_event", "trigger_schedule"]


def test_an_event_starts_what_waits_for_it(app, tasks):
    _, send_email, _ = tasks

    @app.workflow(on="order")
    def confirm(flow):
        flow.step(send_email, to=flow.payload["to"], count=flow.payload["n"])

    app.apply_declarations()
    assert app.dispatch_event("refund", {}) == []
    (handle,) = app.dispatch_event("order", {"to": "ann", "n": 7})
    ended = working(app, lambda: handle.wait(PATIENCE))
    assert app.scheduler.part(WorkflowService).steps(ended.id).steps[0].last.result == "7 to ann"


def test_a_failed_step_fails_the_run_and_those_after_it_are_skipped(app, tasks):
    extract, _, fails = tasks

    @app.workflow
    def broken(flow):
        first = flow.step(fails)
        flow.using(after=first).step(extract, region="eu")

    handle = broken.run()
    with pytest.raises(RunFailed, match="The step fails: ValueError: no"):
        working(app, lambda: handle.result("50s"))
    ended = handle.wait()
    states = [(step.id, step.state) for step in app.scheduler.part(WorkflowService).steps(ended.id).steps]
    assert states == [("fails", "failed"), ("extract", "skipped")]
    failed = app.scheduler.part(WorkflowService).steps(ended.id).steps[0].last
    assert app.scheduler.part(WorkflowService).steps(failed.id).run.id == ended.id
    app.jobs.retry(handle.id)
    assert working(app, lambda: handle.wait(PATIENCE)).attempt == 1
    attempts = app.scheduler.part(WorkflowService).steps(handle.wait().id).steps[0].attempts
    assert [each.attempt for each in attempts] == [0, 1]
    assert [each.attempt for each in app.executions.list(handle.id)] == [1, 0]


def test_the_steps_of_what_is_no_workflow_are_refused(app, tasks):
    ended = working(app, lambda: tasks[0].enqueue("eu").wait(PATIENCE))
    with pytest.raises(NotFound, match="no steps"):
        app.scheduler.part(WorkflowService).steps(ended.id)

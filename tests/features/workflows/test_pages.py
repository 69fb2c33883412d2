"""Workflows in the dashboard: graphs, edit as JSON or YAML with the line of an error, and runs."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from html import unescape

import pytest

from ostinato import Ostinato
from ostinato.core.access import Role
from ostinato.core.errors import Invalid
from ostinato.dashboard.forms import fields as structure
from ostinato.features.workflows import pages
from ostinato.features.workflows.service import WorkflowService
from tests.app.conftest import during
from tests.dashboard.conftest import Visitor
from tests.waiting import eventually

NEW = "/workflows/new"
YAML = """\
- {id: by_hand, type: trigger_manual}
- id: extract
  task: note
  after: [by_hand]
- id: send
  task: note
  args:
    count: {$ref: extract.result.count}
  after: [extract]
"""
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture
def visitor(sqlite_url: str) -> Iterator[Visitor]:
    app = Ostinato("shop", database_url=sqlite_url)
    app.open(upgrade=True)

    @app.task
    def note(**args) -> dict:
        return {"count": 1}

    yield Visitor(app)
    app.close()


def make(visitor: Visitor, **fields: str) -> str:
    given = {"name": "report", "nodes": YAML, "active": "true", "do": "save"} | fields
    return visitor.send(NEW, on=NEW, **given).headers["location"]


def refused(visitor: Visitor, **fields: str) -> str:
    given = {"name": "report", "nodes": YAML, "active": "true", "do": "save"} | fields
    return unescape(visitor.send(NEW, 422, on=NEW, **given).text)


def test_without_workflows_the_page_says_how_to_begin(visitor):
    assert "ostinato workflow apply" in visitor.see("/workflows")


@pytest.mark.parametrize("nodes", [YAML, json.dumps([{"id": "a", "task": "note"}]), f"name: x\nnodes:\n{YAML}"])
def test_a_workflow_is_made_from_yaml_or_json_and_drawn(visitor, nodes):
    page = visitor.see(make(visitor, nodes=nodes))
    assert '<svg class="graph"' in page
    assert "note" in page
    assert "No runs yet" in page
    assert "report" in visitor.see("/workflows")


def test_a_mistake_in_the_nodes_is_told_with_its_place_and_its_line(visitor):
    wrong = YAML.replace("after: [extract]", "after: [extrakt]")
    page = refused(visitor, nodes=wrong)
    assert re.search(r'id="w-nodes">nodes\[2\]\.after\[0\]: there is no node .extrakt.', page)
    assert "Line 9" in page
    assert "after: [extrakt]" in page
    assert '<svg class="graph"' in page
    assert visitor.app.scheduler.part(WorkflowService).list() == []


def test_what_cannot_be_read_is_told_with_its_line(visitor):
    assert "line 2, column" in refused(visitor, nodes="- id: a\n - b: [")
    assert "in line 1, column" in refused(visitor, nodes='[{"id": }]')
    assert 'id="w-name">name: a workflow needs a name' in refused(visitor, name=" x ")
    assert "It is required" in refused(visitor, name="")


def test_checking_draws_and_saves_nothing(visitor):
    page = visitor.send(NEW, 200, on=NEW, name="report", nodes=YAML, active="true", do="check").text
    assert '<svg class="graph"' in page
    assert visitor.app.scheduler.part(WorkflowService).list() == []


def test_a_task_that_nobody_knows_may_be_insisted_on(visitor):
    page = refused(visitor, nodes='[{"id": "a", "task": "later"}]')
    assert 'name="allow_unknown"' in page
    assert make(visitor, nodes='[{"id": "a", "task": "later"}]', allow_unknown="1")


def test_an_edit_shows_what_changes_by_node(visitor):
    where = make(visitor)
    texts = {"name": "report", "active": "true", "nodes": YAML.replace("id: send", "id: mail")}
    page = visitor.send(f"{where}/edit", 200, on=NEW, **texts, do="review").text
    assert "<code>nodes.send</code>" in page
    assert "<code>nodes.mail</code>" in page
    reviewed = re.search(r'name="reviewed" value="([^"]*)"', page)[1]
    visitor.send(f"{where}/edit", on=NEW, **texts, reviewed=reviewed, do="save")
    assert visitor.app.scheduler.part(WorkflowService).get("report").version == 2
    untouched = visitor.see(f"{where}/edit")
    nodes = unescape(re.search(r'name="nodes"[^>]*>\n(.*?)</textarea>', untouched, re.DOTALL)[1])
    again = visitor.send(f"{where}/edit", 200, on=NEW, **texts | {"nodes": nodes}, do="review").text
    assert "No changes" in again


def test_a_workflow_is_run_with_a_payload_and_its_runs_are_listed(visitor):
    where = make(visitor)
    page = visitor.send(f"{where}/run", 422, on=where, payload="[1]").text
    assert 'id="w-payload"' in page
    job = visitor.send(f"{where}/run", on=where, payload='{"region": "eu"}').headers["location"]
    view = visitor.app.jobs.get(job.removeprefix("/jobs/"))
    assert view.args["payload"] == {"region": "eu"}
    assert job in visitor.see(where)
    assert job in visitor.see("/workflows")


def test_a_workflow_is_deleted(visitor):
    where = make(visitor)
    assert "is deleted" in visitor.follow(visitor.send(f"{where}/delete", on=where))
    assert visitor.see(where, 404)


def test_whatever_a_workflow_says_is_text(visitor):
    nodes = [
        {"id": "a", "task": HOSTILE, "args": {HOSTILE: HOSTILE}},
        {"id": "b", "type": "trigger_event", "event": HOSTILE},
    ]
    where = make(visitor, name=HOSTILE, description=HOSTILE, nodes=json.dumps(nodes), allow_unknown="1")
    for path in (where, f"{where}/edit", "/workflows"):
        assert "<img" not in visitor.see(path)


def test_a_viewer_sees_workflows_without_buttons(stranger):
    stranger.app.scheduler.part(WorkflowService).create("w", [{"id": "a", "task": "x"}], allow_unknown=True)
    stranger.log_in(Role.VIEWER)
    page = stranger.see("/workflows/1")
    assert "Run now" not in page
    assert "Edit" not in page
    assert stranger.see(NEW, 403)


def test_the_steps_of_a_run_are_drawn_with_their_states(visitor):
    where = make(visitor)
    job = visitor.send(f"{where}/run", on=where, payload="{}").headers["location"].removeprefix("/jobs/")

    async def until_done() -> None:
        ended = lambda: visitor.app.jobs.get(job).status.value == "completed"  # noqa: E731
        await asyncio.to_thread(eventually, ended)

    during(visitor.app, until_done)
    (run,) = visitor.app.executions.list(job)
    page = visitor.see(f"/executions/{run.id}")
    assert page.count('<g class="node is-completed">') == 2
    step = visitor.app.scheduler.part(WorkflowService).steps(run.id).steps[0].last
    assert f'href="/executions/{step.id}"' in page


# -- drawing and reading


def test_nodes_stand_right_of_all_they_come_after():
    nodes = [
        pages.Node("c", "", ("a", "b")),
        pages.Node("a", ""),
        pages.Node("b", "", ("a",)),
        pages.Node("d", "", ("x", "d")),
    ]
    placed = pages.place(nodes)
    assert placed["a"].x < placed["b"].x < placed["c"].x
    assert placed["d"].x == placed["a"].x
    assert len({(each.x, each.y) for each in placed.values()}) == 4


def test_circles_are_drawn_too():
    assert len(pages.place([pages.Node("a", "", ("b",)), pages.Node("b", "", ("a",))])) == 2
    assert pages.drawing_of([]) == ""


@pytest.mark.parametrize("text", ["a: &x [1]\nb: *x", "[" * 200, "- " * 200 + "a", "a: .nan", "\tx", "{'a"])
def test_what_is_not_plain_is_refused(text):
    with pytest.raises(Invalid):
        structure.read(text)

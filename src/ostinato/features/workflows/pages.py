"""Workflows: the list, one with its drawing and runs, and a form for its nodes."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from markupsafe import Markup
from pydantic import ValidationError
from starlette.responses import Response

from ostinato.core.access import Role
from ostinato.core.errors import Invalid, OstinatoError
from ostinato.dashboard.executions import Section
from ostinato.dashboard.formatting import SHAPES
from ostinato.dashboard.forms import fields as diff
from ostinato.dashboard.forms import fields as structure
from ostinato.dashboard.forms.fields import (
    AREA,
    OBJECT,
    SWITCH,
    TEXT,
    Field,
    Form,
    WidgetKind,
    table,
    typed,
    value_of,
)
from ostinato.dashboard.forms.job import NO_YES
from ostinato.dashboard.page_request import PageRequest, get, post, with_error
from ostinato.features.workflows.rules import WORKFLOW_TASK
from ostinato.features.workflows.service import RunView, WorkflowService, WorkflowView, tag_of
from ostinato.features.workflows.shapes import WorkflowBody, WorkflowEdit, WorkflowRunBody
from ostinato.service import JobFilter, JobView
from ostinato.service.dashboard import Attempt
from ostinato.shapes.base import WrongField

# -- Drawings of workflows in SVG without inline styles: each node is in a column right of its predecessors

WIDE, HIGH = 168, 46  # of a node
ACROSS, BETWEEN = 56, 16  # between columns, between nodes of one
EDGE: Final = 8
MOST_LETTERS: Final = 19
KNOWN: Final = {"ready": "queued", "waiting": "pending", "succeeded": "completed"}


@dataclass(frozen=True, slots=True)
class Node:
    """A node to draw: `under` is the second line, `state` one of formatting.SHAPES, `href` its link."""

    id: str
    under: str
    after: Sequence[str] = ()
    is_trigger: bool = False
    state: str = ""
    href: str = ""


@dataclass(frozen=True, slots=True)
class _Placed:
    """A node and its upper left corner."""

    node: Node
    x: int
    y: int


def nodes_of(written: Sequence[Mapping[str, Any]]) -> list[Node]:
    """Read the nodes of a workflow definition, valid or not."""
    return [
        Node(
            str(node.get("id", "?")),
            str(node.get("task") or node.get("event") or node.get("type", "?")).removeprefix("trigger_"),
            _after(node.get("after")),
            "task" not in node,
        )
        for node in written
    ]


def _after(given: object) -> tuple[str, ...]:
    if isinstance(given, str):
        return (given,)
    return tuple(map(str, given)) if isinstance(given, list) else ()


def drawing_of(nodes: Sequence[Node], label: str = "The steps of this workflow") -> Markup:
    """Draw the nodes, as wide as necessary."""
    placed = place(nodes)
    if not placed:
        return Markup("")
    wide = max(each.x for each in placed.values()) + WIDE + EDGE
    high = max(each.y for each in placed.values()) + HIGH + EDGE
    head = Markup('<svg class="graph" width="{0}" height="{1}" viewBox="0 0 {0} {1}" role="{2}" aria-label="{3}">')
    role = "group" if any(node.href for node in nodes) else "img"  # an element with the role img cannot contain links
    parts = [*_lines(placed), *map(_box, placed.values())]
    return head.format(wide, high, role, label) + Markup("").join(parts) + Markup("</svg>")


def place(nodes: Sequence[Node]) -> dict[str, _Placed]:
    """Place the nodes. A node after itself, or after an unknown one, is drawn too."""
    known = {node.id: node for node in nodes}
    columns: dict[int, list[Node]] = {}
    depth = _depths(known)
    for node in known.values():
        columns.setdefault(depth[node.id], []).append(node)
    rows: dict[str, float] = {}
    placed: dict[str, _Placed] = {}
    highest = max(map(len, columns.values()), default=0)
    for column in sorted(columns):
        inside = sorted(columns[column], key=lambda node: _middle(node, rows))
        top = (highest - len(inside)) * (HIGH + BETWEEN) // 2
        for row, node in enumerate(inside):
            y = EDGE + top + row * (HIGH + BETWEEN)
            rows[node.id] = y
            placed[node.id] = _Placed(node, EDGE + column * (WIDE + ACROSS), y)
    return placed


def _depths(known: Mapping[str, Node]) -> dict[str, int]:
    """Return the longest path to each node; the number of rounds is limited, because of cycles."""
    depth = dict.fromkeys(known, 0)
    for _ in known:
        deeper = {
            name: max((depth[each] + 1 for each in node.after if each in known and each != name), default=0)
            for name, node in known.items()
        }
        if deeper == depth:
            break
        depth = deeper
    return {name: min(each, len(known)) for name, each in depth.items()}


def _middle(node: Node, rows: Mapping[str, float]) -> float:
    """Return the mean height of a node's predecessors, so that few lines cross."""
    found = [rows[each] for each in node.after if each in rows]
    return sum(found) / len(found) if found else 0.0


def _lines(placed: Mapping[str, _Placed]) -> Iterator[Markup]:
    for to in placed.values():
        for name in to.node.after:
            if (begin := placed.get(name)) is not None and begin.x < to.x:
                x, y, x2, y2 = begin.x + WIDE, begin.y + HIGH // 2, to.x, to.y + HIGH // 2
                bend = max((x2 - x) // 2, 20)
                path = f"M{x} {y}C{x + bend} {y} {x2 - bend} {y2} {x2 - 6} {y2}"
                kind = to.node.state or "idle"
                yield Markup('<path class="line is-{}" d="{}"/><path class="tip" d="{}"/>').format(
                    KNOWN.get(kind, kind), path, f"M{x2 - 7} {y2 - 4}L{x2} {y2}L{x2 - 7} {y2 + 4}z"
                )


def _box(placed: _Placed) -> Markup:
    node, x, y = placed.node, placed.x, placed.y
    state = KNOWN.get(node.state, node.state)
    title = f"{node.id}: {node.under}" + (f" ({node.state.replace('_', ' ')})" if node.state else "")
    inside = Markup(
        '<title>{}</title><rect class="box" x="{}" y="{}" width="{}" height="{}" rx="{}"/>'
        '<text class="id" x="{}" y="{}">{}</text><text class="under" x="{}" y="{}">{}</text>'
    ).format(
        title, x, y, WIDE, HIGH, HIGH // 2 if node.is_trigger else 7,
        x + 14, y + 20, _cut(node.id), x + 14, y + 36, _cut(node.under),
    )  # fmt: skip
    if state in SHAPES:
        inside += Markup(
            '<svg class="mark is-{}" x="{}" y="{}" width="14" height="14" viewBox="0 0 16 16">{}</svg>'
        ).format(state, x + WIDE - 24, y + 9, Markup(SHAPES[state]))
    kind = "node trigger" if node.is_trigger else "node"
    group = Markup('<g class="{} is-{}">{}</g>').format(kind, state or "idle", inside)
    return Markup('<a href="{}">{}</a>').format(node.href, group) if node.href else group


def _cut(text: str) -> str:
    return text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 1] + "…"


# -- Workflows: the list, one with its graph and runs, and a form for its nodes

ROWS_OF_A_PAGE: Final = 50
RUNS: Final = 25
FIRST: Final = ("id", "task", "type")  # keys that a node begins with, to be easy to read
EXAMPLE: Final = """\
- id: nightly
  type: trigger_schedule
- id: by_hand
  type: trigger_manual
- id: extract
  task: extract
  args: {region: {$ref: payload.region}}
  after: [nightly, by_hand]
  retries: 2
- id: send
  task: send_email
  args: {count: {$ref: extract.result.count}}
  after: [extract]
  when: extract.result.count > 0
"""
NODES: Final = WidgetKind("json", structure.read)
FIELDS: Final = table(
    Field("name", "Name", TEXT, "Unique among all workflows.", needed=True),
    Field("active", "Active", SWITCH, "Whether triggers may start it.", "true", NO_YES[::-1]),
    Field("description", "Description", AREA),
    Field("nodes", "Nodes", NODES, "Triggers and tasks, as JSON or YAML.", EXAMPLE, needed=True),
)
RUN_FIELDS: Final = table(
    Field("payload", "Payload", OBJECT, "The data of the trigger; steps can refer to it.", '{"region": "eu"}'),
    Field("trigger", "Trigger", TEXT, "The trigger node that starts the run."),
)


# -- lists


def list_workflows(visit: PageRequest) -> Response:
    after = visit.query.get("after", "0")
    views = visit.part(WorkflowService).list(ROWS_OF_A_PAGE, int(after) if after.isdecimal() and len(after) < 19 else 0)
    return visit.page("workflows.html", rows=[(view, _newest(visit, view)) for view in views], page=ROWS_OF_A_PAGE)


def _newest(visit: PageRequest, view: WorkflowView) -> JobView | None:
    found = visit.service.jobs.search(JobFilter(tag=tag_of(view.id)), limit=1)
    return next(iter(found.items), None)


def show(visit: PageRequest) -> Response:
    return _shown(visit, visit.part(WorkflowService).get(visit.path_param("id")), Form(RUN_FIELDS, {}))


def _shown(visit: PageRequest, view: WorkflowView, form: Form) -> Response:
    runs = visit.part(WorkflowService).runs(view.id, RUNS)
    triggers = [str(node["id"]) for node in view.nodes if "task" not in node]
    return visit.page(
        "workflow.html",
        view=view,
        drawing=drawing_of(nodes_of(view.nodes), f"The steps of {view.name}"),
        runs=runs,
        total=visit.service.jobs.search(JobFilter(tag=tag_of(view.id)), limit=1).total,
        last=visit.service.jobs.last_runs(runs) if runs else {},
        tag=tag_of(view.id),
        form=form,
        triggers=triggers,
    )


# -- starting and deleting


def run(visit: PageRequest) -> Response:
    """Start a workflow now, or show the errors of its payload."""
    view = visit.part(WorkflowService).get(visit.path_param("id"))
    form = Form(RUN_FIELDS, typed(visit.form, RUN_FIELDS))
    try:
        values = {name: value_of(one, form.text(name)) for name, one in RUN_FIELDS.items() if form.text(name).strip()}
        body = WorkflowRunBody.model_validate(values)
        job = visit.part(WorkflowService).run(view.id, body.payload, trigger=body.trigger, by=visit.by)
    except (OstinatoError, ValidationError) as error:
        visit, form = with_error(visit, "run", form, error)
        return _shown(visit, view, form)
    return visit.redirect(f"/jobs/{job.id}", f"The run of {view.name} is this job.")


def delete(visit: PageRequest) -> Response:
    view = visit.part(WorkflowService).get(visit.path_param("id"))
    visit.part(WorkflowService).delete(view.id, by=visit.by)
    return visit.redirect("/workflows", f"The workflow {view.name} is deleted. Runs in progress continue.")


# -- the form


def new(visit: PageRequest) -> Response:
    return _form(visit, {"active": "true"})


def make(visit: PageRequest) -> Response:
    texts = typed(visit.form, visit.form)
    if visit.form.get("do") != "save":
        return _form(visit, texts, _checked(visit, texts))
    try:
        body = WorkflowBody.model_validate(_values(texts))
        view = visit.part(WorkflowService).create(
            body.name, body.nodes, description=body.description, active=body.active, by=visit.by,
            allow_unknown=_allowed(visit),
        )  # fmt: skip
    except (OstinatoError, ValidationError) as error:
        return _form(visit, texts, error)
    return visit.redirect(f"/workflows/{view.id}", "The workflow is created.", tasks=view.tasks)


def edit(visit: PageRequest) -> Response:
    view = visit.part(WorkflowService).get(visit.path_param("id"))
    return _form(visit, _texts_of(view), view=view)


def change(visit: PageRequest) -> Response:
    """Show the changes of an edit; save them if the visitor has reviewed exactly these."""
    view, texts = visit.part(WorkflowService).get(visit.path_param("id")), typed(visit.form, visit.form)
    if visit.form.get("do") not in ("review", "save"):
        return _form(visit, texts, _checked(visit, texts), view=view)
    lines: list[diff.DiffLine] | None = None
    try:
        values = {"description": "", **_values(texts)}
        body = WorkflowEdit.model_validate(values)
        visit.part(WorkflowService).check(body.name or view.name, body.nodes, allow_unknown=_allowed(visit))
        lines = diff.changes(_flat(_fields_of(view)), _flat(_fields_of(view) | body.said()))
        if not lines or texts.get("reviewed") != diff.digest(lines):
            return _form(visit, texts, view=view, lines=lines)
        view = visit.part(WorkflowService).put(view.id, **body.said(), by=visit.by, allow_unknown=_allowed(visit))
    except (OstinatoError, ValidationError) as error:
        return _form(visit, texts, error, view=view, lines=lines)
    return visit.redirect(f"/workflows/{view.id}", "The workflow is saved.", tasks=view.tasks)


def _form(
    visit: PageRequest,
    texts: dict[str, str],
    error: OstinatoError | ValidationError | None = None,
    *,
    view: WorkflowView | None = None,
    lines: list[diff.DiffLine] | None = None,
) -> Response:
    form = Form(FIELDS, texts)
    if error is not None:
        visit, form = with_error(visit, "workflow", form, _in_its_field(error))
    line = structure.line_of(form.text("nodes"), form.errors.get("nodes", ""), "nodes")
    return visit.page(
        "workflow_form.html",
        form=form,
        view=view,
        lines=lines,
        digest=diff.digest(lines or []),
        drawing=_drawn(texts),
        example=EXAMPLE,
        line=line,
        line_text="" if line is None else form.text("nodes").split("\n")[line - 1],
    )


def _in_its_field(error: OstinatoError | ValidationError) -> OstinatoError | ValidationError:
    """Attach an error about nodes to the field nodes, and "name: …" to the field name."""
    name = str(error).partition(":")[0]
    if isinstance(error, Invalid) and not isinstance(error, WrongField | ValidationError):
        field = "nodes" if name.startswith("nodes") else name
        return WrongField(field, str(error)) if field in FIELDS else error
    return error


def _checked(visit: PageRequest, texts: Mapping[str, str]) -> OstinatoError | ValidationError | None:
    """Return the error that saving would raise."""
    try:
        body = WorkflowBody.model_validate(_values(texts))
        visit.part(WorkflowService).check(body.name, body.nodes, body.description, allow_unknown=_allowed(visit))
    except (OstinatoError, ValidationError) as error:
        return error
    return None


def _values(texts: Mapping[str, str]) -> dict[str, Any]:
    values = {name: value_of(one, texts[name]) for name, one in FIELDS.items() if texts.get(name, "").strip()}
    if isinstance(nodes := values.get("nodes"), dict) and "nodes" in nodes:
        values["nodes"] = nodes["nodes"]  # a whole workflow was pasted
    return values


def _allowed(visit: PageRequest) -> bool:
    return bool(visit.form.get("allow_unknown"))


def _texts_of(view: WorkflowView) -> dict[str, str]:
    return {
        "name": view.name,
        "description": view.description,
        "active": "true" if view.active else "false",
        "nodes": _written(view),
    }


def _written(view: WorkflowView) -> str:
    """Write the nodes as JSON, each in its own line."""
    ordered = [sorted(node.items(), key=lambda each: (each[0] not in FIRST, each[0])) for node in view.nodes]
    lines = [json.dumps(dict(node), ensure_ascii=False) for node in ordered]
    return "[\n  " + ",\n  ".join(lines) + "\n]"


def _fields_of(view: WorkflowView) -> dict[str, Any]:
    return {
        "name": view.name,
        "description": view.description,
        "active": view.active,
        "nodes": [dict(node) for node in view.nodes],
    }


def _flat(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Key the nodes by their ids, so that a moved node is not a change."""
    return {**fields, "nodes": {str(node["id"]): node for node in fields["nodes"]}}


def _drawn(texts: Mapping[str, str]) -> Any:
    try:
        nodes = _values(texts).get("nodes", [])
    except Invalid:
        return ""
    if not isinstance(nodes, list):
        return ""
    return drawing_of(nodes_of([node for node in nodes if isinstance(node, dict)]))


# -- the part of an execution's page


def steps(visit: PageRequest, found: Attempt) -> Section | None:
    """Show the steps of the run that an execution is, or belongs to as a step."""
    if found.row.task != WORKFLOW_TASK and not found.row.step:
        return None
    try:
        run = visit.part(WorkflowService).steps(found.view.id)
    except OstinatoError:  # the run or the workflow is no longer stored
        return None
    drawn = drawing_of(_nodes(run, visit.root), f"The steps of {run.name}")
    return Section("steps.html", {"run": run, "step": found.row.step, "drawing": drawn})


def _nodes(run: RunView, root: str) -> list[Node]:
    return [
        Node(
            step.id,
            step.task,
            step.after,
            state=step.state,
            href=f"{root}/executions/{step.last.id}" if step.last else "",
        )
        for step in run.steps
    ]


SECTIONS: Final = (steps,)


ROUTES: Final = (
    get("/workflows", list_workflows),
    get("/workflows/new", new, Role.ADMIN),
    post("/workflows/new", make, Role.ADMIN),
    get("/workflows/{id}", show),
    post("/workflows/{id}/run", run, Role.OPERATOR),
    post("/workflows/{id}/delete", delete, Role.ADMIN),
    get("/workflows/{id}/edit", edit, Role.ADMIN),
    post("/workflows/{id}/edit", change, Role.ADMIN),
)

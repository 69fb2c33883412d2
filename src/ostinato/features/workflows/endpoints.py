"""Endpoints of workflows: create, list, get, change, delete, run; and of events that start them."""

from typing import Annotated, Any, Final

from pydantic import Field

from ostinato.core.access import Role
from ostinato.core.arguments import text
from ostinato.endpoints.executions import ExecutionId, id_of
from ostinato.endpoints.table import Ask, InPath, Table
from ostinato.features.workflows.service import WorkflowService
from ostinato.features.workflows.shapes import (
    RunAnswer,
    Started,
    TriggeredAnswer,
    WorkflowAnswer,
    WorkflowBody,
    WorkflowEdit,
    WorkflowGone,
    WorkflowList,
    WorkflowQuery,
    WorkflowRunBody,
)
from ostinato.shapes.queries import MakeQuery

TABLE: Final = Table("workflows")

Ref = Annotated[str, InPath("id", "The id of a workflow, or its name.")]
Kind = Annotated[str, InPath("kind", "The kind of event, such as order.", text(100))]
Payload = Annotated[dict[str, Any], Field(description="The payload for the steps.")]


@TABLE.post("/workflows", Role.ADMIN, status=201)
def create_workflow(ask: Ask, body: WorkflowBody, asked: MakeQuery) -> WorkflowAnswer:
    """Create a workflow. An error in its nodes names the place."""
    view = ask.part(WorkflowService).create(
        body.name,
        body.nodes,
        description=body.description,
        active=body.active,
        by=ask.by.name,
        allow_unknown=asked.allow_unknown,
    )
    ask.headers["Location"] = f"/api/v1/workflows/{view.id}"
    ask.warn((), view.tasks)
    return WorkflowAnswer.of(view)


@TABLE.get("/workflows", Role.VIEWER)
def list_workflows(ask: Ask, asked: WorkflowQuery) -> WorkflowList:
    """List workflows in the order of their creation."""
    found = ask.part(WorkflowService).list(asked.limit, asked.after)
    return WorkflowList(workflows=[WorkflowAnswer.of(view) for view in found])


@TABLE.get("/workflows/{id}", Role.VIEWER)
def get_workflow(ask: Ask, ref: Ref) -> WorkflowAnswer:
    """Get a workflow by its id or its name."""
    return WorkflowAnswer.of(ask.part(WorkflowService).get(ref))


@TABLE.put("/workflows/{id}", Role.ADMIN)
def put_workflow(ask: Ask, ref: Ref, body: WorkflowEdit, asked: MakeQuery) -> WorkflowAnswer:
    """Change the fields that the body contains. New nodes make a new version; runs in progress keep theirs."""
    view = ask.part(WorkflowService).put(ref, **body.said(), by=ask.by.name, allow_unknown=asked.allow_unknown)
    ask.warn((), view.tasks)
    return WorkflowAnswer.of(view)


@TABLE.delete("/workflows/{id}", Role.ADMIN)
def delete_workflow(ask: Ask, ref: Ref) -> WorkflowGone:
    """Delete a workflow. Runs in progress continue."""
    ask.part(WorkflowService).delete(ref, by=ask.by.name)
    return WorkflowGone(message=f"Workflow {ref} is deleted.")


@TABLE.post("/workflows/{id}/run", Role.OPERATOR, status=202)
def run_workflow(ask: Ask, ref: Ref, body: WorkflowRunBody | None = None) -> Started:
    """Start a workflow now, as a separate job that runs once."""
    payload, trigger = (None, None) if body is None else (body.payload, body.trigger)
    return Started.of(ask.part(WorkflowService).run(ref, payload, trigger=trigger, by=ask.by.name))


@TABLE.post("/triggers/{kind}", Role.OPERATOR, status=202)
def dispatch_event(ask: Ask, kind: Kind, body: Payload | None = None) -> TriggeredAnswer:
    """Start every trigger node for this kind of event, in all active workflows."""
    started = ask.part(WorkflowService).dispatch_event(kind, body, by=ask.by.name)
    return TriggeredAnswer(kind=kind, started=[Started.of(view) for view in started])


@TABLE.get("/executions/{id}/steps", Role.VIEWER)
def list_steps(ask: Ask, execution: ExecutionId) -> RunAnswer:
    """Get a workflow run with its steps, by the id of the run or of a step."""
    return RunAnswer.of(ask.part(WorkflowService).steps(id_of(execution)))

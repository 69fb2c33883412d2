"""Endpoints of workflows: create, list, get, change, delete, run; and of events that start them."""

from typing import Annotated, Any

from fastapi import Body, Path, Query, Response

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
    WorkflowRunBody,
)
from ostinato.rest.caller import Admin, Operator, Viewer
from ostinato.rest.dependencies import ServiceDep, part, warn
from ostinato.rest.executions import ExecutionId, id_of
from ostinato.rest.routers import api_router
from ostinato.shapes.queries import MakeQuery

router = api_router("workflows")
Workflows = Annotated[WorkflowService, part(WorkflowService)]

Ref = Annotated[str, Path(alias="id", description="The id of a workflow, or its name.", max_length=200)]
Kind = Annotated[str, Path(description="The kind of event, such as order.", max_length=100)]


@router.post("/workflows", status_code=201)
def create_workflow(
    body: WorkflowBody,
    asked: Annotated[MakeQuery, Query()],
    workflows: Workflows,
    service: ServiceDep,
    by: Admin,
    response: Response,
) -> WorkflowAnswer:
    """Create a workflow. An error in its nodes names the place."""
    view = workflows.create(
        body.name,
        body.nodes,
        description=body.description,
        active=body.active,
        by=by.name,
        allow_unknown=asked.allow_unknown,
    )
    response.headers["Location"] = f"/api/v1/workflows/{view.id}"
    warn(response, service, (), view.tasks)
    return WorkflowAnswer.of(view)


@router.get("/workflows")
def list_workflows(
    workflows: Workflows,
    by: Viewer,
    limit: Annotated[int, Query(ge=1, le=250)] = 50,
    after: Annotated[int, Query(ge=0, le=2**63 - 1, description="The last id of the page before.")] = 0,
) -> WorkflowList:
    """List workflows in the order of their creation."""
    return WorkflowList(workflows=[WorkflowAnswer.of(view) for view in workflows.list(limit, after)])


@router.get("/workflows/{id}")
def get_workflow(ref: Ref, workflows: Workflows, by: Viewer) -> WorkflowAnswer:
    """Get a workflow by its id or its name."""
    return WorkflowAnswer.of(workflows.get(ref))


@router.put("/workflows/{id}")
def put_workflow(
    ref: Ref,
    body: WorkflowEdit,
    asked: Annotated[MakeQuery, Query()],
    workflows: Workflows,
    service: ServiceDep,
    by: Admin,
    response: Response,
) -> WorkflowAnswer:
    """Change the fields that the body contains. New nodes make a new version; runs in progress keep theirs."""
    view = workflows.put(ref, **body.said(), by=by.name, allow_unknown=asked.allow_unknown)
    warn(response, service, (), view.tasks)
    return WorkflowAnswer.of(view)


@router.delete("/workflows/{id}")
def delete_workflow(ref: Ref, workflows: Workflows, by: Admin) -> WorkflowGone:
    """Delete a workflow. Runs in progress continue."""
    workflows.delete(ref, by=by.name)
    return WorkflowGone(message=f"Workflow {ref} is deleted.")


@router.post("/workflows/{id}/run", status_code=202)
def run_workflow(ref: Ref, workflows: Workflows, by: Operator, body: WorkflowRunBody | None = None) -> Started:
    """Start a workflow now, as a separate job that runs once."""
    payload, trigger = (None, None) if body is None else (body.payload, body.trigger)
    return Started.of(workflows.run(ref, payload, trigger=trigger, by=by.name))


@router.post("/triggers/{kind}", status_code=202)
def dispatch_event(
    kind: Kind,
    workflows: Workflows,
    by: Operator,
    data: Annotated[dict[str, Any] | None, Body(description="The payload for the steps.")] = None,
) -> TriggeredAnswer:
    """Start every trigger node for this kind of event, in all active workflows."""
    started = workflows.dispatch_event(kind, data, by=by.name)
    return TriggeredAnswer(kind=kind, started=[Started.of(view) for view in started])


@router.get("/executions/{id}/steps")
def list_steps(execution: ExecutionId, workflows: Workflows, by: Viewer) -> RunAnswer:
    """Get a workflow run with its steps, by the id of the run or of a step."""
    return RunAnswer.of(workflows.steps(id_of(execution)))

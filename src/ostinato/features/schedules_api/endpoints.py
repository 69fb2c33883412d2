"""Endpoints of schedules (seed 001): repeating jobs that run workflows. Paths work with and without the last slash."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any, TypeVar

from fastapi import Path, Query, Response

from ostinato.core.errors import Conflict, NotFound
from ostinato.core.model import Definition
from ostinato.features.schedules_api.service import ScheduleService
from ostinato.features.schedules_api.shapes import (
    BatchBody,
    ScheduleAnswer,
    ScheduleBody,
    ScheduleEdit,
    ScheduleList,
    ScheduleQuery,
    edited,
)
from ostinato.features.workflows.rules import WORKFLOW_TASK
from ostinato.features.workflows.rules.origin import Origin
from ostinato.features.workflows.service import WorkflowService, tag_of
from ostinato.rest.caller import Admin, Operator, Viewer
from ostinato.rest.dependencies import ServiceDep, part
from ostinato.rest.routers import api_router
from ostinato.service import JobView, Service
from ostinato.shapes.base import WrongState
from ostinato.shapes.errors import ErrorAnswer

router = api_router("schedules")
Schedules = Annotated[ScheduleService, part(ScheduleService)]

F = TypeVar("F", bound=Callable[..., Any])
Ref = Annotated[str, Path(alias="id", description="The id of a schedule: that of its job.", max_length=200)]


def at(method: str, path: str, **options: Any) -> Callable[[F], F]:
    """Add an endpoint with and without a slash at the end; the seed writes it with a slash."""

    def add(endpoint: F) -> F:
        router.add_api_route(f"{path}/", endpoint, methods=[method], **options)
        router.add_api_route(path, endpoint, methods=[method], include_in_schema=False, **options)
        return endpoint

    return add


REFUSED: Any = {400: {"model": ErrorAnswer, "description": "The state of the schedule does not allow it"}}


@at("GET", "/schedules", response_model=ScheduleList)
def list_schedules(
    asked: Annotated[ScheduleQuery, Query()], schedules: Schedules, service: ServiceDep, by: Viewer
) -> ScheduleList:
    """List schedules, the newest first: all repeating jobs, from any API."""
    tag = None if asked.workflow_id is None else tag_of(service.part(WorkflowService).get(asked.workflow_id).id)
    page = schedules.page(asked.status, tag, asked.limit, asked.offset)
    return ScheduleList(items=[ScheduleAnswer.of(view) for view in page.items], total=page.total)


@at("POST", "/schedules", status_code=201, response_model=ScheduleAnswer)
def create_schedule(
    body: ScheduleBody, schedules: Schedules, service: ServiceDep, by: Admin, response: Response
) -> ScheduleAnswer:
    """Create a schedule; its first run is one interval from now."""
    definition = service.part(WorkflowService).definition(
        body.workflow_id,
        body.schedule,
        payload=body.trigger_payload,
        trigger=body.trigger_node_id,
        policies=body.policies,
        name=body.name,
        owner=by.name,
    )
    wanted = replace(definition, description=body.description)
    view, _ = service.jobs.make(wanted, by=by.name, allow_unknown=True)
    response.headers["Location"] = f"/api/v1/schedules/{view.id}/"
    return _answer(schedules, view)


@at("POST", "/schedules/batch-delete", status_code=204)
def delete_schedules(body: BatchBody, schedules: Schedules, service: ServiceDep, by: Admin) -> None:
    """Delete many schedules. A schedule that does not exist is no error."""
    for schedule_id in body.schedule_ids:
        with suppress(NotFound):
            service.jobs.delete(schedules.get(schedule_id).job.id, by=by.name)


@at("GET", "/schedules/{id}", response_model=ScheduleAnswer)
def get_schedule(ref: Ref, schedules: Schedules, by: Viewer) -> ScheduleAnswer:
    """Get a schedule."""
    return ScheduleAnswer.of(schedules.get(ref))


@at("PATCH", "/schedules/{id}", response_model=ScheduleAnswer)
def edit_schedule(ref: Ref, body: ScheduleEdit, schedules: Schedules, service: ServiceDep, by: Admin) -> ScheduleAnswer:
    """Change the fields that the body contains. A run in progress does not change; a new interval starts now."""
    view, said = schedules.get(ref).job, body.given()

    def change(definition: Definition) -> Definition:
        return edited(_with_workflow(service, definition, said), said)

    if change(view.definition) != view.definition:
        view = service.jobs.edit(view.id, change, by=by.name, allow_unknown=True)
    return _answer(schedules, view)


@at("DELETE", "/schedules/{id}", status_code=204)
def delete_schedule(ref: Ref, schedules: Schedules, service: ServiceDep, by: Admin) -> None:
    """Delete a schedule. A run in progress is asked to stop."""
    service.jobs.delete(schedules.get(ref).job.id, by=by.name)


@at("POST", "/schedules/{id}/pause", response_model=ScheduleAnswer, responses=REFUSED)
def pause_schedule(ref: Ref, schedules: Schedules, service: ServiceDep, by: Operator) -> ScheduleAnswer:
    """Pause an active schedule: no run starts; a run in progress may finish."""
    return _steered(schedules, ref, service.jobs.pause, "paused", by.name)


@at("POST", "/schedules/{id}/resume", response_model=ScheduleAnswer, responses=REFUSED)
def resume_schedule(ref: Ref, schedules: Schedules, service: ServiceDep, by: Operator) -> ScheduleAnswer:
    """Resume a paused schedule; its next run is one interval from now."""
    return _steered(schedules, ref, service.jobs.resume, "resumed", by.name)


@at("POST", "/schedules/{id}/restart", response_model=ScheduleAnswer, responses=REFUSED)
def restart_schedule(ref: Ref, schedules: Schedules, service: ServiceDep, by: Operator) -> ScheduleAnswer:
    """Restart a schedule that is done or dead, with its counters at 0."""
    return _steered(schedules, ref, service.jobs.restart, "restarted", by.name)


def _steered(
    schedules: ScheduleService, ref: str, command: Callable[..., JobView], done: str, by: str
) -> ScheduleAnswer:
    before = schedules.get(ref)
    try:
        return _answer(schedules, command(before.job.id, by=by))
    except Conflict:
        word = schedules.get(ref).word
        raise WrongState(f"This schedule is {word}: it cannot be {done}. {ALLOWED[done]}") from None


ALLOWED = {
    "paused": "Only an active one can be.",
    "resumed": "Only a paused one can be.",
    "restarted": "Only one that is done, or dead of its failures, can be.",
}


def _answer(schedules: ScheduleService, view: JobView) -> ScheduleAnswer:
    return ScheduleAnswer.of(schedules.of([view])[0])


def _with_workflow(service: Service, definition: Definition, said: Mapping[str, Any]) -> Definition:
    """Replace the workflow, trigger node or payload if given; they are checked again, as at the creation."""
    if definition.task != WORKFLOW_TASK:
        for name in said.keys() & {"workflow_id", "trigger_node_id"}:
            raise Conflict(f"{name}: this schedule runs the task {definition.task!r}, no workflow.")
        return definition
    if not said.keys() & {"workflow_id", "trigger_node_id", "trigger_payload"}:
        return definition
    before = Origin.read(definition.args)
    wanted = service.part(WorkflowService).definition(
        said.get("workflow_id", before.workflow),
        definition.schedule,
        payload=said.get("trigger_payload", before.payload),
        trigger=said.get("trigger_node_id", before.trigger),
    )
    others = tuple(tag for tag in definition.tags if not tag.startswith("workflow:"))
    return replace(definition, args=wanted.args, tags=(*wanted.tags, *others))

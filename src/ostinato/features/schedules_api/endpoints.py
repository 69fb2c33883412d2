"""Endpoints of schedules (seed 001): repeating jobs that run workflows. Paths work with and without the last slash."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any, Final, TypeVar

from ostinato.core.access import Role
from ostinato.core.errors import Conflict, NotFound, WrongState
from ostinato.core.model import Definition
from ostinato.endpoints.table import Ask, InPath, Table
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
from ostinato.features.workflows.rules.state import Origin
from ostinato.features.workflows.service import WorkflowService, tag_of
from ostinato.service import JobView

TABLE: Final = Table("schedules")

F = TypeVar("F", bound=Callable[..., Any])
Ref = Annotated[str, InPath("id", "The id of a schedule: that of its job.")]

REFUSED: Final = {400: "The state of the schedule does not allow it"}


def at(method: str, path: str, role: Role, **options: Any) -> Callable[[F], F]:
    """Add an endpoint with and without a slash at the end; the seed writes it with a slash."""

    def add(function: F) -> F:
        TABLE.add(method, f"{path}/", role, **options)(function)
        return TABLE.add(method, path, role, is_documented=False, **options)(function)

    return add


@at("GET", "/schedules", Role.VIEWER)
def list_schedules(ask: Ask, asked: ScheduleQuery) -> ScheduleList:
    """List schedules, the newest first: all repeating jobs, from any API."""
    workflows = ask.part(WorkflowService)
    tag = None if asked.workflow_id is None else tag_of(workflows.get(asked.workflow_id).id)
    page = ask.part(ScheduleService).page(asked.status, tag, asked.limit, asked.offset)
    return ScheduleList(items=[ScheduleAnswer.of(view) for view in page.items], total=page.total)


@at("POST", "/schedules", Role.ADMIN, status=201)
def create_schedule(ask: Ask, body: ScheduleBody) -> ScheduleAnswer:
    """Create a schedule; its first run is one interval from now."""
    definition = ask.part(WorkflowService).definition(
        body.workflow_id,
        body.schedule,
        payload=body.trigger_payload,
        trigger=body.trigger_node_id,
        policies=body.policies,
        name=body.name,
        owner=ask.by.name,
    )
    wanted = replace(definition, description=body.description)
    view, _ = ask.service.jobs.make(wanted, by=ask.by.name, allow_unknown=True)
    ask.headers["Location"] = f"/api/v1/schedules/{view.id}/"
    return _answer(ask, view)


@at("POST", "/schedules/batch-delete", Role.ADMIN, status=204)
def delete_schedules(ask: Ask, body: BatchBody) -> None:
    """Delete many schedules. A schedule that does not exist is no error."""
    for schedule_id in body.schedule_ids:
        with suppress(NotFound):
            _delete(ask, str(schedule_id))


@at("GET", "/schedules/{id}", Role.VIEWER)
def get_schedule(ask: Ask, ref: Ref) -> ScheduleAnswer:
    """Get a schedule."""
    return ScheduleAnswer.of(ask.part(ScheduleService).get(ref))


@at("PATCH", "/schedules/{id}", Role.ADMIN)
def edit_schedule(ask: Ask, ref: Ref, body: ScheduleEdit) -> ScheduleAnswer:
    """Change the fields that the body contains. A run in progress does not change; a new interval starts now."""
    view, said = ask.part(ScheduleService).get(ref).job, body.given()

    def change(definition: Definition) -> Definition:
        return edited(_with_workflow(ask.part(WorkflowService), definition, said), said)

    if change(view.definition) != view.definition:
        view = ask.service.jobs.edit(view.id, change, by=ask.by.name, allow_unknown=True)
    return _answer(ask, view)


@at("DELETE", "/schedules/{id}", Role.ADMIN, status=204)
def delete_schedule(ask: Ask, ref: Ref) -> None:
    """Delete a schedule. A run in progress is asked to stop."""
    _delete(ask, ref)


@at("POST", "/schedules/{id}/pause", Role.OPERATOR, also=REFUSED)
def pause_schedule(ask: Ask, ref: Ref) -> ScheduleAnswer:
    """Pause an active schedule: no run starts; a run in progress may finish."""
    return _steered(ask, ref, ask.service.jobs.pause, "paused")


@at("POST", "/schedules/{id}/resume", Role.OPERATOR, also=REFUSED)
def resume_schedule(ask: Ask, ref: Ref) -> ScheduleAnswer:
    """Resume a paused schedule; its next run is one interval from now."""
    return _steered(ask, ref, ask.service.jobs.resume, "resumed")


@at("POST", "/schedules/{id}/restart", Role.OPERATOR, also=REFUSED)
def restart_schedule(ask: Ask, ref: Ref) -> ScheduleAnswer:
    """Restart a schedule that is done or dead, with its counters at 0."""
    return _steered(ask, ref, ask.service.jobs.restart, "restarted")


def _delete(ask: Ask, ref: str) -> None:
    ask.service.jobs.delete(ask.part(ScheduleService).get(ref).job.id, by=ask.by.name)


def _steered(ask: Ask, ref: str, command: Callable[..., JobView], done: str) -> ScheduleAnswer:
    schedules = ask.part(ScheduleService)
    before = schedules.get(ref)
    try:
        return _answer(ask, command(before.job.id, by=ask.by.name))
    except Conflict:
        word = schedules.get(ref).word
        raise WrongState(f"This schedule is {word}: it cannot be {done}. {ALLOWED[done]}") from None


ALLOWED: Final = {
    "paused": "Only an active one can be.",
    "resumed": "Only a paused one can be.",
    "restarted": "Only one that is done, or dead of its failures, can be.",
}


def _answer(ask: Ask, view: JobView) -> ScheduleAnswer:
    return ScheduleAnswer.of(ask.part(ScheduleService).of([view])[0])


def _with_workflow(workflows: WorkflowService, definition: Definition, said: Mapping[str, Any]) -> Definition:
    """Replace the workflow, trigger node or payload if given; they are checked again, as at the creation."""
    if definition.task != WORKFLOW_TASK:
        for name in said.keys() & {"workflow_id", "trigger_node_id"}:
            raise Conflict(f"{name}: this schedule runs the task {definition.task!r}, no workflow.")
        return definition
    if not said.keys() & {"workflow_id", "trigger_node_id", "trigger_payload"}:
        return definition
    before = Origin.read(definition.args)
    wanted = workflows.definition(
        said.get("workflow_id", before.workflow),
        definition.schedule,
        payload=said.get("trigger_payload", before.payload),
        trigger=said.get("trigger_node_id", before.trigger),
    )
    others = tuple(tag for tag in definition.tags if not tag.startswith("workflow:"))
    return replace(definition, args=wanted.args, tags=(*wanted.tags, *others))

"""Schedules, in the words of seed 001: repeating jobs that run workflows. Paths also without the slash at their end."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any, TypeVar

from fastapi import Path, Query, Response

from ostinato.api.caller import Admin, Operator, Viewer
from ostinato.api.desk import Desk
from ostinato.api.routers import api_router
from ostinato.core.errors import Conflict, NotFound
from ostinato.core.model import Definition
from ostinato.core.workflow import WORKFLOW_TASK
from ostinato.core.workflow.origin import Origin
from ostinato.scheduler import JobView, Scheduler
from ostinato.scheduler.workflows import tag_of
from ostinato.wire.errors import ErrorAnswer
from ostinato.wire.schedules import (
    BatchBody,
    ScheduleAnswer,
    ScheduleBody,
    ScheduleEdit,
    ScheduleList,
    ScheduleQuery,
    edited,
)
from ostinato.wire.words import WrongState

router = api_router("schedules")

F = TypeVar("F", bound=Callable[..., Any])
Ref = Annotated[str, Path(alias="id", description="The id of a schedule: that of its job.", max_length=200)]


def at(method: str, path: str, **options: Any) -> Callable[[F], F]:
    """An endpoint with and without the slash at its end; the seed writes it with one."""

    def add(endpoint: F) -> F:
        router.add_api_route(f"{path}/", endpoint, methods=[method], **options)
        router.add_api_route(path, endpoint, methods=[method], include_in_schema=False, **options)
        return endpoint

    return add


REFUSED: Any = {400: {"model": ErrorAnswer, "description": "The state of the schedule does not allow it"}}


@at("GET", "/schedules", response_model=ScheduleList)
def list_schedules(asked: Annotated[ScheduleQuery, Query()], desk: Desk, by: Viewer) -> ScheduleList:
    """A page of schedules, the newest first: every job that repeats, however it was made."""
    tag = None if asked.workflow_id is None else tag_of(desk.workflows.get(asked.workflow_id).id)
    page = desk.schedules.page(asked.status, tag, asked.limit, asked.offset)
    return ScheduleList(items=[ScheduleAnswer.of(view) for view in page.items], total=page.total)


@at("POST", "/schedules", status_code=201, response_model=ScheduleAnswer)
def create_schedule(body: ScheduleBody, desk: Desk, by: Admin, response: Response) -> ScheduleAnswer:
    """Make a schedule; its first run is one interval from now."""
    definition = desk.workflows.definition(
        body.workflow_id,
        body.schedule,
        payload=body.trigger_payload,
        trigger=body.trigger_node_id,
        policies=body.policies,
        name=body.name,
        owner=by.name,
    )
    wanted = replace(definition, description=body.description)
    view, _ = desk.jobs.make(wanted, by=by.name, allow_unknown=True)
    response.headers["Location"] = f"/api/v1/schedules/{view.id}/"
    return _answer(desk, view)


@at("POST", "/schedules/batch-delete", status_code=204)
def delete_schedules(body: BatchBody, desk: Desk, by: Admin) -> None:
    """Delete many at once. One that is not there, or not any more, is as good as deleted."""
    for schedule_id in body.schedule_ids:
        with suppress(NotFound):
            desk.jobs.delete(desk.schedules.get(schedule_id).job.id, by=by.name)


@at("GET", "/schedules/{id}", response_model=ScheduleAnswer)
def get_schedule(ref: Ref, desk: Desk, by: Viewer) -> ScheduleAnswer:
    """One schedule."""
    return ScheduleAnswer.of(desk.schedules.get(ref))


@at("PATCH", "/schedules/{id}", response_model=ScheduleAnswer)
def edit_schedule(ref: Ref, body: ScheduleEdit, desk: Desk, by: Admin) -> ScheduleAnswer:
    """Change what the body says. A run in progress is not touched; another interval counts from now."""
    view, said = desk.schedules.get(ref).job, body.given()

    def change(definition: Definition) -> Definition:
        return edited(_with_workflow(desk, definition, said), said)

    if change(view.definition) != view.definition:
        view = desk.jobs.edit(view.id, change, by=by.name, allow_unknown=True)
    return _answer(desk, view)


@at("DELETE", "/schedules/{id}", status_code=204)
def delete_schedule(ref: Ref, desk: Desk, by: Admin) -> None:
    """Gone from every answer at once; what runs is told to stop."""
    desk.jobs.delete(desk.schedules.get(ref).job.id, by=by.name)


@at("POST", "/schedules/{id}/pause", response_model=ScheduleAnswer, responses=REFUSED)
def pause_schedule(ref: Ref, desk: Desk, by: Operator) -> ScheduleAnswer:
    """Nothing more starts; what runs may finish. Only an active one can be paused."""
    return _steered(desk, ref, desk.jobs.pause, "paused", by.name)


@at("POST", "/schedules/{id}/resume", response_model=ScheduleAnswer, responses=REFUSED)
def resume_schedule(ref: Ref, desk: Desk, by: Operator) -> ScheduleAnswer:
    """Go on, one interval from now. Only a paused one can be resumed."""
    return _steered(desk, ref, desk.jobs.resume, "resumed", by.name)


@at("POST", "/schedules/{id}/restart", response_model=ScheduleAnswer, responses=REFUSED)
def restart_schedule(ref: Ref, desk: Desk, by: Operator) -> ScheduleAnswer:
    """Begin as new, with the counters at 0. Only one that is done or dead can be restarted."""
    return _steered(desk, ref, desk.jobs.restart, "restarted", by.name)


def _steered(
    desk: Scheduler, ref: str, command: Callable[..., JobView], done: str, by: str
) -> ScheduleAnswer:
    before = desk.schedules.get(ref)
    try:
        return _answer(desk, command(before.job.id, by=by))
    except Conflict:
        word = desk.schedules.get(ref).word
        raise WrongState(f"This schedule is {word}: it cannot be {done}. {ALLOWED[done]}") from None


ALLOWED = {
    "paused": "Only an active one can be.",
    "resumed": "Only a paused one can be.",
    "restarted": "Only one that is done, or dead of its failures, can be.",
}


def _answer(desk: Scheduler, view: JobView) -> ScheduleAnswer:
    return ScheduleAnswer.of(desk.schedules.of([view])[0])


def _with_workflow(desk: Scheduler, definition: Definition, said: Mapping[str, Any]) -> Definition:
    """With another workflow, trigger node or payload, if that was said; looked up again, as when it was made."""
    if definition.task != WORKFLOW_TASK:
        for name in said.keys() & {"workflow_id", "trigger_node_id"}:
            raise Conflict(f"{name}: this schedule runs the task {definition.task!r}, no workflow.")
        return definition
    if not said.keys() & {"workflow_id", "trigger_node_id", "trigger_payload"}:
        return definition
    before = Origin.read(definition.args)
    wanted = desk.workflows.definition(
        said.get("workflow_id", before.workflow),
        definition.schedule,
        payload=said.get("trigger_payload", before.payload),
        trigger=said.get("trigger_node_id", before.trigger),
    )
    others = tuple(tag for tag in definition.tags if not tag.startswith("workflow:"))
    return replace(definition, args=wanted.args, tags=(*wanted.tags, *others))

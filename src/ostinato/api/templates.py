"""Job templates: make, list, get, change, delete; and make jobs of them."""

from typing import Annotated

from fastapi import Path, Query, Response

from ostinato.api.caller import Admin, Viewer
from ostinato.api.desk import AtThisDesk, Desk
from ostinato.api.jobs import EXISTING, make_job
from ostinato.api.routers import api_router
from ostinato.core.job_templates import NAME
from ostinato.wire.job_answer import JobAnswer
from ostinato.wire.questions import MakeQuery
from ostinato.wire.templates import (
    TemplateAnswer,
    TemplateBody,
    TemplateEdit,
    TemplateGone,
    TemplateList,
    UseBody,
    definition_of,
)
from ostinato.wire.words import shape

router = api_router("templates")

Name = Annotated[
    str, Path(alias="name", description="The name of a template.", json_schema_extra={"pattern": shape(NAME)})
]


@router.get("/templates")
def list_templates(desk: Desk, by: Viewer) -> TemplateList:
    """Every template, ours and yours, by name."""
    found = [TemplateAnswer.of(view) for view in desk.templates.list()]
    return TemplateList(templates=found, total=len(found))


@router.post("/templates", status_code=201)
def create_template(body: TemplateBody, desk: Desk, by: Admin, response: Response) -> TemplateAnswer:
    """Make a template; a name that is taken is refused (409)."""
    view = desk.templates.save(body.given(body.name), by=by.name, new=True)
    response.headers["Location"] = f"/api/v1/templates/{view.template.name}"
    return TemplateAnswer.of(view)


@router.get("/templates/{name}")
def get_template(name: Name, desk: Desk, by: Viewer) -> TemplateAnswer:
    """One template, with its parameters."""
    return TemplateAnswer.of(desk.templates.get(name))


@router.put("/templates/{name}")
def put_template(name: Name, body: TemplateEdit, desk: Desk, by: Admin) -> TemplateAnswer:
    """Make a template, or let it take the place of the one of that name. Jobs that were made stay as they are."""
    return TemplateAnswer.of(desk.templates.save(body.given(name), by=by.name))


@router.delete("/templates/{name}")
def delete_template(name: Name, desk: Desk, by: Admin) -> TemplateGone:
    """Jobs that were made from it stay as they are."""
    desk.templates.delete(name, by=by.name)
    return TemplateGone(message=f"The template {name} is deleted.")


@router.post("/templates/{name}/jobs", status_code=201, responses={200: EXISTING})
def create_job_of_template(
    name: Name,
    asked: Annotated[MakeQuery, Query()],
    desk: Desk,
    here: AtThisDesk,
    by: Admin,
    response: Response,
    body: UseBody | None = None,
) -> JobAnswer:
    """Make a job: parameters are checked and filled in, then the job is checked like any other."""
    params, over = ({}, {}) if body is None else (body.params, body.job)
    definition = definition_of(desk.templates.body(name, params, over), here)
    return make_job(desk, definition, by.name, asked.allow_unknown, response)

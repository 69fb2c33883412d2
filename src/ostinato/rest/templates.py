"""Endpoints of job templates: create, list, get, change, delete, and use."""

from typing import Annotated

from fastapi import Path, Query, Response

from ostinato.core.job_templates import NAME
from ostinato.rest.caller import Admin, Viewer
from ostinato.rest.dependencies import BodyContextDep, ServiceDep
from ostinato.rest.jobs import EXISTING, make_job
from ostinato.rest.routers import api_router
from ostinato.shapes.base import shape
from ostinato.shapes.job_answer import JobAnswer
from ostinato.shapes.queries import MakeQuery
from ostinato.shapes.templates import (
    TemplateAnswer,
    TemplateBody,
    TemplateEdit,
    TemplateGone,
    TemplateList,
    UseBody,
    definition_of,
)

router = api_router("templates")

Name = Annotated[
    str, Path(alias="name", description="The name of a template.", json_schema_extra={"pattern": shape(NAME)})
]


@router.get("/templates")
def list_templates(service: ServiceDep, by: Viewer) -> TemplateList:
    """List all templates, built-in and own, by name."""
    found = [TemplateAnswer.of(view) for view in service.templates.list()]
    return TemplateList(templates=found, total=len(found))


@router.post("/templates", status_code=201)
def create_template(body: TemplateBody, service: ServiceDep, by: Admin, response: Response) -> TemplateAnswer:
    """Create a template; 409 if the name is taken."""
    view = service.templates.save(body.given(body.name), by=by.name, new=True)
    response.headers["Location"] = f"/api/v1/templates/{view.template.name}"
    return TemplateAnswer.of(view)


@router.get("/templates/{name}")
def get_template(name: Name, service: ServiceDep, by: Viewer) -> TemplateAnswer:
    """Get a template with its parameters."""
    return TemplateAnswer.of(service.templates.get(name))


@router.put("/templates/{name}")
def put_template(name: Name, body: TemplateEdit, service: ServiceDep, by: Admin) -> TemplateAnswer:
    """Create or replace a template. Jobs created from it do not change."""
    return TemplateAnswer.of(service.templates.save(body.given(name), by=by.name))


@router.delete("/templates/{name}")
def delete_template(name: Name, service: ServiceDep, by: Admin) -> TemplateGone:
    """Delete a template. Jobs created from it do not change."""
    service.templates.delete(name, by=by.name)
    return TemplateGone(message=f"The template {name} is deleted.")


@router.post("/templates/{name}/jobs", status_code=201, responses={200: EXISTING})
def create_job_of_template(
    name: Name,
    asked: Annotated[MakeQuery, Query()],
    service: ServiceDep,
    here: BodyContextDep,
    by: Admin,
    response: Response,
    body: UseBody | None = None,
) -> JobAnswer:
    """Create a job from a template: check and insert the parameters, then check the job like any other."""
    params, over = ({}, {}) if body is None else (body.params, body.job)
    definition = definition_of(service.templates.body(name, params, over), here)
    return make_job(service, definition, by.name, asked.allow_unknown, response)

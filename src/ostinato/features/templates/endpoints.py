"""Endpoints of job templates: create, list, get, change, delete, and use."""

from typing import Annotated

from fastapi import Path, Query, Response

from ostinato.features.templates.rules import NAME
from ostinato.features.templates.service import TemplateService
from ostinato.features.templates.shapes import (
    TemplateAnswer,
    TemplateBody,
    TemplateEdit,
    TemplateGone,
    TemplateList,
    UseBody,
    definition_of,
)
from ostinato.rest.caller import Admin, Viewer
from ostinato.rest.dependencies import BodyContextDep, ServiceDep, part
from ostinato.rest.jobs import EXISTING, make_job
from ostinato.rest.routers import api_router
from ostinato.shapes.base import shape
from ostinato.shapes.job_answer import JobAnswer
from ostinato.shapes.queries import MakeQuery

router = api_router("templates")
Templates = Annotated[TemplateService, part(TemplateService)]

Name = Annotated[
    str, Path(alias="name", description="The name of a template.", json_schema_extra={"pattern": shape(NAME)})
]


@router.get("/templates")
def list_templates(templates: Templates, by: Viewer) -> TemplateList:
    """List all templates, built-in and own, by name."""
    found = [TemplateAnswer.of(view) for view in templates.list()]
    return TemplateList(templates=found, total=len(found))


@router.post("/templates", status_code=201)
def create_template(body: TemplateBody, templates: Templates, by: Admin, response: Response) -> TemplateAnswer:
    """Create a template; 409 if the name is taken."""
    view = templates.save(body.given(body.name), by=by.name, new=True)
    response.headers["Location"] = f"/api/v1/templates/{view.template.name}"
    return TemplateAnswer.of(view)


@router.get("/templates/{name}")
def get_template(name: Name, templates: Templates, by: Viewer) -> TemplateAnswer:
    """Get a template with its parameters."""
    return TemplateAnswer.of(templates.get(name))


@router.put("/templates/{name}")
def put_template(name: Name, body: TemplateEdit, templates: Templates, by: Admin) -> TemplateAnswer:
    """Create or replace a template. Jobs created from it do not change."""
    return TemplateAnswer.of(templates.save(body.given(name), by=by.name))


@router.delete("/templates/{name}")
def delete_template(name: Name, templates: Templates, by: Admin) -> TemplateGone:
    """Delete a template. Jobs created from it do not change."""
    templates.delete(name, by=by.name)
    return TemplateGone(message=f"The template {name} is deleted.")


@router.post("/templates/{name}/jobs", status_code=201, responses={200: EXISTING})
def create_job_of_template(
    name: Name,
    asked: Annotated[MakeQuery, Query()],
    service: ServiceDep,
    templates: Templates,
    here: BodyContextDep,
    by: Admin,
    response: Response,
    body: UseBody | None = None,
) -> JobAnswer:
    """Create a job from a template: check and insert the parameters, then check the job like any other."""
    params, over = ({}, {}) if body is None else (body.params, body.job)
    definition = definition_of(templates.body(name, params, over), here)
    return make_job(service, definition, by.name, asked.allow_unknown, response)

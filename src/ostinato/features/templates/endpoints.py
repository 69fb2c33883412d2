"""Endpoints of job templates: create, list, get, change, delete, and use."""

from typing import Annotated, Final

from ostinato.core.access import Role
from ostinato.endpoints.changes import EXISTING, make_job
from ostinato.endpoints.table import Ask, InPath, Table
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
from ostinato.shapes.job_answer import JobAnswer
from ostinato.shapes.openapi import pattern
from ostinato.shapes.queries import MakeQuery, like

TABLE: Final = Table("templates")

Name = Annotated[str, InPath("name", "The name of a template.", like(pattern(NAME)))]


@TABLE.get("/templates", Role.VIEWER)
def list_templates(ask: Ask) -> TemplateList:
    """List all templates, built-in and own, by name."""
    found = [TemplateAnswer.of(view) for view in ask.part(TemplateService).list()]
    return TemplateList(templates=found, total=len(found))


@TABLE.post("/templates", Role.ADMIN, status=201)
def create_template(ask: Ask, body: TemplateBody) -> TemplateAnswer:
    """Create a template; 409 if the name is taken."""
    view = ask.part(TemplateService).save(body.given(body.name), by=ask.by.name, new=True)
    ask.headers["Location"] = f"/api/v1/templates/{view.template.name}"
    return TemplateAnswer.of(view)


@TABLE.get("/templates/{name}", Role.VIEWER)
def get_template(ask: Ask, name: Name) -> TemplateAnswer:
    """Get a template with its parameters."""
    return TemplateAnswer.of(ask.part(TemplateService).get(name))


@TABLE.put("/templates/{name}", Role.ADMIN)
def put_template(ask: Ask, name: Name, body: TemplateEdit) -> TemplateAnswer:
    """Create or replace a template. Jobs created from it do not change."""
    return TemplateAnswer.of(ask.part(TemplateService).save(body.given(name), by=ask.by.name))


@TABLE.delete("/templates/{name}", Role.ADMIN)
def delete_template(ask: Ask, name: Name) -> TemplateGone:
    """Delete a template. Jobs created from it do not change."""
    ask.part(TemplateService).delete(name, by=ask.by.name)
    return TemplateGone(message=f"The template {name} is deleted.")


@TABLE.post("/templates/{name}/jobs", Role.ADMIN, status=201, also=EXISTING)
def create_job_of_template(ask: Ask, name: Name, asked: MakeQuery, body: UseBody | None = None) -> JobAnswer:
    """Create a job from a template: check and insert the parameters, then check the job like any other."""
    params, over = ({}, {}) if body is None else (body.params, body.job)
    filled = ask.part(TemplateService).body(name, params, over)
    return make_job(ask, definition_of(filled, ask.here), asked.allow_unknown)

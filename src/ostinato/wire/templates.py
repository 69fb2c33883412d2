"""Job templates, in and out."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Self

from pydantic import BaseModel, Field, ValidationError

from ostinato.core.job_templates import NAME
from ostinato.core.model import Definition
from ostinato.scheduler.templates import TemplateView
from ostinato.wire import job_body
from ostinato.wire.errors import refused
from ostinato.wire.job_body import Here, JobBody
from ostinato.wire.words import Text, Words, WrongField, did_you_mean, shape


class TemplateEdit(Words):
    """A template; its name stands in the address."""

    description: Text = Field("", max_length=2000)
    parameters: list[dict[str, Any]] = Field(
        [], max_length=50, description='[{"name": "url", "type": "url", "description": "…", "default": …}]'
    )
    job: dict[str, Any] = Field(description="The body of a job, with holes: {{ params.url }}.")

    def given(self, name: str) -> dict[str, Any]:
        """What it says; names of the job's fields are checked here, where they are known."""
        check_fields(self.job)
        return {"name": name, "description": self.description, "parameters": self.parameters, "job": self.job}


class TemplateBody(TemplateEdit):
    """A new template."""

    name: Text = Field(max_length=100, json_schema_extra={"pattern": shape(NAME)})


class UseBody(Words):
    """What fills a template, and what else is to be said about this job."""

    params: dict[str, Any] = Field({}, description="The parameters, by name.")
    job: dict[str, Any] = Field({}, description="Fields of the job that this one has otherwise: key, queue …")


class TemplateAnswer(BaseModel):
    """A template, and what fills it."""

    name: str
    description: str
    built_in: bool
    parameters: list[dict[str, Any]] = Field(
        description="As they were written: name, type, description, default."
    )
    args: dict[str, Any] = Field(description="The parameters as a JSON schema, like the args of a task.")
    job: dict[str, Any]
    updated_at: datetime | None
    updated_by: str

    @classmethod
    def of(cls, view: TemplateView) -> Self:
        template = view.template
        return cls(
            name=template.name, description=template.description, built_in=view.built_in,
            parameters=view.parameters, args=template.schema, job=dict(template.job), updated_at=view.updated_at,
            updated_by=view.updated_by,
        )  # fmt: skip


class TemplateList(BaseModel):
    """Every template, by name."""

    templates: list[TemplateAnswer]
    total: int


class TemplateGone(BaseModel):
    """What was deleted."""

    message: str


def check_fields(job: Mapping[str, Any]) -> None:
    """WrongField for a field that no job has."""
    for name in job:
        if name not in JobBody.model_fields:
            close = did_you_mean(name, JobBody.model_fields)
            raise WrongField(f"job.{name}", f"job has no field {name[:100]!r}{close}")


def definition_of(body: Mapping[str, Any], here: Here) -> Definition:
    """The job that a filled template describes, checked as if somebody had sent it."""
    try:
        return job_body.new_definition(JobBody.model_validate(dict(body)), here)
    except ValidationError as error:
        told = refused(error.errors())
        field = told.errors[0].field if told.errors else "job"
        raise WrongField(field, told.detail) from None

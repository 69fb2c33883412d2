"""Shapes of job templates."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, Final

from pydantic import Field, ValidationError, WithJsonSchema

from ostinato.core.arguments import schema
from ostinato.core.model import Definition
from ostinato.features.templates.rules import KINDS, NAME, Parameter
from ostinato.shapes import job_body
from ostinato.shapes.answers import Answer, JsonObject, Out, described, refused
from ostinato.shapes.base import RequestBody, Text, WrongField, did_you_mean
from ostinato.shapes.job_body import BodyContext, JobBody
from ostinato.shapes.openapi import NULL, Shape, either, nullable, pattern, record, span


def _parameter() -> Shape:
    """Describe a parameter: its default has its type, and only a text has choices."""
    found = schema(Parameter)
    optional = found["properties"].keys() - set(found["required"])
    fields = {name: nullable(field) if name in optional else field for name, field in found["properties"].items()}
    return {**found, "properties": fields, **either(*map(_of_type, KINDS), _of_type("text", {"minItems": 1}))}


def _of_type(kind: str, choices: Shape | None = None) -> Shape:
    default = SPAN if kind == "duration" else dict(KINDS[kind].schema)
    fields = {
        "type": {"const": kind} if kind != "text" else {"enum": [kind, None]},
        "choices": {"maxItems": 0},
        "default": nullable(default),
    }
    needed = [] if kind == "text" else ["type"]
    return {
        "properties": fields if choices is None else {**fields, "choices": choices, "default": NULL},
        "required": needed,
    }


SPAN: Final = span(timedelta(milliseconds=1), timedelta(days=3660))
PARAMETER: Final = _parameter()
JOB: Final = record({name: {} for name in JobBody.model_fields})


class TemplateEdit(RequestBody):
    """A template; the path contains its name."""

    description: Text = Field("", max_length=2000)
    parameters: list[Annotated[dict[str, Any], WithJsonSchema(PARAMETER)]] = Field(
        [], max_length=50, description='[{"name": "url", "type": "url", "description": "…", "default": …}]'
    )
    job: Annotated[dict[str, Any], WithJsonSchema(JOB)] = Field(
        description="The body of a job, with placeholders: {{ params.url }}."
    )

    def given(self, name: str) -> dict[str, Any]:
        """Return the fields of the template; the names of the job's fields are checked first."""
        check_fields(self.job)
        return {"name": name, "description": self.description, "parameters": self.parameters, "job": self.job}


class TemplateBody(TemplateEdit):
    """A new template."""

    name: Text = Field(max_length=100, json_schema_extra={"pattern": pattern(NAME)})


class UseBody(RequestBody):
    """Parameters for a template, and further fields of the job."""

    params: dict[str, Any] = Field({}, description="The parameters, by name.")
    job: Annotated[dict[str, Any], WithJsonSchema(JOB)] = Field(
        {}, description="Fields that override those of the template: key, queue …"
    )


class TemplateAnswer(Answer):
    """A template with its parameters."""

    name: Annotated[str, Out("template.name")]
    description: Annotated[str, Out("template.description")]
    built_in: bool
    parameters: list[dict[str, Any]] = described("The parameters as written: name, type, description, default.")
    args: Annotated[dict[str, Any], Out("template.schema")] = described(
        "The parameters as a JSON schema, like the args of a task."
    )
    job: Annotated[dict[str, Any], Out("template.job", dict)]
    updated_at: datetime | None
    updated_by: str


class TemplateList(JsonObject):
    """All templates by name."""

    templates: list[TemplateAnswer]
    total: int


class TemplateGone(JsonObject):
    """The answer to a deletion."""

    message: str


def check_fields(job: Mapping[str, Any]) -> None:
    """Raise WrongField for an unknown field of a job."""
    for name in job:
        if name not in JobBody.model_fields:
            close = did_you_mean(name, JobBody.model_fields)
            raise WrongField(f"job.{name}", f"job has no field {name[:100]!r}{close}")


def definition_of(body: Mapping[str, Any], here: BodyContext) -> Definition:
    """Return the job of a filled template, checked like the body of a request."""
    try:
        return job_body.new_definition(JobBody.model_validate(dict(body)), here)
    except ValidationError as error:
        answer = refused(error.errors())
        field = answer.errors[0].field if answer.errors else "job"
        raise WrongField(field, answer.detail) from None

"""`ostinato template …`: job templates with parameters."""

import json
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from ostinato.cli.client import path
from ostinato.cli.jobs import Said, describing
from ostinato.cli.operating import arguments
from ostinato.cli.output import Answer, Column, FactsTable, Listing, Sentences, Several, Shown
from ostinato.cli.shown import job_facts
from ostinato.cli.verbs import ApiCalls, read_named, verb
from ostinato.core.errors import Invalid
from ostinato.shapes.documents import read_json

template = typer.Typer(rich_markup_mode=None)
GROUPS: Final = {"template": template}

WRITTEN: Final = "a template is an object with a name, parameters and a job"
TemplateArgument = Annotated[str, typer.Argument(metavar="TEMPLATE", help="The name of a template.")]
AS_TEXT: Final = ("text", "lines", "duration", "url", "secret")  # types whose values are not read as JSON


@template.command("list")
@verb
def list_templates(api: ApiCalls) -> None:
    """List all templates, built-in and own."""
    columns = (
        Column("Template", lambda row: row["name"]),
        Column("Task", lambda row: row["job"].get("task", "")),
        Column("Parameters", lambda row: ", ".join(row["args"]["properties"]), cut=True),
        Column("Description", lambda row: row["description"], cut=True),
    )
    answer = api.get("/templates")
    api.tell(answer, lambda answer: Listing(columns, answer["templates"], "There are no templates."))


@template.command("show")
@verb
def show_template(api: ApiCalls, template: TemplateArgument) -> None:
    """Show a template: its parameters and its job."""
    api.tell(api.get(path("templates", template)), _whole)


@template.command("apply")
@verb
def apply_template(
    api: ApiCalls,
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="JSON or YAML: an object or a list, with name, parameters, job."),
    ],
) -> None:
    """Create the templates of a file, or replace those with the same names."""
    answers = [api.ask("PUT", path("templates", each.pop("name")), body=each) for each in read_named(file, WRITTEN)]
    api.tell(answers, lambda done: Sentences([f"The template {each['name']} is saved." for each in done]))


@template.command("use")
@verb
@describing
def use_template(
    api: ApiCalls,
    said: Said,
    template: TemplateArgument,
    param: Annotated[list[str], typer.Option("--param", metavar="NAME=VALUE", help="A parameter; repeatable.")] = [],  # noqa: B006
    allow_unknown: Annotated[
        bool, typer.Option("--allow-unknown", help="Accept a task that no known worker has.")
    ] = False,
) -> None:
    """Create a job from a template. The flags of `job add` override fields of the job."""
    if said.args is not None or said.some_args:
        raise Invalid("The parameters of a template set the arguments of its job: use --param NAME=VALUE.")
    types = {each["name"]: each.get("type", "text") for each in api.get(path("templates", template))["parameters"]}
    params = dict(_param(each, types) for each in param)
    body = {"params": params, "job": said.body(None)}
    answer = api.post(path("templates", template, "jobs"), body, allow_unknown=allow_unknown or None)
    api.tell(answer, lambda made: job_facts(made, api.now()))


@template.command("delete")
@verb
def delete_template(api: ApiCalls, template: TemplateArgument) -> None:
    """Delete a template. Jobs created from it stay."""
    answer = api.ask("DELETE", path("templates", template))
    api.tell(answer, lambda answer: Sentences([answer["message"]]))


def _whole(answer: Answer) -> Shown:
    facts = {
        "Template": answer["name"],
        "Description": answer["description"],
        "Built in": "yes" if answer["built_in"] else "no",
    }
    job = json.dumps(answer["job"], indent=2).splitlines()
    return Several([FactsTable(facts), Sentences([""]), arguments(answer["args"]), Sentences(["", *job])])


def _param(text: str, types: dict[str, str]) -> tuple[str, Any]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise Invalid(f"--param is written NAME=VALUE, not {text[:60]!r}.")
    if types.get(name, "text") in AS_TEXT:
        return name, value
    try:
        return name, read_json(value)
    except Invalid:
        raise Invalid(f"--param {name} is {types[name]}, written as JSON, not {value[:60]!r}.") from None

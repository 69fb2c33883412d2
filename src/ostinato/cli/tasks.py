"""`ostinato task …`: the known tasks and their arguments."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from ostinato.cli.client import path
from ostinato.cli.output import Answer, Column, FactsTable, Listing, Sentences, Several, Shown
from ostinato.cli.verbs import ApiCalls, verb

task = typer.Typer(help="Tasks: list, show.", rich_markup_mode=None)

ORIGINS: Final = {"built_in": "built in", "own": "of the app", "elsewhere": "known to workers"}


@task.command("list")
@verb
def list_tasks(api: ApiCalls) -> None:
    """List all known tasks."""
    columns = (
        Column("Task", lambda row: row["name"]),
        Column("Origin", lambda row: ORIGINS[row["origin"]], spare=1),
        Column("Allowed", lambda row: "yes" if row["allowed"] else "no"),
        Column("Description", lambda row: row["help"], cut=True),
    )
    api.tell(api.get("/tasks"), lambda answer: Listing(columns, answer["tasks"], "There are no tasks."))


@task.command("show")
@verb
def show_task(api: ApiCalls, task: Annotated[str, typer.Argument(metavar="TASK", help="The name of a task.")]) -> None:
    """Show the arguments of a task, and whether the settings allow it."""
    api.tell(api.get(path("tasks", task)), shown_task)


def shown_task(answer: Answer) -> Shown:
    facts = {
        "Task": answer["name"],
        "Origin": ORIGINS[answer["origin"]],
        "Description": answer["help"],
        "Allowed": answer["reason"] or "yes",
    }
    if answer["args"] is None:
        return Several([FactsTable(facts), Sentences(["", "Only the workers that run this task know its arguments."])])
    return Several([FactsTable(facts), Sentences([""]), arguments(answer["args"])])


def arguments(schema: Mapping[str, Any]) -> Shown:
    """Return the fields of a JSON schema as a table."""
    required = schema.get("required", [])
    rows = [{"name": name, "required": name in required, **about} for name, about in schema["properties"].items()]
    columns = (
        Column("Arg", lambda row: row["name"]),
        Column("Type", lambda row: kind(row)),
        Column("Default", lambda row: _default(row)),
        Column("Description", lambda row: row.get("description", ""), cut=True),
    )
    return Listing(columns, rows, "The task takes no arguments.")


def kind(about: Mapping[str, Any]) -> str:
    """Return the type of a field in a word or two."""
    if "enum" in about:
        return " | ".join(map(str, about["enum"])) if len(about["enum"]) <= 3 else "choice"
    if about.get("format") == "duration":
        return "duration"
    if "anyOf" in about:
        return " or ".join(dict.fromkeys(kind(each) for each in about["anyOf"]))
    if about.get("type") == "array":
        return f"list of {kind(about.get('items', {}))}"
    return str(about.get("type", "any"))


def _default(row: Mapping[str, Any]) -> str:
    if row["required"]:
        return "required"
    default = row.get("default")
    return "" if default is None else default if isinstance(default, str) else json.dumps(default)

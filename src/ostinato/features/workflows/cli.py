"""`ostinato workflow …`: workflows, by id or name."""

from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from ostinato.cli.client import path
from ostinato.cli.executions import ExecutionArgument
from ostinato.cli.output import Answer, Column, FactsTable, Listing, Sentences, Several, Shown, at_length, took, when
from ostinato.cli.verbs import ApiCalls, read_named, verb
from ostinato.core.errors import Invalid
from ostinato.shapes.documents import read_json

workflow = typer.Typer(rich_markup_mode=None)
GROUPS: Final = {"workflow": workflow}

WRITTEN: Final = "a workflow is an object with a name and nodes"
WorkflowArgument = Annotated[str, typer.Argument(metavar="WORKFLOW", help="The id of a workflow, or its name.")]


@workflow.command("apply")
@verb
def apply_workflow(
    api: ApiCalls,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="JSON or YAML: an object or a list, with name, nodes …")],
    allow_unknown: Annotated[
        bool, typer.Option("--allow-unknown", help="Accept tasks that no known worker has.")
    ] = False,
) -> None:
    """Create the workflows of a file, or update those with the same names."""
    answers = [_applied(api, each, allow_unknown) for each in read_named(file, WRITTEN)]
    api.tell(
        answers,
        lambda done: Sentences(
            [f"Workflow {each['name']} ({each['id']}), version {each['version']}." for each in done]
        ),
    )


@workflow.command("list")
@verb
def list_workflows(api: ApiCalls) -> None:
    """List all workflows."""
    now = api.now()
    columns = (
        Column("Id", lambda row: row["id"], right=True),
        Column("Name", lambda row: row["name"], cut=True),
        Column("Active", lambda row: row["active"]),
        Column("Version", lambda row: row["version"], right=True),
        Column("Nodes", lambda row: len(row["nodes"]), right=True, spare=2),
        Column("Changed", lambda row: when(row["updated_at"], now), spare=1),
    )
    answer = api.get("/workflows", limit=250)
    api.tell(answer, lambda answer: Listing(columns, answer["workflows"], "There are no workflows."))


@workflow.command("show")
@verb
def show_workflow(api: ApiCalls, workflow: WorkflowArgument) -> None:
    """Show a workflow and its nodes."""
    answer = api.get(path("workflows", workflow))
    api.tell(answer, lambda answer: _whole(answer, api))


@workflow.command("run")
@verb
def run_workflow(
    api: ApiCalls,
    workflow: WorkflowArgument,
    payload: Annotated[
        str | None,
        typer.Option("--payload", metavar="JSON", help='Payload of the trigger, such as {"region": "eu"}.'),
    ] = None,
    trigger: Annotated[
        str | None, typer.Option("--trigger", metavar="NODE", help="The trigger node, if there are several.")
    ] = None,
) -> None:
    """Start a workflow now, as a separate job."""
    body = {"payload": _object(payload)} | ({} if trigger is None else {"trigger": trigger})
    answer = api.post(path("workflows", workflow, "run"), body)
    api.tell(
        answer,
        lambda answer: Sentences([f"Workflow {answer['name']} runs as the job {answer['job_id']}."]),
    )


@workflow.command("trigger")
@verb
def trigger_workflows(
    api: ApiCalls,
    kind: Annotated[str, typer.Argument(metavar="KIND", help="The kind of event, such as order.")],
    payload: Annotated[str | None, typer.Option("--payload", metavar="JSON", help="Payload for the steps.")] = None,
) -> None:
    """Start all active workflows that have a trigger for a kind of event."""
    answer = api.post(path("triggers", kind), _object(payload))
    api.tell(
        answer,
        lambda answer: Sentences(
            [f"Workflow {each['name']} runs as the job {each['job_id']}." for each in answer["started"]]
            or [f"No active workflow has a trigger for {kind!r}."]
        ),
    )


@workflow.command("delete")
@verb
def delete_workflow(api: ApiCalls, workflow: WorkflowArgument) -> None:
    """Delete a workflow. Runs in progress continue."""
    answer = api.ask("DELETE", path("workflows", workflow))
    api.tell(answer, lambda answer: Sentences([answer["message"]]))


@verb
def steps(api: ApiCalls, execution: ExecutionArgument) -> None:
    """Show the steps of a workflow run."""
    api.tell(api.get(path("executions", execution, "steps")), lambda run: _step_list(run, api.now()))


COMMANDS: Final = {"execution steps": steps}


def _applied(api: ApiCalls, wanted: dict[str, Any], allow_unknown: bool) -> Any:
    known = [each["name"] for each in _all(api)]
    if wanted["name"] in known:
        where = path("workflows", wanted["name"])
        return api.ask("PUT", where, body=wanted, query={"allow_unknown": allow_unknown})
    return api.post("/workflows", wanted, allow_unknown=allow_unknown)


def _all(api: ApiCalls) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while page := api.get("/workflows", limit=250, after=found[-1]["id"] if found else 0)["workflows"]:
        found += page
    return found


def _object(text: str | None) -> Any:
    read = read_json(text or "{}", "--payload")
    if not isinstance(read, dict):
        raise Invalid('--payload must be an object, such as {"region": "eu"}.')
    return read


def _whole(answer: dict[str, Any], api: ApiCalls) -> Shown:
    columns = (
        Column("Node", lambda row: row["id"]),
        Column("Task or type", lambda row: row.get("task") or row["type"]),
        Column("After", lambda row: ", ".join(row.get("after", []))),
        Column("When", lambda row: row.get("when"), cut=True),
        Column("Args", lambda row: row.get("args"), cut=True, spare=1),
    )
    facts = {
        "Workflow": answer["id"],
        "Name": answer["name"],
        "Description": answer["description"],
        "Version": answer["version"],
        "Active": answer["active"],
        "Created": at_length(answer["created_at"], api.now()),
        "Changed": at_length(answer["updated_at"], api.now()),
    }
    return Several([FactsTable(facts), Sentences([""]), Listing(columns, answer["nodes"], "")])


def _step_list(run: Answer, now: datetime) -> Shown:
    """Return a table of the steps of a workflow run."""

    def last(step: Answer) -> Answer:
        return step["attempts"][-1] if step["attempts"] else {}

    columns = (
        Column("Step", lambda step: step["id"]),
        Column("Task", lambda step: step["task"], spare=3, cut=True),
        Column("State", lambda step: step["state"]),
        Column("Attempts", lambda step: len(step["attempts"]), spare=4, right=True),
        Column("Started", lambda step: when(last(step).get("started_at"), now)),
        Column("Took", lambda step: took(last(step).get("duration_ms")), spare=1, right=True),
        Column("Error", lambda step: last(step).get("error_message") or step["because"] or "", spare=2, cut=True),
    )
    version = "not started" if run["version"] is None else f"version {run['version']}"
    about = f"{run['name']} ({run['workflow_id']}), {version}"
    facts = {
        "Workflow": about,
        "Status": run["run"]["outcome"] or run["run"]["status"],
        "Trigger": run["trigger"],
    }
    return Several([FactsTable(facts), Sentences([""]), Listing(columns, run["steps"], "The run has no steps.")])

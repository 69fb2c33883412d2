"""`ostinato workers`, `queue`, `stats`, `top` and `task …`: workers, queues, figures and known tasks."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final

import typer

from ostinato.cli.client import path
from ostinato.cli.output import Answer, Column, FactsTable, Listing, Sentences, Several, Shown
from ostinato.cli.shown import everything, execution_list, job_list, queue_list, worker_list
from ostinato.cli.verbs import ApiCalls, live, verb
from ostinato.core.errors import Invalid

queue = typer.Typer(help="Queues: list, pause, resume, bound.", rich_markup_mode=None)

QueueArgument = Annotated[str, typer.Argument(metavar="QUEUE", help="The name of a queue.")]


@verb
def workers(
    api: ApiCalls,
    drain: Annotated[
        str | None,
        typer.Option("--drain", metavar="WORKER", help="Let this worker finish its runs and claim no more."),
    ] = None,
) -> None:
    """List the workers seen within the last day."""
    if drain is not None:
        api.tell(
            api.post(path("workers", drain, "drain")),
            lambda _: Sentences([f"The worker {drain} drains: it finishes its runs, and claims no more."]),
        )
        return
    api.tell(api.get("/workers"), lambda answer: worker_list(answer, api.now()))


@queue.command("list")
@verb
def list_queues(api: ApiCalls) -> None:
    """List all queues, with their waiting and running executions."""
    api.tell(api.get("/queues"), lambda answer: queue_list(answer, api.now()))


@queue.command("pause")
@verb
def pause_queue(api: ApiCalls, queue: QueueArgument) -> None:
    """Pause a queue: no run starts; runs in progress finish."""
    answer = api.post(path("queues", queue, "pause"))
    api.tell(answer, lambda _: Sentences([f"The queue {queue} is paused."]))


@queue.command("resume")
@verb
def resume_queue(api: ApiCalls, queue: QueueArgument) -> None:
    """Resume a queue."""
    answer = api.post(path("queues", queue, "resume"))
    api.tell(answer, lambda _: Sentences([f"The queue {queue} is resumed."]))


@queue.command("bound")
@verb
def bound_queue(
    api: ApiCalls,
    queue: QueueArgument,
    most: Annotated[int | None, typer.Argument(metavar="[N]", help="Maximum number of waiting runs.")] = None,
    off: Annotated[bool, typer.Option("--off", help="Remove the bound.")] = False,
) -> None:
    """Set the maximum number of waiting runs. Schedules add runs to the queue only below it."""
    if (most is None) != off:
        raise Invalid("Give the bound, such as `ostinato queue bound slow 5`, or --off.")
    answer = api.ask("PATCH", path("queues", queue), body={"max_queued": most})
    change = "has no bound" if off else f"takes up to {most} runs from the schedule"
    api.tell(answer, lambda _: Sentences([f"The queue {queue} {change}."]))


@verb
def stats(api: ApiCalls) -> None:
    """Show the statistics of all jobs, and of each task."""
    api.tell(api.get("/scheduler/metrics"), lambda answer: everything(answer, api.now()))


@verb
def top(api: ApiCalls) -> None:
    """Show workers, queues and executions, live."""

    def ask() -> dict[str, Any]:
        return {
            "metrics": api.get("/scheduler/metrics"),
            "workers": api.get("/workers"),
            "queues": api.get("/queues"),
            "running": api.get("/executions", status=["running"], limit=10),
            "next": api.get("/jobs", status=["scheduled", "queued", "pending"], sort="next_run_at", limit=10),
        }

    live(api, ask, lambda answer: _screen(answer, api.now()), whole=True)


def _screen(answer: dict[str, Any], now: datetime) -> Shown:
    metrics, workers = answer["metrics"], answer["workers"]
    at_work = [each for each in workers["workers"] if each["status"] in ("working", "draining")]
    running, room = sum(each["running"] for each in at_work), sum(each["concurrency"] for each in at_work)
    jobs = ", ".join(f"{count} {status}" for status, count in metrics["jobs"].items() if count) or "none"
    head = [
        f"Ostinato, {now.astimezone():%H:%M:%S}. Press Ctrl-C to quit.",
        f"Jobs: {jobs}. Workers: {len(at_work)}, running {running} of {room}.",
        "",
    ]
    return Several(
        [
            Sentences(head),
            queue_list(answer["queues"], now),
            Sentences([""]),
            execution_list({**answer["running"], "total": 0}, now),
            Sentences([""]),
            job_list({**answer["next"], "total": 0}, now),
        ]
    )


# -- `ostinato task …`: the known tasks and their arguments

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

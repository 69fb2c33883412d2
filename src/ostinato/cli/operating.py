"""`ostinato workers`, `queue`, `stats` and `top`: the state of all queues, workers and jobs."""

from datetime import datetime
from typing import Annotated, Any

import typer

from ostinato.cli.client import path
from ostinato.cli.job_shown import job_list
from ostinato.cli.output import Sentences, Several, Shown
from ostinato.cli.run_shown import everything, execution_list, queue_list, worker_list
from ostinato.cli.verbs import ApiCalls, verb
from ostinato.cli.watching import live
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

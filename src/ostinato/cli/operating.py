"""`ostinato workers`, `queue`, `stats` and `top`: the whole, as an operator sees it."""

from datetime import datetime
from typing import Annotated, Any

import typer

from ostinato.cli.door import path
from ostinato.cli.job_shown import job_list
from ostinato.cli.live import live
from ostinato.cli.run_shown import everything, execution_list, queue_list, worker_list
from ostinato.cli.show import Sentences, Several, Shown
from ostinato.cli.verbs import Desk, verb
from ostinato.core.errors import Invalid

queue = typer.Typer(help="Queues: list, pause, resume, bound.", rich_markup_mode=None)
worker_group = typer.Typer(help="Who works.", rich_markup_mode=None)

QueueArgument = Annotated[str, typer.Argument(metavar="QUEUE", help="The name of a queue.")]


@verb
def workers(
    desk: Desk,
    drain: Annotated[
        str | None, typer.Option("--drain", metavar="WORKER", help="Ask this worker to claim no more.")
    ] = None,
) -> None:
    """List live workers, and those of the last day."""
    if drain is not None:
        desk.tell(
            desk.post(path("workers", drain, "drain")),
            lambda _: Sentences([f"The worker {drain} was asked to finish what it runs, and claim no more."]),
        )
        return
    desk.tell(desk.get("/workers"), lambda answer: worker_list(answer, desk.now()))


@queue.command("list")
@verb
def list_queues(desk: Desk) -> None:
    """Every queue, with what waits and what runs in it."""
    desk.tell(desk.get("/queues"), lambda answer: queue_list(answer, desk.now()))


@queue.command("pause")
@verb
def pause_queue(desk: Desk, queue: QueueArgument) -> None:
    """Nothing of it starts from now on; what runs may finish."""
    answer = desk.post(path("queues", queue, "pause"))
    desk.tell(answer, lambda _: Sentences([f"The queue {queue} is paused."]))


@queue.command("resume")
@verb
def resume_queue(desk: Desk, queue: QueueArgument) -> None:
    """Let it go on."""
    answer = desk.post(path("queues", queue, "resume"))
    desk.tell(answer, lambda _: Sentences([f"The queue {queue} goes on."]))


@queue.command("bound")
@verb
def bound_queue(
    desk: Desk,
    queue: QueueArgument,
    most: Annotated[
        int | None, typer.Argument(metavar="[N]", help="The schedule adds runs only while fewer wait.")
    ] = None,
    off: Annotated[bool, typer.Option("--off", help="Remove the bound.")] = False,
) -> None:
    """Bound how many runs the schedule may put into a queue."""
    if (most is None) != off:
        raise Invalid("Give the bound, such as `ostinato queue bound slow 5`, or --off.")
    answer = desk.ask("PATCH", path("queues", queue), body={"max_queued": most})
    told = "has no bound" if off else f"takes up to {most} runs from the schedule"
    desk.tell(answer, lambda _: Sentences([f"The queue {queue} {told}."]))


@verb
def stats(desk: Desk) -> None:
    """Everything in figures."""
    desk.tell(desk.get("/scheduler/metrics"), lambda answer: everything(answer, desk.now()))


@verb
def top(desk: Desk) -> None:
    """Show workers, queues and executions, live."""

    def ask() -> dict[str, Any]:
        return {
            "metrics": desk.get("/scheduler/metrics"),
            "workers": desk.get("/workers"),
            "queues": desk.get("/queues"),
            "running": desk.get("/executions", status=["running"], limit=10),
            "next": desk.get(
                "/jobs", status=["scheduled", "queued", "pending"], sort="next_run_at", limit=10
            ),
        }

    live(desk, ask, lambda answer: _screen(answer, desk.now()), whole=True)


def _screen(answer: dict[str, Any], now: datetime) -> Shown:
    metrics, workers = answer["metrics"], answer["workers"]
    at_work = [each for each in workers["workers"] if each["status"] in ("working", "draining")]
    running, room = sum(each["running"] for each in at_work), sum(each["concurrency"] for each in at_work)
    jobs = ", ".join(f"{count} {status}" for status, count in metrics["jobs"].items() if count) or "none"
    head = [
        f"Ostinato, {now.astimezone():%H:%M:%S}. Ctrl-C ends this.",
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

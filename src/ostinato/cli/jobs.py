"""`ostinato job …`: make, look at and steer jobs."""

import sys
from typing import Annotated, Any

import typer

from ostinato.cli.describing import Said, arguments, describing
from ostinato.cli.job_shown import called, declined_list, due_times, job_facts, job_list, job_stats, reasons
from ostinato.cli.live import live
from ostinato.cli.run_shown import execution_list
from ostinato.cli.show import Answer, Sentences
from ostinato.cli.verbs import Desk, verb
from ostinato.core.errors import Invalid

job = typer.Typer(help="Make, look at and steer jobs.", rich_markup_mode=None)

JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="The id of a job, or its key.")]
JobsArgument = Annotated[list[str], typer.Argument(metavar="JOB...", help="Ids of jobs, or their keys.")]
StatusOption = Annotated[
    list[str], typer.Option("--status", metavar="STATUS", help="Only these; again for more.")
]
TaskOption = Annotated[str | None, typer.Option("--task", metavar="TASK", help="Only of this task.")]
LimitOption = Annotated[int, typer.Option("-n", "--limit", metavar="N", help="How many to show, up to 250.")]


@job.command("add")
@verb
@describing
def add(
    desk: Desk,
    said: Said,
    task: Annotated[str | None, typer.Argument(metavar="[TASK]", help="The name of a task.")] = None,
    allow_unknown: Annotated[
        bool, typer.Option("--allow-unknown", help="Though no worker is known to have the task.")
    ] = False,
) -> None:
    """Make a job. Without a schedule it runs once, at once."""
    answer = desk.post("/jobs", said.body(task), allow_unknown=allow_unknown or None)
    desk.tell(answer, lambda made: job_facts(made, desk.now()))


@job.command("list")
@verb
def list_(
    desk: Desk,
    status: StatusOption = [],  # noqa: B006
    task: TaskOption = None,
    queue: Annotated[str | None, typer.Option("--queue", metavar="QUEUE", help="Only of this queue.")] = None,
    tag: Annotated[str | None, typer.Option("--tag", metavar="TAG", help="Only with this tag.")] = None,
    search: Annotated[
        str | None, typer.Option("--search", metavar="TEXT", help="Only with this text.")
    ] = None,
    due_before: Annotated[
        str | None, typer.Option("--due-before", metavar="INSTANT", help="Due before then.")
    ] = None,
    due_after: Annotated[
        str | None, typer.Option("--due-after", metavar="INSTANT", help="Due from then on.")
    ] = None,
    sort: Annotated[
        str | None,
        typer.Option("--sort", metavar="FIELD", help="next_run_at, name, status …; with a - backwards."),
    ] = None,
    limit: LimitOption = 50,
    offset: Annotated[int, typer.Option("--offset", metavar="N", help="Leave out so many.")] = 0,
    watch: Annotated[bool, typer.Option("--watch", help="Show it again every two seconds.")] = False,
) -> None:
    """Jobs, the newest first."""

    def ask() -> Any:
        return desk.get(
            "/jobs", status=status, task=task, queue=queue, tag=tag, search=search, due_before=due_before,
            due_after=due_after, sort=sort, limit=limit, offset=offset or None,
        )  # fmt: skip

    if watch:
        live(desk, ask, lambda page: job_list(page, desk.now()))
    else:
        desk.tell(ask(), lambda page: job_list(page, desk.now()))


@job.command("show")
@verb
def show(desk: Desk, job: JobArgument) -> None:
    """One job: what it is, how it behaves, what has become of it."""
    desk.tell(desk.get(desk.job(job)), lambda found: job_facts(found, desk.now()))


@job.command("edit")
@verb
@describing
def edit(
    desk: Desk,
    said: Said,
    job: JobArgument,
    task: Annotated[str | None, typer.Option("--task", metavar="TASK", help="Another task.")] = None,
    if_version: Annotated[
        int | None, typer.Option("--if-version", metavar="N", help="Only if it is at this version.")
    ] = None,
) -> None:
    """Change what the flags say, and nothing else. A run in progress is not touched."""
    if task is None and said.nothing:
        raise Invalid("Say what to change: --every 30m, --queue slow, --set max_retries=5 …")
    current = desk.get(desk.job(job)) if said.some_args else None
    if current is not None and if_version is None:
        if_version = current["version"]  # some of its arguments go with the others, as they are now
    body = said.body(task, None if current is None else current["args"])
    headers = {} if if_version is None else {"If-Match": f'"{if_version}"'}
    answer = desk.ask("PATCH", desk.job(job), body=body, headers=headers)
    desk.tell(answer, lambda edited: job_facts(edited, desk.now()))


def _steer(desk: Desk, jobs: list[str], action: str, done: str, **query: object) -> None:
    desk.each(
        jobs,
        lambda ref: desk.post(desk.job(ref, action), **query),
        lambda answer: Sentences([_steered(answer, done)]),
    )


def _steered(answer: Answer, done: str) -> str:
    """Say what was done, the status, and why it waits or still runs."""
    told = f"{called(answer)} {done}, and is {answer['status']} now."
    return " ".join(filter(None, (told, answer["reason"], answer["stop"])))


@job.command("pause")
@verb
def pause(desk: Desk, jobs: JobsArgument) -> None:
    """Nothing of it starts from now on; what runs may finish."""
    _steer(desk, jobs, "pause", "was paused")


@job.command("resume")
@verb
def resume(desk: Desk, jobs: JobsArgument) -> None:
    """Go on without catching up."""
    _steer(desk, jobs, "resume", "was resumed")


@job.command("cancel")
@verb
def cancel(desk: Desk, jobs: JobsArgument) -> None:
    """Stop for good; running executions are asked to stop."""
    _steer(desk, jobs, "cancel", "was cancelled")


@job.command("retry")
@verb
def retry(
    desk: Desk,
    jobs: JobsArgument,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="A workflow: all of it, not from its failed steps.")
    ] = False,
) -> None:
    """Go on with the failed occurrence, at once."""
    _steer(desk, jobs, "retry", "is tried again", from_start=from_start or None)


@job.command("restart")
@verb
def restart(desk: Desk, jobs: JobsArgument) -> None:
    """Begin an ended job as new."""
    _steer(desk, jobs, "restart", "was restarted")


@job.command("run")
@verb
def run(
    desk: Desk,
    job: JobArgument,
    args: Annotated[
        str | None, typer.Option("--args", metavar="JSON", help="Merged over the job's arguments.")
    ] = None,
    arg: Annotated[list[str], typer.Option("--arg", metavar="NAME=VALUE", help="One argument.")] = [],  # noqa: B006
) -> None:
    """Run it now, once more; its schedule does not move."""
    whole, some = arguments(args, arg)
    body = None if whole is None and not some else {"args": {**(whole or {}), **some}}
    answer = desk.post(desk.job(job, "run"), body)
    desk.tell(
        answer,
        lambda asked: Sentences([_steered(asked, "was asked to run")]),
    )


@job.command("delete")
@verb
def delete(
    desk: Desk,
    jobs: JobsArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Gone for good, with its history; running executions are asked to stop."""
    if not yes:
        if not sys.stdin.isatty():
            raise Invalid("Whoever deletes a job deletes its history: say --yes.")
        typer.confirm(f"Delete {', '.join(jobs)} with all history?", abort=True, err=True)
    desk.each(jobs, lambda ref: desk.ask("DELETE", desk.job(ref)), lambda gone: Sentences([gone["message"]]))


@job.command("redeclare")
@verb
def redeclare(
    desk: Desk,
    keys: Annotated[list[str], typer.Argument(metavar="[KEY]...", help="Keys of declared jobs.")] = [],  # noqa: B006
    of_app: Annotated[
        str | None,
        typer.Option("--of-app", metavar="NAME", help="Their app, if several have deleted the key."),
    ] = None,
) -> None:
    """Let a deleted job that the code declares be made again. Without KEY: list the deleted ones."""
    if not keys:
        desk.tell(desk.get("/declined"), lambda answer: declined_list(answer, desk.now()))
        return
    desk.each(
        keys,
        lambda key: desk.post("/declined/redeclare", {"key": key, "app": of_app}),
        lambda answer: Sentences([answer["message"]]),
    )


@job.command("history")
@verb
def history(
    desk: Desk,
    job: JobArgument,
    limit: LimitOption = 50,
    offset: Annotated[int, typer.Option("--offset", metavar="N", help="Leave out so many.")] = 0,
) -> None:
    """Its executions, the newest first."""
    answer = desk.get(desk.job(job, "executions"), limit=limit, offset=offset or None)
    desk.tell(answer, lambda page: execution_list(page, desk.now(), of_one_job=True))


@job.command("stats")
@verb
def stats(desk: Desk, job: JobArgument) -> None:
    """It in figures."""
    desk.tell(desk.get(desk.job(job, "stats")), lambda figures: job_stats(figures, desk.now()))


@job.command("next")
@verb
def next_(
    desk: Desk,
    job: JobArgument,
    count: Annotated[int, typer.Option("-n", metavar="N", help="How many times to show.")] = 10,
) -> None:
    """Show its next due times."""
    desk.tell(desk.get(desk.job(job, "next"), n=count), lambda found: due_times(found, desk.now()))


@job.command("why")
@verb
def why(
    desk: Desk,
    job: JobArgument,
    at: Annotated[
        str | None, typer.Option("--at", metavar="INSTANT", help="Such as 2026-11-16T09:00:00Z; else now.")
    ] = None,
) -> None:
    """Explain its due time at or before an instant."""
    desk.tell(desk.get(desk.job(job, "why"), at=at), lambda told: reasons(told, desk.now()))


@job.command("convert")
@verb
def convert(
    desk: Desk,
    jobs: Annotated[list[str], typer.Argument(metavar="[JOB]...", help="Only these; else all.")] = [],  # noqa: B006
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Write without asking.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare the next ten times before and after.")
    ] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Give back the expressions they had.")] = False,
) -> None:
    """Turn cron expressions (schedule_time) that are plain periods into intervals, where that means the same."""
    from ostinato.cli import converting

    if undo:
        converting.undo(desk, jobs)
    else:
        converting.convert(desk, jobs, yes=yes, verify=verify)

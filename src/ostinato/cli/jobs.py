"""`ostinato job …`: make, look at and steer jobs."""

import sys
from typing import Annotated, Any

import typer

from ostinato.cli.job_flags import Said, arguments, describing
from ostinato.cli.job_shown import called, declined_list, due_times, job_facts, job_list, job_stats, reasons
from ostinato.cli.output import Answer, Sentences
from ostinato.cli.run_shown import execution_list
from ostinato.cli.verbs import ApiCalls, verb
from ostinato.cli.watching import live
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
    api: ApiCalls,
    said: Said,
    task: Annotated[str | None, typer.Argument(metavar="[TASK]", help="The name of a task.")] = None,
    allow_unknown: Annotated[
        bool, typer.Option("--allow-unknown", help="Though no worker is known to have the task.")
    ] = False,
) -> None:
    """Make a job. Without a schedule it runs once, at once."""
    answer = api.post("/jobs", said.body(task), allow_unknown=allow_unknown or None)
    api.tell(answer, lambda made: job_facts(made, api.now()))


@job.command("list")
@verb
def list_(
    api: ApiCalls,
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
        return api.get(
            "/jobs", status=status, task=task, queue=queue, tag=tag, search=search, due_before=due_before,
            due_after=due_after, sort=sort, limit=limit, offset=offset or None,
        )  # fmt: skip

    if watch:
        live(api, ask, lambda page: job_list(page, api.now()))
    else:
        api.tell(ask(), lambda page: job_list(page, api.now()))


@job.command("show")
@verb
def show(api: ApiCalls, job: JobArgument) -> None:
    """One job: what it is, how it behaves, what has become of it."""
    api.tell(api.get(api.job(job)), lambda found: job_facts(found, api.now()))


@job.command("edit")
@verb
@describing
def edit(
    api: ApiCalls,
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
    current = api.get(api.job(job)) if said.some_args else None
    if current is not None and if_version is None:
        if_version = current["version"]  # some of its arguments go with the others, as they are now
    body = said.body(task, None if current is None else current["args"])
    headers = {} if if_version is None else {"If-Match": f'"{if_version}"'}
    answer = api.ask("PATCH", api.job(job), body=body, headers=headers)
    api.tell(answer, lambda edited: job_facts(edited, api.now()))


def _steer(api: ApiCalls, jobs: list[str], action: str, done: str, **query: object) -> None:
    api.each(
        jobs,
        lambda ref: api.post(api.job(ref, action), **query),
        lambda answer: Sentences([_steered(answer, done)]),
    )


def _steered(answer: Answer, done: str) -> str:
    """Say what was done, the status, and why it waits or still runs."""
    told = f"{called(answer)} {done}, and is {answer['status']} now."
    return " ".join(filter(None, (told, answer["reason"], answer["stop"])))


@job.command("pause")
@verb
def pause(api: ApiCalls, jobs: JobsArgument) -> None:
    """Nothing of it starts from now on; what runs may finish."""
    _steer(api, jobs, "pause", "was paused")


@job.command("resume")
@verb
def resume(api: ApiCalls, jobs: JobsArgument) -> None:
    """Go on without catching up."""
    _steer(api, jobs, "resume", "was resumed")


@job.command("cancel")
@verb
def cancel(api: ApiCalls, jobs: JobsArgument) -> None:
    """Stop for good; running executions are asked to stop."""
    _steer(api, jobs, "cancel", "was cancelled")


@job.command("retry")
@verb
def retry(
    api: ApiCalls,
    jobs: JobsArgument,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="A workflow: all of it, not from its failed steps.")
    ] = False,
) -> None:
    """Go on with the failed occurrence, at once."""
    _steer(api, jobs, "retry", "is tried again", from_start=from_start or None)


@job.command("restart")
@verb
def restart(api: ApiCalls, jobs: JobsArgument) -> None:
    """Begin an ended job as new."""
    _steer(api, jobs, "restart", "was restarted")


@job.command("run")
@verb
def run(
    api: ApiCalls,
    job: JobArgument,
    args: Annotated[
        str | None, typer.Option("--args", metavar="JSON", help="Merged over the job's arguments.")
    ] = None,
    arg: Annotated[list[str], typer.Option("--arg", metavar="NAME=VALUE", help="One argument.")] = [],  # noqa: B006
) -> None:
    """Run it now, once more; its schedule does not move."""
    whole, some = arguments(args, arg)
    body = None if whole is None and not some else {"args": {**(whole or {}), **some}}
    answer = api.post(api.job(job, "run"), body)
    api.tell(
        answer,
        lambda asked: Sentences([_steered(asked, "was asked to run")]),
    )


@job.command("delete")
@verb
def delete(
    api: ApiCalls,
    jobs: JobsArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Gone for good, with its history; running executions are asked to stop."""
    if not yes:
        if not sys.stdin.isatty():
            raise Invalid("Whoever deletes a job deletes its history: say --yes.")
        typer.confirm(f"Delete {', '.join(jobs)} with all history?", abort=True, err=True)
    api.each(jobs, lambda ref: api.ask("DELETE", api.job(ref)), lambda gone: Sentences([gone["message"]]))


@job.command("redeclare")
@verb
def redeclare(
    api: ApiCalls,
    keys: Annotated[list[str], typer.Argument(metavar="[KEY]...", help="Keys of declared jobs.")] = [],  # noqa: B006
    of_app: Annotated[
        str | None,
        typer.Option("--of-app", metavar="NAME", help="Their app, if several have deleted the key."),
    ] = None,
) -> None:
    """Let a deleted job that the code declares be made again. Without KEY: list the deleted ones."""
    if not keys:
        api.tell(api.get("/declined"), lambda answer: declined_list(answer, api.now()))
        return
    api.each(
        keys,
        lambda key: api.post("/declined/redeclare", {"key": key, "app": of_app}),
        lambda answer: Sentences([answer["message"]]),
    )


@job.command("history")
@verb
def history(
    api: ApiCalls,
    job: JobArgument,
    limit: LimitOption = 50,
    offset: Annotated[int, typer.Option("--offset", metavar="N", help="Leave out so many.")] = 0,
) -> None:
    """Its executions, the newest first."""
    answer = api.get(api.job(job, "executions"), limit=limit, offset=offset or None)
    api.tell(answer, lambda page: execution_list(page, api.now(), of_one_job=True))


@job.command("stats")
@verb
def stats(api: ApiCalls, job: JobArgument) -> None:
    """It in figures."""
    api.tell(api.get(api.job(job, "stats")), lambda figures: job_stats(figures, api.now()))


@job.command("next")
@verb
def next_(
    api: ApiCalls,
    job: JobArgument,
    count: Annotated[int, typer.Option("-n", metavar="N", help="How many times to show.")] = 10,
) -> None:
    """Show its next due times."""
    api.tell(api.get(api.job(job, "next"), n=count), lambda found: due_times(found, api.now()))


@job.command("why")
@verb
def why(
    api: ApiCalls,
    job: JobArgument,
    at: Annotated[
        str | None, typer.Option("--at", metavar="INSTANT", help="Such as 2026-11-16T09:00:00Z; else now.")
    ] = None,
) -> None:
    """Explain its due time at or before an instant."""
    api.tell(api.get(api.job(job, "why"), at=at), lambda told: reasons(told, api.now()))


@job.command("convert")
@verb
def convert(
    api: ApiCalls,
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
        converting.undo(api, jobs)
    else:
        converting.convert(api, jobs, yes=yes, verify=verify)

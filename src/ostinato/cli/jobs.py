"""`ostinato job …`: jobs, from creation to deletion."""

import sys
from typing import Annotated, Any

import typer

from ostinato.cli.job_flags import Said, arguments, describing
from ostinato.cli.job_shown import called, declined_list, due_times, job_facts, job_list, job_stats, reasons
from ostinato.cli.output import Answer, Sentences
from ostinato.cli.run_shown import execution_list
from ostinato.cli.verbs import ApiCalls, LimitOption, StatusOption, TaskOption, verb
from ostinato.cli.watching import live
from ostinato.core.errors import Invalid

job = typer.Typer(help="Jobs: add, list, show, edit, run, pause and more.", rich_markup_mode=None)

JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="The id of a job, or its key.")]
JobsArgument = Annotated[list[str], typer.Argument(metavar="JOB...", help="Ids of jobs, or their keys.")]


@job.command("add")
@verb
@describing
def add(
    api: ApiCalls,
    said: Said,
    task: Annotated[str | None, typer.Argument(metavar="[TASK]", help="The name of a task.")] = None,
    allow_unknown: Annotated[
        bool, typer.Option("--allow-unknown", help="Accept a task that no known worker has.")
    ] = False,
) -> None:
    """Create a job. Without a schedule, it runs once, at once."""
    answer = api.post("/jobs", said.body(task), allow_unknown=allow_unknown or None)
    api.tell(answer, lambda made: job_facts(made, api.now()))


@job.command("list")
@verb
def list_(
    api: ApiCalls,
    status: StatusOption = [],  # noqa: B006
    task: TaskOption = None,
    queue: Annotated[str | None, typer.Option("--queue", metavar="QUEUE", help="Only this queue.")] = None,
    tag: Annotated[str | None, typer.Option("--tag", metavar="TAG", help="Only jobs with this tag.")] = None,
    search: Annotated[
        str | None, typer.Option("--search", metavar="TEXT", help="Only jobs that contain this text.")
    ] = None,
    due_before: Annotated[
        str | None, typer.Option("--due-before", metavar="INSTANT", help="Only jobs due before INSTANT.")
    ] = None,
    due_after: Annotated[
        str | None, typer.Option("--due-after", metavar="INSTANT", help="Only jobs due at or after INSTANT.")
    ] = None,
    sort: Annotated[
        str | None,
        typer.Option("--sort", metavar="FIELD", help="next_run_at, name, status …; - reverses the order."),
    ] = None,
    limit: LimitOption = 50,
    offset: Annotated[int, typer.Option("--offset", metavar="N", help="Skip the first N.")] = 0,
    watch: Annotated[bool, typer.Option("--watch", help="Refresh every two seconds.")] = False,
) -> None:
    """List jobs, the newest first."""

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
    """Show a job: definition, policies, state."""
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
        int | None, typer.Option("--if-version", metavar="N", help="Edit only if the job has this version.")
    ] = None,
) -> None:
    """Change the fields given by flags. A run in progress does not change."""
    if task is None and said.nothing:
        raise Invalid("Say what to change: --every 30m, --queue slow, --set max_retries=5 …")
    current = api.get(api.job(job)) if said.some_args else None
    if current is not None and if_version is None:
        if_version = current["version"]  # the new arguments are merged into those just read
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
    """Return the change, the status, and the reason why the job waits or still runs."""
    change = f"{called(answer)} {done}, and is {answer['status']} now."
    return " ".join(filter(None, (change, answer["reason"], answer["stop"])))


@job.command("pause")
@verb
def pause(api: ApiCalls, jobs: JobsArgument) -> None:
    """Pause jobs: no run starts; runs in progress finish."""
    _steer(api, jobs, "pause", "was paused")


@job.command("resume")
@verb
def resume(api: ApiCalls, jobs: JobsArgument) -> None:
    """Resume jobs. Due times of the pause are not caught up."""
    _steer(api, jobs, "resume", "was resumed")


@job.command("cancel")
@verb
def cancel(api: ApiCalls, jobs: JobsArgument) -> None:
    """Cancel jobs for good. Running executions are asked to stop."""
    _steer(api, jobs, "cancel", "was cancelled")


@job.command("retry")
@verb
def retry(
    api: ApiCalls,
    jobs: JobsArgument,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="Run a workflow from its start, not from its failed steps.")
    ] = False,
) -> None:
    """Retry the failed occurrence at once."""
    _steer(api, jobs, "retry", "is retried", from_start=from_start or None)


@job.command("restart")
@verb
def restart(api: ApiCalls, jobs: JobsArgument) -> None:
    """Restart jobs that have ended, as new."""
    _steer(api, jobs, "restart", "was restarted")


@job.command("run")
@verb
def run(
    api: ApiCalls,
    job: JobArgument,
    args: Annotated[str | None, typer.Option("--args", metavar="JSON", help="Merged over the job's arguments.")] = None,
    arg: Annotated[list[str], typer.Option("--arg", metavar="NAME=VALUE", help="One argument; repeatable.")] = [],  # noqa: B006
) -> None:
    """Run a job now, in addition to its schedule."""
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
    """Delete jobs with their history. Running executions are asked to stop."""
    if not yes:
        if not sys.stdin.isatty():
            raise Invalid("Deleting a job deletes its history: confirm with --yes.")
        typer.confirm(f"Delete {', '.join(jobs)} with all history?", abort=True, err=True)
    api.each(jobs, lambda ref: api.ask("DELETE", api.job(ref)), lambda answer: Sentences([answer["message"]]))


@job.command("redeclare")
@verb
def redeclare(
    api: ApiCalls,
    keys: Annotated[list[str], typer.Argument(metavar="[KEY]...", help="Keys of declared jobs.")] = [],  # noqa: B006
    of_app: Annotated[
        str | None,
        typer.Option("--of-app", metavar="NAME", help="The app, if several apps have this key."),
    ] = None,
) -> None:
    """Allow the app to create a deleted, declared job again. Without KEY: list such jobs."""
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
    offset: Annotated[int, typer.Option("--offset", metavar="N", help="Skip the first N.")] = 0,
) -> None:
    """List the executions of a job, the newest first."""
    answer = api.get(api.job(job, "executions"), limit=limit, offset=offset or None)
    api.tell(answer, lambda page: execution_list(page, api.now(), of_one_job=True))


@job.command("stats")
@verb
def stats(api: ApiCalls, job: JobArgument) -> None:
    """Show the statistics of a job."""
    api.tell(api.get(api.job(job, "stats")), lambda figures: job_stats(figures, api.now()))


@job.command("next")
@verb
def next_(
    api: ApiCalls,
    job: JobArgument,
    count: Annotated[int, typer.Option("-n", metavar="N", help="Number of due times to show.")] = 10,
) -> None:
    """Show the next due times of a job."""
    api.tell(api.get(api.job(job, "next"), n=count), lambda found: due_times(found, api.now()))


@job.command("why")
@verb
def why(
    api: ApiCalls,
    job: JobArgument,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="INSTANT", help="Such as 2026-11-16T09:00:00Z (default: now)."),
    ] = None,
) -> None:
    """Explain the due time of a job at or before an instant."""
    api.tell(api.get(api.job(job, "why"), at=at), lambda answer: reasons(answer, api.now()))

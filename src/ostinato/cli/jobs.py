"""`ostinato job …`: jobs, from creation to deletion, and the flags that describe one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Concatenate, Final, ParamSpec

import typer

from ostinato.cli.output import Answer, Sentences
from ostinato.cli.shown import called, declined_list, due_times, execution_list, job_facts, job_list, job_stats, reasons
from ostinato.cli.verbs import (
    ApiCalls,
    LimitOption,
    StatusOption,
    TaskOption,
    YesOption,
    confirm,
    live,
    verb,
    with_flags,
)
from ostinato.core.errors import Invalid
from ostinato.core.policy import POLICY_WORDS
from ostinato.shapes.documents import json_or_text, read_json

# -- The flags that describe a job, for `job add` and `job edit`: they become a body of the API

P = ParamSpec("P")

Text = str | None
SCHEDULES: Final = ("every", "cron", "at", "now", "manual")


def describing(
    command: Callable[Concatenate[ApiCalls, "Said", P], None],
) -> Callable[Concatenate[ApiCalls, P], None]:
    """A verb that takes what the flags say about a job as its second argument."""

    def run(api: ApiCalls, **given: Any) -> None:
        words = {name: given.pop(name) for name in _FLAGS}
        command(api, said(words), **given)  # type: ignore[call-arg]

    return with_flags(run, command, _describing, hidden=2)


def _option(name: str, metavar: str, help: str) -> Any:
    return typer.Option(name, metavar=metavar, help=help)


def _policy(name: str, metavar: str, flag: str = "") -> Any:
    """Make the flag of a policy from its words."""
    words = POLICY_WORDS[name]
    help = f"{words.help[:-1]}: {', '.join(words.choices)}." if words.choices else words.help
    unset = f" Unset: {words.unset}." if words.unset else ""
    return _option(flag or f"--{name.replace('_', '-')}", metavar, help + unset)


def _describing(
    *,
    every: Annotated[Text, _option("--every", "PERIOD", "Due every 30m, 6h, 1d …")] = None,
    cron: Annotated[Text, _option("--cron", "EXPRESSION", "Due at the times of a cron expression.")] = None,
    at: Annotated[Text, _option("--at", "INSTANT", "Due once, such as 2026-11-16T09:00:00Z.")] = None,
    now: Annotated[bool, typer.Option("--now", help="Due once, now.")] = False,
    manual: Annotated[bool, typer.Option("--manual", help="Due only by hand.")] = False,
    timezone: Annotated[Text, _option("--timezone", "ZONE", "The zone of --cron.")] = None,
    args: Annotated[Text, _option("--args", "JSON", "The arguments of the task, a JSON object.")] = None,
    arg: Annotated[list[str], _option("--arg", "NAME=VALUE", "One argument; repeatable.")] = [],  # noqa: B006
    key: Annotated[Text, _option("--key", "KEY", "A unique name for the job.")] = None,
    name: Annotated[Text, _option("--name", "NAME", "The name to show; need not be unique.")] = None,
    description: Annotated[Text, _option("--description", "TEXT", "A note for people.")] = None,
    queue: Annotated[Text, _option("--queue", "QUEUE", "The queue of its executions.")] = None,
    priority: Annotated[int | None, typer.Option("--priority", metavar="1-10", help="1 is first.")] = None,
    tag: Annotated[list[str], _option("--tag", "TAG", "A tag; repeatable.")] = [],  # noqa: B006
    start_at: Annotated[Text, _policy("start_at", "INSTANT")] = None,
    end_at: Annotated[Text, _policy("end_at", "INSTANT")] = None,
    max_retries: Annotated[int | None, _policy("max_retries", "N", "--retries")] = None,
    backoff: Annotated[Text, _policy("backoff", "PERIOD")] = None,
    timeout: Annotated[Text, _policy("timeout", "PERIOD")] = None,
    overlap: Annotated[Text, _policy("overlap", "POLICY")] = None,
    catch_up: Annotated[Text, _policy("catch_up", "POLICY")] = None,
    url: Annotated[Text, _option("--url", "URL", "The URL to crawl, if no task is given.")] = None,
    set_: Annotated[
        list[str],
        _option("--set", "FIELD=VALUE", "Any other field of the API; the value is JSON or text. Repeatable."),
    ] = [],  # noqa: B006
) -> None:
    """The flags that describe a job."""


_FLAGS: Final = tuple(_describing.__annotations__.keys() - {"return"})
PLAIN: Final = (
    "timezone", "key", "name", "description", "queue", "priority", "start_at", "end_at", "max_retries", "backoff",
    "timeout", "overlap", "catch_up", "url",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Said:
    """The fields of a job that flags have set."""

    fields: Mapping[str, Any]
    args: Mapping[str, Any] | None  # all of them
    some_args: Mapping[str, Any]  # and some, one by one

    @property
    def nothing(self) -> bool:
        return not self.fields and self.args is None and not self.some_args

    def body(self, task: str | None, current: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """A body of the API. `current` are the arguments of the job, of which some are changed."""
        body = dict(self.fields) if task is None else {"task": task, **self.fields}
        if self.args is not None or self.some_args:
            whole = current or {} if self.args is None else self.args
            body["args"] = {**whole, **self.some_args}
        return body


def said(words: Mapping[str, Any]) -> Said:
    """Read the fields of a job from flags."""
    fields = {name: words[name] for name in PLAIN if words[name] is not None}
    if (schedule := _schedule(words)) is not None:
        fields["schedule"] = schedule
    if words["tag"]:
        fields["tags"] = words["tag"]
    fields |= dict(_assigned("--set", text) for text in words["set_"])
    return Said(fields, *arguments(words["args"], words["arg"]))


def _schedule(words: Mapping[str, Any]) -> dict[str, str] | str | None:
    match [name for name in SCHEDULES if words[name]]:
        case []:
            return None
        case ["now" | "manual" as name]:
            return name
        case [name]:
            return {name: words[name]}
        case [name, other, *_]:
            raise Invalid(f"--{name} and --{other} exclude each other: say one of them.")
    return None


def arguments(text: str | None, pairs: list[str]) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """Read `--args` (all arguments) and `--arg` (some of them)."""
    return None if text is None else _object("--args", text), dict(_assigned("--arg", pair) for pair in pairs)


def _object(flag: str, text: str) -> dict[str, Any]:
    value = read_json(text, flag)
    if not isinstance(value, dict):
        raise Invalid(f'{flag} is a JSON object, such as {{"name": "value"}}, not {text[:60]}.')
    return value


def _assigned(flag: str, text: str) -> tuple[str, Any]:
    """`name=value`: the value is JSON where it can be read so, else text."""
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise Invalid(f"{flag} is written NAME=VALUE, not {text[:60]!r}.")
    return name, json_or_text(value)


# -- `ostinato job …`: jobs, from creation to deletion

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
    """Create a job. Without a schedule, it runs once, now."""
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
    """Cancel jobs for good. Runs in progress are asked to stop."""
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
    args: Annotated[
        str | None, typer.Option("--args", metavar="JSON", help="Arguments to change for this run.")
    ] = None,
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
def delete(api: ApiCalls, jobs: JobsArgument, yes: YesOption = False) -> None:
    """Delete jobs with their history. Runs in progress are asked to stop."""
    confirm(yes, "Deleting a job deletes its history", f"Delete {', '.join(jobs)} with all history?")
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

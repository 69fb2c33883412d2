"""`ostinato execution …`: executions, queued, running and ended."""

import time
from typing import Annotated, Any, Final

import typer

from ostinato.cli.client import path
from ostinato.cli.output import Sentences, instant, note, plain, print_json
from ostinato.cli.shown import execution_facts, execution_list
from ostinato.cli.verbs import ApiCalls, LimitOption, StatusOption, TaskOption, verb
from ostinato.core.account import RELEASED

execution = typer.Typer(help="Executions: list, show, steps, cancel, release, log.", rich_markup_mode=None)

ExecutionArgument = Annotated[str, typer.Argument(metavar="EXECUTION", help="The id of an execution.")]

FOLLOW_INTERVAL: Final = 1.0  # seconds between two requests
LIVE: Final = ("queued", "running")


@execution.command("list")
@verb
def list_(
    api: ApiCalls,
    status: StatusOption = [],  # noqa: B006
    task: TaskOption = None,
    job: Annotated[str | None, typer.Option("--job", metavar="JOB", help="Only executions of this job.")] = None,
    limit: LimitOption = 50,
    offset: Annotated[int, typer.Option("--offset", metavar="N", help="Skip the first N.")] = 0,
) -> None:
    """List executions of all jobs, the newest first."""
    where = "/executions" if job is None else api.job(job, "executions")
    answer = api.get(where, status=status, task=task, limit=limit, offset=offset or None)
    api.tell(answer, lambda page: execution_list(page, api.now()))


@execution.command("show")
@verb
def show(api: ApiCalls, execution: ExecutionArgument) -> None:
    """Show an execution: times, worker, outcome."""
    api.tell(api.get(path("executions", execution)), lambda found: execution_facts(found, api.now()))


@execution.command("cancel")
@verb
def cancel(
    api: ApiCalls,
    execution: ExecutionArgument,
    force: Annotated[
        bool, typer.Option("--force", help="Mark a run that does not stop as cancelled. Its code may continue to run.")
    ] = False,
) -> None:
    """Cancel an execution: stop a running one, or remove a queued one from its queue."""
    answer = api.post(path("executions", execution, "cancel"), force=force or None)
    api.tell(
        answer,
        lambda answer: Sentences([f"Execution {answer['id']} is {answer['status']} now. {answer['stop'] or ''}"]),
    )


@execution.command("release")
@verb
def release(api: ApiCalls, execution: ExecutionArgument) -> None:
    """Take an execution from its worker, and queue it again. A late result is rejected."""
    answer = api.post(path("executions", execution, "release"))
    api.tell(answer, lambda answer: Sentences([f"Execution {answer['id']} is {answer['status']} now. {RELEASED}"]))


@execution.command("log")
@verb
def log(
    api: ApiCalls,
    execution: ExecutionArgument,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Show new lines until the run ends.")] = False,
    level: Annotated[
        str | None,
        typer.Option(
            "--level",
            metavar="LEVEL",
            help="Minimum level: debug, info, warning, error, critical.",
        ),
    ] = None,
) -> None:
    """Show the log, stdout and stderr of an execution."""
    where = path("executions", execution)
    if api.as_json and not follow:
        print_json(api.get(f"{where}/log", level=level))
        return
    cursor, dropped_bytes, lines = 0, 0, 0
    while True:
        # read the status before the log: lines written just before the end are still shown
        ended = api.get(where)["status"] not in LIVE
        while True:
            answer = api.get(f"{where}/log", after=cursor or None, level=level)
            for line in answer["lines"]:
                _write(line, api.as_json)
            cursor, dropped_bytes = answer["next"], answer["cut"]
            lines += len(answer["lines"])
            if not answer["lines"]:
                break
        if ended or not follow:
            break
        time.sleep(FOLLOW_INTERVAL)
    if not api.as_json:
        _remark(cursor, lines, dropped_bytes)


def _write(line: Any, as_json: bool) -> None:
    if as_json:
        print_json(line, indent=None)
        return
    word = line["level"].upper() if line["stream"] == "log" else line["stream"]
    first, *more = line["text"].split("\n")  # a traceback has several lines
    typer.echo(f"{instant(line['at']):%Y-%m-%d %H:%M:%S.%f}"[:-3] + f" {word:<8} {plain(first)}")
    for each in more:
        typer.echo(plain(each))


def _remark(cursor: int, lines: int, dropped_bytes: int) -> None:
    if dropped_bytes:
        note(f"The log was full: {dropped_bytes:,} more bytes were dropped.")
    elif not cursor:
        note("There is no log.")
    elif not lines:
        note("The log has no lines of this level.")

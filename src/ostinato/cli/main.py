"""Every command and its flags, and what becomes of errors."""

import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Annotated

import typer
from typer.main import get_command

from ostinato.cli.codes import BAD_INPUT, FOUND_SOMETHING, INTERRUPTED, OF_INPUT, exit_code
from ostinato.cli.configuration import config
from ostinato.cli.crawled_pages import page
from ostinato.cli.credentials import access, key, token
from ostinato.cli.executions import execution
from ostinato.cli.hooks import hook
from ostinato.cli.jobs import job
from ostinato.cli.operating import queue, stats, top, workers
from ostinato.cli.output import plain
from ostinato.cli.providers import provider
from ostinato.cli.sources import source
from ostinato.cli.tasks import task
from ostinato.cli.templates import template
from ostinato.cli.transfer import export, incoming
from ostinato.cli.verbs import DatabaseOption
from ostinato.cli.workflows import workflow
from ostinato.core.errors import Invalid, OstinatoError

cli = typer.Typer(
    name="ostinato",
    help="A durable scheduler for recurring work, on a file or on PostgreSQL.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
database = typer.Typer(help="Look after the database.", rich_markup_mode=None)
GROUPS = {
    "job": job, "execution": execution, "task": task, "queue": queue, "key": key, "token": token,
    "access": access, "db": database, "config": config, "import": incoming, "workflow": workflow, "provider": provider,
    "source": source, "template": template, "page": page, "hook": hook,
}  # fmt: skip
for name, group in GROUPS.items():
    cli.add_typer(group, name=name)

AppOption = Annotated[
    str | None,
    typer.Option("--app", metavar="MODULE:APP", envvar="OSTINATO_APP", help="Your app, such as shop:app."),
]
EngineOption = Annotated[
    str | None,
    typer.Option("--engine", metavar="NAME", help="Who runs what is due: local, or rq (RQ's workers)."),
]
RedisOption = Annotated[
    str | None, typer.Option("--redis", metavar="URL", help="Instead of OSTINATO_REDIS_URL, for RQ.")
]
QueuesOption = Annotated[
    str | None, typer.Option("--queues", metavar="A,B", help="Serve only these queues (else all).")
]
ConcurrencyOption = Annotated[
    int | None, typer.Option("--concurrency", metavar="N", help="Run so many at once.")
]
FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="A file.")]
JsonOption = Annotated[bool, typer.Option("--json", help="As JSON, and nothing else.")]
MigrateOption = Annotated[
    bool, typer.Option("--migrate", help="First bring the schema of PostgreSQL up to date.")
]

ReloadOption = Annotated[
    bool, typer.Option("--reload", help="Start anew when a Python file below this folder changes.")
]


def _version(asked: bool) -> None:
    if asked:
        from ostinato.wiring import our_version

        typer.echo(f"ostinato {our_version()}")
        raise typer.Exit


def _help_unless_told(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@cli.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    _help_unless_told(context)


for group in GROUPS.values():
    group.callback(invoke_without_command=True)(_help_unless_told)


@cli.command()
def serve(
    app: AppOption = None,
    host: Annotated[str, typer.Option(help="Where HTTP listens.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Where HTTP listens.")] = 8060,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Listen beyond this host though there is no auth.")
    ] = False,
    no_worker: Annotated[bool, typer.Option("--no-worker", help="Run nothing here.")] = False,
    database: DatabaseOption = None,
    queues: QueuesOption = None,
    concurrency: ConcurrencyOption = None,
    engine: EngineOption = None,
    redis: RedisOption = None,
    migrate: MigrateOption = False,
    reload: ReloadOption = False,
) -> None:
    """Serve the HTTP API and the dashboard, and run jobs.

    HTTP has a process of its own, so that clients cannot delay jobs (OSTINATO_HTTP_PROCESS=off: one process for all).
    """
    from ostinato.app.listening import Listening
    from ostinato.cli.process import serve

    _reloading(reload)
    chosen = _chosen(database, queues, concurrency, engine, redis)
    serve(app, chosen, Listening(host, port, insecure), worker=not no_worker, migrate=migrate)


@cli.command()
def worker(
    app: AppOption = None,
    database: DatabaseOption = None,
    queues: QueuesOption = None,
    concurrency: ConcurrencyOption = None,
    engine: EngineOption = None,
    redis: RedisOption = None,
    migrate: MigrateOption = False,
    reload: ReloadOption = False,
) -> None:
    """Run the jobs of an app, in any number of processes. Without --app: jobs with built-in tasks."""
    from ostinato.cli.process import work

    _reloading(reload)
    work(app, _chosen(database, queues, concurrency, engine, redis), migrate=migrate)


def _reloading(wanted: bool) -> None:
    """Run this command in another process, and not here, where a reload is wanted."""
    if wanted:
        from ostinato.cli.reloading import reload

        raise typer.Exit(reload())


def _chosen(
    database: str | None, queues: str | None, concurrency: int | None, engine: str | None, redis: str | None
) -> dict[str, object]:
    """Settings, by flags."""
    return {
        "database_url": database, "queues": queues, "concurrency": concurrency, "engine": engine, "redis_url": redis,
    }  # fmt: skip


@cli.command()
def preview(
    schedule: Annotated[str, typer.Argument(help="30m, '0 9 * * mon-fri', @daily, 2026-11-16T09:00:00Z …")],
    timezone: Annotated[
        str | None, typer.Option("--timezone", metavar="ZONE", help="Instead of OSTINATO_TIMEZONE.")
    ] = None,
    after: Annotated[
        str | None, typer.Option("--after", metavar="INSTANT", help="Such as 2026-11-16T00:00:00Z; else now.")
    ] = None,
    count: Annotated[int, typer.Option("-n", metavar="N", help="How many times to show.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Only the instants, in UTC.")] = False,
) -> None:
    """Show the next due times of a schedule."""
    from ostinato.cli.preview import preview

    preview(schedule, timezone, after, count, as_json)


@database.command()
def upgrade(database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """Make the schema, or bring it up to date."""
    from ostinato.cli.database import upgrade

    upgrade(database, as_json)


@database.command()
def check(database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """Look for what does not add up (then: exit code 1)."""
    from ostinato.cli.database import check

    check(database, as_json)


@database.command()
def backup(file: FileArgument, database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """Copy everything into a new SQLite file, while everything runs."""
    from ostinato.cli.database import backup

    backup(file, database, as_json)


@database.command()
def restore(file: FileArgument, database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """Bring a backup into a database that is empty, of either kind."""
    from ostinato.cli.database import restore

    restore(file, database, as_json)


@cli.command()
def doctor(
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Is everything well? If not: what to do (and exit code 1)."""
    from ostinato.cli.doctor import doctor

    doctor(database, as_json)


cli.command("workers")(workers)
cli.command("stats")(stats)
cli.command("top")(top)
cli.command("export")(export)


def main() -> None:
    """The program `ostinato`."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command; its exit code."""
    try:
        _require_text(arguments)
        return _commands()(arguments, prog_name="ostinato", standalone_mode=False) or 0
    except OstinatoError as error:
        return _refuse(str(error), exit_code(error))
    except typer.Abort:
        return INTERRUPTED
    except typer.TyperException as error:  # a flag or an argument that it cannot use
        return _refuse(error.format_message(), BAD_INPUT)
    except BrokenPipeError:  # `ostinato preview … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except RecursionError:
        return _refuse("The input is nested too deep: flatten it.", BAD_INPUT)
    except UnicodeError as error:
        return _refuse(
            f"A text cannot be read or shown as UTF-8 ({error}): check input and settings.", BAD_INPUT
        )
    except OSError as error:
        return _refuse(_of_system(error), BAD_INPUT if error.errno in OF_INPUT else FOUND_SOMETHING)


def _require_text(arguments: list[str]) -> None:
    for number, argument in enumerate(arguments, 1):
        if argument.encode("utf-8", "replace").decode() != argument:
            raise Invalid(f"Argument {number} is not text in UTF-8: write it in UTF-8.")


def _of_system(error: OSError) -> str:
    """Say what the system refused, and about which file."""
    about = f"{str(error.filename)[:200]}: " if error.filename else ""
    return f"{about}{error.strerror or type(error).__name__}."


@cache
def _commands() -> Callable[..., int | None]:
    """The tree of all commands, built once: calling `cli` builds it each time."""
    return get_command(cli)


def _refuse(sentence: str, code: int) -> int:
    typer.echo(plain(sentence), err=True)
    return code

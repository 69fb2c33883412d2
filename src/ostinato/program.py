"""The program `ostinato`: the tree of all commands, the processes of serve and worker, the exit code of each error."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.main import get_command

from ostinato.cli.client import BAD_INPUT, FOUND_SOMETHING, INTERRUPTED, OF_INPUT, exit_code
from ostinato.cli.output import plain
from ostinato.cli.verbs import DatabaseOption, lighten
from ostinato.config import EngineKind, Settings
from ostinato.core.errors import Invalid, InvalidSetting, OstinatoError
from ostinato.feature import Features, features_of

if TYPE_CHECKING:
    from ostinato.app import Ostinato
    from ostinato.app.listening import Listening

ROOT: Final[Mapping[str, Any]] = {
    "name": "ostinato",
    "help": "A durable scheduler for recurring work, on a file or on PostgreSQL.",
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}
# Groups of commands, and the modules that they are imported from when they are named; those of features come after.
GROUPS: Final = {
    "job": "ostinato.cli.jobs", "execution": "ostinato.cli.executions", "task": "ostinato.cli.operating",
    "queue": "ostinato.cli.operating", "key": "ostinato.cli.credentials", "token": "ostinato.cli.credentials",
    "access": "ostinato.cli.credentials", "db": "ostinato.program", "config": "ostinato.cli.offline",
}  # fmt: skip
ALONE: Final = ("workers", "stats", "top")  # commands of ostinato.cli.operating without a group

cli = typer.Typer(**ROOT)
db = typer.Typer(help="Database: upgrade, check, backup, restore.", rich_markup_mode=None)

AppOption = Annotated[
    str | None,
    typer.Option("--app", metavar="MODULE:APP", envvar="OSTINATO_APP", help="Your app, such as shop:app."),
]
EngineOption = Annotated[
    str | None,
    typer.Option("--engine", metavar="NAME", help="Runs executions: local, or rq (workers of RQ)."),
]
RedisOption = Annotated[
    str | None, typer.Option("--redis", metavar="URL", help="Redis for RQ; overrides OSTINATO_REDIS_URL.")
]
QueuesOption = Annotated[
    str | None, typer.Option("--queues", metavar="A,B", help="Serve only these queues (default: all).")
]
ConcurrencyOption = Annotated[
    int | None, typer.Option("--concurrency", metavar="N", help="Maximum number of runs at once.")
]
FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The file of the backup.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print only JSON.")]
MigrateOption = Annotated[bool, typer.Option("--migrate", help="First upgrade the schema of PostgreSQL.")]

ProbeOption = Annotated[
    str | None,
    typer.Option("--probe", metavar="PORT", help="Answer /livez, /readyz and /metrics; PORT or HOST:PORT."),
]
UntilIdleOption = Annotated[bool, typer.Option("--until-idle", help="Stop when no run may start and no job is due.")]
ReloadOption = Annotated[bool, typer.Option("--reload", help="Restart when a Python file below this folder changes.")]


def _version(asked: bool) -> None:
    if asked:
        from ostinato.config.extras import our_version

        typer.echo(f"ostinato {our_version()}")
        raise typer.Exit


def _help_without_command(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@cli.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    _help_without_command(context)


@cli.command()
def serve(
    app: AppOption = None,
    host: Annotated[str, typer.Option(help="Address that HTTP listens on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port that HTTP listens on.")] = 8060,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Allow a public address without authentication.")
    ] = False,
    no_worker: Annotated[bool, typer.Option("--no-worker", help="Run no jobs in this process.")] = False,
    database: DatabaseOption = None,
    queues: QueuesOption = None,
    concurrency: ConcurrencyOption = None,
    engine: EngineOption = None,
    redis: RedisOption = None,
    migrate: MigrateOption = False,
    reload: ReloadOption = False,
) -> None:
    """Serve the HTTP API and the dashboard, and run jobs.

    HTTP has its own process, so that clients cannot delay jobs (OSTINATO_HTTP_PROCESS=off: one process for both).
    """
    from ostinato.app.listening import Listening

    _reloading(reload)
    chosen = _chosen(database, queues, concurrency, engine, redis)
    serve_app(app, chosen, Listening(host, port, insecure), worker=not no_worker, migrate=migrate)


@cli.command()
def worker(
    app: AppOption = None,
    database: DatabaseOption = None,
    queues: QueuesOption = None,
    concurrency: ConcurrencyOption = None,
    engine: EngineOption = None,
    redis: RedisOption = None,
    migrate: MigrateOption = False,
    probe: ProbeOption = None,
    until_idle: UntilIdleOption = False,
    reload: ReloadOption = False,
) -> None:
    """Run the jobs of an app; start any number of workers. Without --app: jobs with built-in tasks."""
    _reloading(reload)
    chosen = _chosen(database, queues, concurrency, engine, redis) | {"probe": probe}
    work_for(app, chosen, migrate=migrate, until_idle=until_idle)


def serve_app(
    where: str | None, chosen: Mapping[str, object], listening: "Listening", *, worker: bool, migrate: bool
) -> None:
    """Serve HTTP and run jobs. With another engine one process does both, to tell its workers of each change."""
    from ostinato.app.listening import AppReference
    from ostinato.app.loading import load_app

    app = load_app(where)
    app.configure(**chosen)
    if app.settings.http_process and app.settings.engine is EngineKind.LOCAL:
        listening = replace(listening, apart=AppReference(where, chosen))
    app.run(worker=worker, migrate=migrate, listening=listening)
    _flush_or_discard()


def work_for(where: str | None, chosen: Mapping[str, object], *, migrate: bool, until_idle: bool = False) -> None:
    """Run the jobs of an app; without an app, run jobs with built-in tasks."""
    from ostinato.app.loading import load_app

    app = load_app(where)
    app.configure(**chosen)
    if until_idle and app.settings.engine is not EngineKind.LOCAL:
        raise Invalid("--until-idle needs the engine local: workers of another engine run on. Leave out one of them.")
    with _other_workers(app, where, chosen):
        app.run(migrate=migrate, until_idle=until_idle)
    _flush_or_discard()


def _flush_or_discard() -> None:
    """Flush the output, and drop it if the device is full: otherwise Python would exit with code 120."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _other_workers(app: "Ostinato", where: str | None, chosen: Mapping[str, object]) -> AbstractContextManager[object]:
    """Return processes of the engine that the settings name; none if our own workers run what is due."""
    if app.settings.engine is EngineKind.LOCAL:
        return nullcontext()
    found: AbstractContextManager[object]
    found = _features().engine(app.settings.engine).workers(where, chosen, app.settings)
    return found


def _reloading(wanted: bool) -> None:
    """With --reload, run this command in another process, then exit."""
    if wanted:
        from ostinato.cli.reloading import reload

        raise typer.Exit(reload())


def _chosen(
    database: str | None, queues: str | None, concurrency: int | None, engine: str | None, redis: str | None
) -> dict[str, object]:
    """Return the settings that the flags give."""
    return {
        "database_url": database, "queues": queues, "concurrency": concurrency, "engine": engine, "redis_url": redis,
    }  # fmt: skip


@cli.command()
def preview(
    schedule: Annotated[str, typer.Argument(help="30m, '0 9 * * mon-fri', @daily, 2026-11-16T09:00:00Z …")],
    timezone: Annotated[
        str | None, typer.Option("--timezone", metavar="ZONE", help="Overrides OSTINATO_TIMEZONE.")
    ] = None,
    after: Annotated[
        str | None,
        typer.Option("--after", metavar="INSTANT", help="Such as 2026-11-16T00:00:00Z (default: now)."),
    ] = None,
    count: Annotated[int, typer.Option("-n", metavar="N", help="Number of due times to show.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print only the instants, in UTC, as JSON.")] = False,
) -> None:
    """Show the next due times of a schedule."""
    from ostinato.cli.offline import preview

    preview(schedule, timezone, after, count, as_json)


@db.command()
def upgrade(database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """Create the schema, or upgrade it."""
    from ostinato.cli.maintenance import upgrade

    upgrade(database, as_json)


@db.command()
def check(database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """Audit the database for inconsistencies. Exit code 1 if there are any."""
    from ostinato.cli.maintenance import check

    check(database, as_json)


@db.command()
def backup(file: FileArgument, database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """Copy the database into a new SQLite file, while workers run."""
    from ostinato.cli.maintenance import backup

    backup(file, database, as_json)


@db.command()
def restore(file: FileArgument, database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """Restore a backup into an empty database, SQLite or PostgreSQL."""
    from ostinato.cli.maintenance import restore

    restore(file, database, as_json)


@cli.command()
def doctor(
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check the installation, with advice for each problem. Exit code 1 if something is wrong."""
    from ostinato.cli.maintenance import doctor

    doctor(database, as_json)


@cache
def _features() -> Features:
    """Return the features of the settings. Raise InvalidSetting if one has a group of commands with a name of ours."""
    found = features_of(Settings.one("features"))
    for feature in found:
        if taken := [name for name in feature.commands if name in GROUPS]:
            raise InvalidSetting(f"The feature {feature.name} has a group of commands {taken[0]}, as Ostinato has.")
    return found


@cache
def tree(named: str = "") -> typer.Typer:
    """Return the tree of all commands; with the name of a group, that group alone, so that no other is imported."""
    made = typer.Typer(**ROOT)
    made.registered_callback, made.registered_commands = cli.registered_callback, [*cli.registered_commands]
    for name, module in GROUPS.items():
        if named in ("", name):
            _add(made, name, getattr(import_module(module), name))
    for feature in _features():
        if named in ("", *feature.commands):
            for name, text in feature.commands.items():
                _add(made, name, feature.file("cli").GROUPS[name], text)
    return made if named else _with_single_commands(made)


def _add(tree: typer.Typer, name: str, group: typer.Typer, text: str | None = None) -> None:
    group.callback(invoke_without_command=True)(_help_without_command)
    tree.add_typer(group, name=name, help=text or group.info.help)


def _with_single_commands(tree: typer.Typer) -> typer.Typer:
    """Add the commands that stand in no group of their own: those of features have a path, such as `job convert`."""
    operating = import_module("ostinato.cli.operating")
    for name in ALONE:
        tree.command(name)(getattr(operating, name))
    groups = {each.name: each.typer_instance for each in tree.registered_groups if each.typer_instance is not None}
    for module in _features().modules("cli"):
        for path, command in getattr(module, "COMMANDS", {}).items():
            group, _, name = path.rpartition(" ")
            (groups[group] if group else tree).command(name)(command)
    return tree


def main() -> None:
    """Run the program `ostinato`."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command; return its exit code."""
    try:
        _require_text(arguments)
        return _commands(_named(arguments))(arguments, prog_name="ostinato", standalone_mode=False) or 0
    except OstinatoError as error:
        return _refuse(str(error), exit_code(error))
    except typer.Abort:
        return INTERRUPTED
    except typer.TyperException as error:  # a wrong flag or argument
        return _refuse(error.format_message() + _without_app(error), BAD_INPUT)
    except BrokenPipeError:  # `ostinato preview … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except RecursionError:
        return _refuse("The input is nested too deep: flatten it.", BAD_INPUT)
    except UnicodeError as error:
        return _refuse(f"A text cannot be read or shown as UTF-8 ({error}): check input and settings.", BAD_INPUT)
    except OSError as error:
        return _refuse(_of_system(error), BAD_INPUT if error.errno in OF_INPUT else FOUND_SOMETHING)


def _without_app(error: typer.TyperException) -> str:
    """Return the advice for `--app` at a command that takes a database."""
    if getattr(error, "option_name", None) != "--app":
        return ""
    return ". Only serve and worker import an app. Other commands need its database: see --database."


def _require_text(arguments: list[str]) -> None:
    for number, argument in enumerate(arguments, 1):
        if argument.encode("utf-8", "replace").decode() != argument:
            raise Invalid(f"Argument {number} is not text in UTF-8: write it in UTF-8.")


def _of_system(error: OSError) -> str:
    """Return the error of the system, with the file."""
    about = f"{str(error.filename)[:200]}: " if error.filename else ""
    return f"{about}{error.strerror or type(error).__name__}."


@cache
def _commands(named: str) -> Callable[..., int | None]:
    """Return the commands that can be called. They are built once: each call of Typer would build them again."""
    commands = get_command(tree(named))
    lighten(commands)
    return commands


def _named(arguments: Sequence[str]) -> str:
    """Return the group of the command, if it has a command of this name; else the whole tree is built."""
    group, command = (*arguments[:2], "", "")[:2]
    if group not in GROUPS and not any(group in feature.commands for feature in _features()):
        return ""
    groups: Mapping[str, Any] = _commands(group).commands  # type: ignore[attr-defined]  # Typer's group
    return group if command in groups[group].commands else ""


def _refuse(sentence: str, code: int) -> int:
    typer.echo(plain(sentence), err=True)
    return code

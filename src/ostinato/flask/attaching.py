"""The tie between an Ostinato app and a Flask app, the command `flask ostinato`, and the app that FLASK_APP names."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from weakref import WeakKeyDictionary

import click
from flask import Flask, current_app
from flask.cli import ScriptInfo

from ostinato.app import Ostinato
from ostinato.config.extras import need_command_line
from ostinato.core.errors import Invalid, MissingExtra
from ostinato.task import Context

EXTENSION: Final = "ostinato"
APP: Final = "ostinato.flask:app"
USUAL_FILES: Final = ("wsgi.py", "app.py")  # those that Flask looks for
VARIABLE: Final = "FLASK_APP"
READY: Final = "ostinato.flask.ready"  # a process for runs imports it

_flask_apps: Final = WeakKeyDictionary[Ostinato, Flask]()
_last: list[Ostinato] = []


def attach(jobs: Ostinato, app: Flask) -> None:
    """Run the tasks of `jobs` in the context of the Flask app, and add the command `flask ostinato` to it.

    A factory may call it for each Flask app that it makes: tasks run in the context of the last one.
    """
    if app.extensions.setdefault(EXTENSION, jobs) is not jobs:
        raise Invalid(f"Another Ostinato app is already attached to the Flask app {app.name!r}. Use one of them.")
    if jobs not in _flask_apps:
        jobs.registry.arounds.add(_context_of(jobs), modules=(READY, app.import_name))
    _flask_apps[jobs] = app
    _last[:] = [jobs]
    app.cli.add_command(ostinato)


def _context_of(jobs: Ostinato):  # type: ignore[no-untyped-def]
    def app_context(_: Context) -> Iterator[None]:
        with _flask_apps[jobs].app_context():
            yield

    return app_context


def attached() -> Ostinato:
    """Return the Ostinato app that was attached last; load the Flask app that FLASK_APP names if there is none."""
    if not _last:
        load()
    if not _last:
        raise Invalid(
            f"No Flask app with Ostinato is loaded. Set {VARIABLE} to your app, and call "
            "ostinato.flask.attach(jobs, app) in it."
        )
    return _last[0]


def load() -> None:
    """Load the Flask app that FLASK_APP names, if it names one. It attaches itself."""
    if path := os.environ.get(VARIABLE):
        try:
            ScriptInfo(app_import_path=path).load_app()
        except click.ClickException as error:  # such as: there is no such module
            raise Invalid(error.format_message()) from error


# -- `flask ostinato …`: the whole command line of Ostinato, on the app and the database of this Flask app


@click.command(
    "ostinato",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    add_help_option=False,
    short_help="Workers, jobs, executions, dashboard: the command line of Ostinato.",
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def ostinato(info: ScriptInfo, words: tuple[str, ...]) -> None:
    """Run a command of Ostinato. All words after `ostinato` are its own."""
    try:
        need_command_line("flask ostinato")
    except MissingExtra as error:
        raise click.UsageError(str(error)) from None
    from ostinato.program import run

    _choose(info)
    sys.exit(run(list(words)))


def _choose(info: ScriptInfo) -> None:
    """Name the apps and the database to the command, and to the processes that it starts."""
    settings = current_app.extensions[EXTENSION].settings
    path = info.app_import_path or next((name for name in USUAL_FILES if Path(name).is_file()), "")
    os.environ |= {"OSTINATO_APP": APP, "OSTINATO_DATABASE_URL": settings.database_url}
    if path:
        os.environ[VARIABLE] = path

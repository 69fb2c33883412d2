"""`flask ostinato …`: the whole command line of Ostinato, on the app and the database of this Flask app."""

import os
import sys
from pathlib import Path
from typing import Final

import click
from flask import current_app
from flask.cli import ScriptInfo

APP: Final = "ostinato.flask:app"
USUAL_FILES: Final = ("wsgi.py", "app.py")  # those that Flask looks for


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
    from ostinato.program import run

    _choose(info)
    sys.exit(run(list(words)))


def _choose(info: ScriptInfo) -> None:
    """Name the apps and the database to the command, and to the processes that it starts."""
    settings = current_app.extensions["ostinato"].settings
    path = info.app_import_path or next((name for name in USUAL_FILES if Path(name).is_file()), "")
    os.environ |= {"OSTINATO_APP": APP, "OSTINATO_DATABASE_URL": settings.database_url}
    if path:
        os.environ["FLASK_APP"] = path

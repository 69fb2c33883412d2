"""The tie between an Ostinato app and a Flask app, and the Flask app that FLASK_APP names."""

import os
from collections.abc import Iterator
from typing import Final
from weakref import WeakKeyDictionary

from click import ClickException
from flask import Flask
from flask.cli import ScriptInfo

from ostinato.app import Ostinato
from ostinato.core.errors import Invalid
from ostinato.flask.command import ostinato
from ostinato.task import Context

EXTENSION: Final = "ostinato"
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
        except ClickException as error:  # such as: there is no such module
            raise Invalid(error.format_message()) from error

"""`manage.py ostinato …`: the whole command line of Ostinato, on the app and the database of this project."""

import os
import sys
from argparse import REMAINDER
from pathlib import Path
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ostinato.config.extras import need_command_line
from ostinato.core.errors import OstinatoError

APP: Final = "ostinato.django:app"
OF_DJANGO: Final = ("--settings", "--pythonpath")  # read by manage.py before


class Command(BaseCommand):  # type: ignore[misc]
    """The command of Django. All words after it are Ostinato's."""

    help = "Workers, jobs, executions, dashboard: the command line of Ostinato."
    requires_system_checks: list[str] = []  # noqa: RUF012  Django's own

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("words", nargs=REMAINDER)

    def run_from_argv(self, argv: list[str]) -> None:
        """Run the words as they are: Django's own flags are not ours."""
        sys.exit(_run(_without_django(argv[2:])))

    def handle(self, *, words: list[str], **_: Any) -> None:
        """Run the words of `call_command`."""
        if code := _run(words):
            raise CommandError(f"The command ended with code {code}.", returncode=code)


def _run(words: list[str]) -> int:
    from ostinato.cli.client import exit_code

    try:
        need_command_line("manage.py ostinato")
        _choose()
    except OstinatoError as error:
        sys.stderr.write(f"{error}\n")
        return exit_code(error)
    from ostinato.program import run

    return run(words)


def _choose() -> None:
    """Name the app and its database to the commands, and to the processes that they start."""
    from ostinato.django.ready import app_named

    os.environ.setdefault("OSTINATO_APP", APP)
    os.environ["OSTINATO_DATABASE_URL"] = app_named("").settings.database_url
    folder = str(Path(sys.argv[0]).absolute().parent)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH", "")]))


def _without_django(words: list[str]) -> list[str]:
    kept, skip = list[str](), False
    for word in words:
        if not skip and not word.startswith(tuple(f"{flag}=" for flag in OF_DJANGO)) and word not in OF_DJANGO:
            kept.append(word)
        skip = word in OF_DJANGO
    return kept

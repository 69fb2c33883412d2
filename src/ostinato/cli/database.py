"""The commands that look after the database."""

from contextlib import closing

import typer

from ostinato.config import Settings
from ostinato.core.errors import NotFound
from ostinato.luck import RandomLuck
from ostinato.store import migrate
from ostinato.store.database import Database, open_database
from ostinato.store.sqlite import SqliteDatabase
from ostinato.store.store import Store


def upgrade(url: str | None) -> None:
    """Make the schema, or bring it up to date."""
    with closing(_open(url)) as database:
        applied = migrate.upgrade(database)
        typer.echo(f"{database.name} is at version {migrate.schema_version(database)}.")
    typer.echo(f"Applied {', '.join(applied)}." if applied else "There was nothing to do.")


def check(url: str | None) -> None:
    """Look for what does not add up."""
    with closing(_open(url)) as database:
        if isinstance(database, SqliteDatabase) and not database.file.exists():  # to look is not to make
            raise NotFound(f"There is no database {database.name} yet.")
        problems = _problems(database)
        typer.echo(f"{database.name} is at version {migrate.schema_version(database)}.")
    for problem in problems or ["Everything adds up."]:
        typer.echo(problem)
    if problems:
        raise typer.Exit(1)


def _problems(database: Database) -> list[str]:
    version, latest = migrate.schema_version(database), len(list(migrate.MIGRATIONS.glob("*.sql")))
    if version < latest:
        there = f"is version {version}" if version else "is not there yet"
        return [f"The schema {there}, this program needs version {latest}: run `ostinato db upgrade`."]
    store = Store(database, RandomLuck())
    store.require_current()
    return store.history.problems()


def _open(url: str | None) -> Database:
    settings = Settings.load({"database_url": url})
    return open_database(settings.database_url, schema=settings.schema)

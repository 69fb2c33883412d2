"""The commands that look after the database."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import typer

from ostinato.chance import RandomChance
from ostinato.cli.codes import FOUND_SOMETHING
from ostinato.cli.output import Sentences, print_json, show
from ostinato.cli.progress import progress
from ostinato.config import Settings
from ostinato.core.errors import NotFound
from ostinato.store import backup as copying
from ostinato.store import migrate
from ostinato.store.database import Database, open_database
from ostinato.store.sqlite import SqliteDatabase
from ostinato.store.store import Store


def upgrade(url: str | None, as_json: bool) -> None:
    """Make the schema, or bring it up to date."""
    with closing(_open(url)) as database:
        applied = migrate.upgrade(database)
        version, identity = migrate.schema_version(database), migrate.identity_of(database)
    told = f"Applied {', '.join(applied)}." if applied else "There was nothing to do."
    _tell(
        {"database": database.name, **asdict(identity), "version": version, "applied": applied},
        [f"{database.name} is at version {version}.", _told(identity), told],
        as_json,
    )


def check(url: str | None, as_json: bool) -> None:
    """Look for what does not add up."""
    with closing(opened(url)) as database:
        problems = _problems(database)
        version = migrate.schema_version(database)
        identity = migrate.identity_of(database) if version else migrate.DatabaseIdentity()
    _tell(
        {"database": database.name, **asdict(identity), "version": version, "problems": problems},
        [
            f"{database.name} is at version {version}.",
            _told(identity),
            *(problems or ["Everything adds up."]),
        ],
        as_json,
    )
    if problems:
        raise typer.Exit(FOUND_SOMETHING)


def backup(file: Path, url: str | None, as_json: bool) -> None:
    """Copy everything into a file, while everything runs."""
    with closing(opened(url, patience=copying.LIFETIME)) as database, progress("Copying") as told:
        copying.backup(database, file, told)
        identity = migrate.identity_of(database)
    size = file.stat().st_size
    said = [f"{file} has everything, {size:,} bytes.", _told(identity)]
    _tell({"file": str(file), "bytes": size, **asdict(identity)}, said, as_json)


def restore(file: Path, url: str | None, as_json: bool) -> None:
    """Bring a backup into a database that is empty."""
    with closing(_open(url, copying.LIFETIME)) as database, progress("Restoring") as told:
        copying.restore(file, database, told)
        identity = migrate.identity_of(database)
    said = [f"{database.name} has everything that {file} has.", _told(identity)]
    _tell({"database": database.name, "file": str(file), **asdict(identity)}, said, as_json)


def _told(identity: migrate.DatabaseIdentity) -> str:
    return f"The database is {identity}." if identity.database_id else "The database has no identity yet."


def _tell(answer: object, sentences: Sequence[str], as_json: bool) -> None:
    if as_json:
        print_json(answer)
    else:
        show(Sentences(sentences))


def opened(url: str | None, patience: float = 30.0) -> Database:
    """The database, which must be there: to look is not to make."""
    database = _open(url, patience)
    if isinstance(database, SqliteDatabase) and not database.file.exists():
        raise NotFound(f"There is no database {database.name} yet.")
    return database


def behind(database: Database) -> str | None:
    """Return advice if the schema is older than ours; change nothing."""
    version, latest = migrate.schema_version(database), migrate.latest_version()
    if version >= latest:
        return None
    there = f"is version {version}" if version else "is not there yet"
    return f"The schema {there}, this program needs version {latest}: run `ostinato db upgrade`."


def _problems(database: Database) -> list[str]:
    if flaw := behind(database):
        return [flaw]
    store = Store(database, RandomChance())
    store.require_current()
    return store.audit.problems()


def _open(url: str | None, patience: float = 30.0) -> Database:
    settings = Settings.load({"database_url": url})
    return open_database(settings.database_url, schema=settings.schema, deadline=patience)

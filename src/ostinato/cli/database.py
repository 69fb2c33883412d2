"""Commands of `ostinato db`: upgrade, check, backup, restore."""

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
    """Create the schema, or upgrade it."""
    with closing(_open(url)) as database:
        applied = migrate.upgrade(database)
        version, identity = migrate.schema_version(database), migrate.identity_of(database)
    change = f"Applied {', '.join(applied)}." if applied else "The schema is up to date."
    _tell(
        {"database": database.name, **asdict(identity), "version": version, "applied": applied},
        [f"{database.name} is at version {version}.", _identity(identity), change],
        as_json,
    )


def check(url: str | None, as_json: bool) -> None:
    """Audit the database for inconsistencies."""
    with closing(opened(url)) as database:
        problems = _problems(database)
        version = migrate.schema_version(database)
        identity = migrate.identity_of(database) if version else migrate.DatabaseIdentity()
    _tell(
        {"database": database.name, **asdict(identity), "version": version, "problems": problems},
        [
            f"{database.name} is at version {version}.",
            _identity(identity),
            *(problems or ["No problems found."]),
        ],
        as_json,
    )
    if problems:
        raise typer.Exit(FOUND_SOMETHING)


def backup(file: Path, url: str | None, as_json: bool) -> None:
    """Copy the database into a file, while workers run."""
    with closing(opened(url, patience=copying.LIFETIME)) as database, progress("Copying") as advance:
        copying.backup(database, file, advance)
        identity = migrate.identity_of(database)
    size = file.stat().st_size
    lines = [f"{file} holds a full backup, {size:,} bytes.", _identity(identity)]
    _tell({"file": str(file), "bytes": size, **asdict(identity)}, lines, as_json)


def restore(file: Path, url: str | None, as_json: bool) -> None:
    """Restore a backup into an empty database."""
    with closing(_open(url, copying.LIFETIME)) as database, progress("Restoring") as advance:
        copying.restore(file, database, advance)
        identity = migrate.identity_of(database)
    lines = [f"{file} was restored into {database.name}.", _identity(identity)]
    _tell({"database": database.name, "file": str(file), **asdict(identity)}, lines, as_json)


def _identity(identity: migrate.DatabaseIdentity) -> str:
    return f"The database is {identity}." if identity.database_id else "The database has no identity yet."


def _tell(answer: object, sentences: Sequence[str], as_json: bool) -> None:
    if as_json:
        print_json(answer)
    else:
        show(Sentences(sentences))


def opened(url: str | None, patience: float = 30.0) -> Database:
    """Open the database, which must exist: a command that reads must not create it."""
    database = _open(url, patience)
    if isinstance(database, SqliteDatabase) and not database.file.exists():
        raise NotFound(f"There is no database {database.name} yet.")
    return database


def behind(database: Database) -> str | None:
    """Return advice if the schema is older than this program; change nothing."""
    there, latest = migrate.versions(database), migrate.latest_versions(database.features)
    if all(there.get(owner, 0) >= version for owner, version in latest.items()):
        return None
    state = f"is {migrate.written(there)}" if there else "is not there yet"
    return f"The schema {state}, this program needs {migrate.written(latest)}: run `ostinato db upgrade`."


def _problems(database: Database) -> list[str]:
    if flaw := behind(database):
        return [flaw]
    store = Store(database, RandomChance())
    store.require_current()
    return store.audit.problems()


def _open(url: str | None, patience: float = 30.0) -> Database:
    settings = Settings.load({"database_url": url})
    return open_database(settings.database_url, schema=settings.schema, deadline=patience)

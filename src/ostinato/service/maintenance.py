"""Commands for a whole database: upgrade, audit, backup, restore, and the checks of `ostinato doctor`."""

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from ostinato.chance import RandomChance
from ostinato.config import Grants, Settings
from ostinato.core.errors import ForeignDatabase, NotFound, StoreError
from ostinato.core.read_models import DatabaseIdentity
from ostinato.feature import features_of
from ostinato.service.doctor import Finding, FindingState, check_up
from ostinato.store import backup as copying
from ostinato.store import migrate
from ostinato.store.backup import Progress
from ostinato.store.database import Database, open_database
from ostinato.store.sqlite import SqliteDatabase
from ostinato.store.store import Store


@dataclass(frozen=True, slots=True)
class _DatabaseState:
    """A database after a command: its name, identity and schema version, and what the command did or found."""

    name: str
    identity: DatabaseIdentity
    version: int
    notes: list[str]


def upgrade(url: str | None) -> _DatabaseState:
    """Create the schema, or upgrade it; `notes` are the applied migrations."""
    with closing(_open(url)) as database:
        applied = migrate.upgrade(database)
        return _DatabaseState(database.name, migrate.identity_of(database), migrate.schema_version(database), applied)


def audit(url: str | None) -> _DatabaseState:
    """Look for inconsistencies; `notes` are the problems."""
    with closing(_opened(url)) as database:
        problems = _problems(database)
        version = migrate.schema_version(database)
        identity = migrate.identity_of(database) if version else DatabaseIdentity()
        return _DatabaseState(database.name, identity, version, problems)


def backup(file: Path, url: str | None, advance: Progress) -> DatabaseIdentity:
    """Copy the database into a file, while workers run."""
    with closing(_opened(url, copying.LIFETIME)) as database:
        copying.backup(database, file, advance)
        return migrate.identity_of(database)


def restore(file: Path, url: str | None, advance: Progress) -> tuple[str, DatabaseIdentity]:
    """Restore a backup into an empty database; return its name and identity."""
    with closing(_open(url, copying.LIFETIME)) as database:
        copying.restore(file, database, advance)
        return database.name, migrate.identity_of(database)


def findings(url: str | None) -> list[Finding]:
    """Check the whole installation."""
    with closing(_opened(url)) as database:
        try:
            if flaw := _behind(database):
                return [Finding("schema", FindingState.WRONG, flaw, "ostinato db upgrade")]
            store = Store(database, RandomChance())
            store.require_current()
            return check_up(store, Grants.of(Settings.load({"database_url": url}).permits))
        except StoreError as error:
            return [Finding("database", FindingState.WRONG, str(error), _advice(error))]


def _advice(error: StoreError) -> str:
    if isinstance(error, ForeignDatabase):
        return "Name another database, or use a newer Ostinato."
    return "Is it running, and does the URL name it? ostinato config show --origin"


def _opened(url: str | None, patience: float = 30.0) -> Database:
    """Open the database, which must exist: a command that reads must not create it."""
    database = _open(url, patience)
    if isinstance(database, SqliteDatabase) and not database.file.exists():
        raise NotFound(f"There is no database {database.name} yet.")
    return database


def _behind(database: Database) -> str | None:
    """Return advice if the schema is older than this program; change nothing."""
    there, latest = migrate.versions(database), migrate.latest_versions(database.features)
    if all(there.get(owner, 0) >= version for owner, version in latest.items()):
        return None
    state = f"is {migrate.written(there)}" if there else "is not there yet"
    return f"The schema {state}, this program needs {migrate.written(latest)}: run `ostinato db upgrade`."


def _problems(database: Database) -> list[str]:
    if flaw := _behind(database):
        return [flaw]
    store = Store(database, RandomChance())
    store.require_current()
    return store.audit.problems()


def _open(url: str | None, patience: float = 30.0) -> Database:
    settings = Settings.load({"database_url": url})
    features = features_of(settings.features)
    return open_database(settings.database_url, schema=settings.schema, deadline=patience, features=features)

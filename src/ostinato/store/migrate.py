"""The schema and its versions.

A migration is `migrations/NNNN_name.sql`, in the words of `dialect`; the version reached stands in `{meta}`
under `schema_version`. Migrations only add. Each is one transaction; callers at the same time queue.
"""

import math
import secrets
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from ostinato.core.errors import ForeignDatabase, RightsMissing, SchemaBehind, StoreError, StoreUnavailable
from ostinato.store.database import Database, Tx
from ostinato.store.dialect import TABLES, DatabaseKind

MIGRATIONS: Final = Path(__file__).parent / "migrations"

TABLES_THERE: Final = {
    # not to_regclass: it answers from a cache that does not know yet what others made while we waited for them
    DatabaseKind.POSTGRES: """
        SELECT name FROM {rows: name text} WHERE name IN (
            SELECT '"' || n.nspname || '".' || c.relname
            FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace)
    """,
    DatabaseKind.SQLITE: "SELECT name FROM {rows: name text} WHERE name IN (SELECT name FROM sqlite_master)",
}
READ_VERSION: Final = "SELECT value FROM {meta} WHERE key = 'schema_version'"
WRITE_VERSION: Final = """
    INSERT INTO {meta} (key, value) VALUES ('schema_version', :version)
    ON CONFLICT (key) DO UPDATE SET value = excluded.value
"""
NEW_IDENTITY: Final = """
    INSERT INTO {meta} (key, value) VALUES ('database_id', :database_id), ('generation', :generation)
    ON CONFLICT (key) DO NOTHING
"""
READ_IDENTITY: Final = "SELECT key, value FROM {meta} WHERE key IN ('database_id', 'generation')"
WRITE_IDENTITY: Final = """
    INSERT INTO {meta} (key, value) VALUES ('database_id', :database_id), ('generation', :generation)
    ON CONFLICT (key) DO UPDATE SET value = excluded.value
"""
CREATE_META: Final = "CREATE TABLE {meta} (key {text} PRIMARY KEY, value {text} NOT NULL) {keyed}"


@dataclass(frozen=True, slots=True)
class DatabaseIdentity:
    """The identity of a database; each restore makes another generation."""

    database_id: str = ""
    generation: str = ""

    def __str__(self) -> str:
        return f"{self.database_id}, generation {self.generation}"


def schema_version(db: Database) -> int:
    """The version of the schema, 0 when there is none. Tables of our names that are not ours: ForeignDatabase."""
    with db.read() as tx:
        return _version(db, tx)


def latest_version(folder: Path = MIGRATIONS) -> int:
    """The version that this program needs."""
    return len(_migrations(folder))


def upgrade(db: Database, folder: Path = MIGRATIONS, until: int | None = None) -> list[str]:
    """Apply what is missing, up to a version if one is named; the names of what was applied."""
    version, migrations = schema_version(db), _migrations(folder)
    _refuse_newer(db, version, len(migrations))
    missing = list(enumerate(migrations[:until], 1))[version:]
    return [path.stem for number, path in missing if _apply(db, number, path)]


def require_current(db: Database, folder: Path = MIGRATIONS) -> None:
    """Make sure that the schema is the one this code was written for.

    SQLite brings itself up to date; PostgreSQL that is empty or behind is SchemaBehind; newer is ForeignDatabase.
    """
    version, latest = schema_version(db), len(_migrations(folder))
    _refuse_newer(db, version, latest)
    if version == latest:
        return
    if db.dialect.kind is DatabaseKind.POSTGRES:
        raise SchemaBehind(
            f"The schema of {db.name} is {f'version {version}' if version else 'not there yet'}, "
            f"this program needs version {latest}: run `ostinato db upgrade`."
        )
    upgrade(db, folder)


def _migrations(folder: Path) -> list[Path]:
    """In order; the first is 0001, and none is missing."""
    paths = sorted(folder.glob("[0-9][0-9][0-9][0-9]_*.sql"))
    if [int(path.name[:4]) for path in paths] != list(range(1, len(paths) + 1)):
        raise StoreError(f"The migrations in {folder} are not numbered 0001, 0002, …")
    return paths


def _apply(db: Database, number: int, path: Path) -> bool:
    with db.write(math.inf) as tx:
        _wait_for_others(db, tx)
        version = _version(db, tx)
        if version >= number:
            return False
        if version == 0:
            _make_room(db, tx)
        for statement in db.dialect.script(path.read_text("utf-8")):
            tx.run(statement)
        tx.run(db.dialect.statement(WRITE_VERSION), version=str(number))
        tx.run(db.dialect.statement(NEW_IDENTITY), database_id=new_name(), generation=new_name())
    return True


def identity_of(db: Database) -> DatabaseIdentity:
    """Read which database this is; the schema must be there."""
    with db.read() as tx:
        return DatabaseIdentity(**dict(tx.rows(db.dialect.statement(READ_IDENTITY))))


def write_identity(db: Database, tx: Tx, identity: DatabaseIdentity) -> None:
    """Give a database that is filled from another one the identity that it should have."""
    tx.run(db.dialect.statement(WRITE_IDENTITY), **asdict(identity))


def new_name() -> str:
    """Make a name that no other database has."""
    return secrets.token_hex(8)


def _wait_for_others(db: Database, tx: Tx) -> None:
    if db.dialect.kind is DatabaseKind.POSTGRES:  # SQLite has one writer
        key = zlib.crc32(b"ostinato " + db.dialect.schema.encode())
        tx.rows(db.dialect.statement("SELECT pg_advisory_xact_lock(:key)"), key=key)


def _make_room(db: Database, tx: Tx) -> None:
    if db.dialect.kind is DatabaseKind.POSTGRES:
        there = db.dialect.statement("SELECT 1 FROM pg_namespace WHERE nspname = :schema")
        if not tx.rows(there, schema=db.dialect.schema):  # IF NOT EXISTS would ask for the right to make it
            tx.run(db.dialect.statement("CREATE SCHEMA {schema}"))
    tx.run(db.dialect.statement(CREATE_META))


def _version(db: Database, tx: Tx) -> int:
    names = [(db.dialect.table(name),) for name in sorted(TABLES)]
    there = tx.rows(db.dialect.statement(TABLES_THERE[db.dialect.kind]), names)
    if not there:
        return 0
    if (db.dialect.table("meta"),) not in there:
        raise ForeignDatabase(f"{db.name} has a table {there[0][0]} that is not ours: it is left as it is.")
    return _version_in_meta(db, tx)


def _version_in_meta(db: Database, tx: Tx) -> int:
    try:
        return int(tx.rows(db.dialect.statement(READ_VERSION))[0][0])
    except (StoreUnavailable, RightsMissing):
        raise
    except (StoreError, IndexError, ValueError) as error:
        table = db.dialect.table("meta")
        raise ForeignDatabase(
            f"{db.name} has a table {table} that is not ours: it is left as it is."
        ) from error


def _refuse_newer(db: Database, version: int, latest: int) -> None:
    if version > latest:
        raise ForeignDatabase(
            f"The schema of {db.name} is version {version}, this program knows {latest}: use a newer Ostinato."
        )

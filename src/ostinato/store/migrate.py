"""The schema and its versions.

A migration is `migrations/NNNN_name.sql`, written in the words of `dialect`; the current version is in `{meta}` under
`version:core`. Migrations only add. Each is one transaction; concurrent callers wait for each other.
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
    # not to_regclass: its cache may lack tables that others made while we waited for them
    DatabaseKind.POSTGRES: """
        SELECT name FROM {rows: name text} WHERE name IN (
            SELECT '"' || n.nspname || '".' || c.relname
            FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace)
    """,
    DatabaseKind.SQLITE: "SELECT name FROM {rows: name text} WHERE name IN (SELECT name FROM sqlite_master)",
}
# Before the first release versions were counted under `schema_version`; such a database is refused.
READ_VERSION: Final = "SELECT key, value FROM {meta} WHERE key IN ('version:core', 'schema_version') ORDER BY key"
WRITE_VERSION: Final = """
    INSERT INTO {meta} (key, value) VALUES ('version:core', :version)
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
UNRELEASED: Final = (
    "{name} was made by an unreleased version: export its jobs there (`ostinato export`), "
    "and import them into a new database."
)
CREATE_META: Final = "CREATE TABLE {meta} (key {text} PRIMARY KEY, value {text} NOT NULL) {keyed}"


@dataclass(frozen=True, slots=True)
class DatabaseIdentity:
    """The identity of a database; each restore makes a new generation."""

    database_id: str = ""
    generation: str = ""

    def __str__(self) -> str:
        return f"{self.database_id}, generation {self.generation}"


def schema_version(db: Database) -> int:
    """Return the version of the schema, 0 without one. Raise ForeignDatabase if tables with our names are not ours."""
    with db.read() as tx:
        return _version(db, tx)


def latest_version(folder: Path | None = None) -> int:
    """Return the version that this program needs."""
    return len(_migrations(folder))


def upgrade(db: Database, folder: Path | None = None, until: int | None = None) -> list[str]:
    """Apply the missing migrations, up to a version if one is given; return their names."""
    version, migrations = schema_version(db), _migrations(folder)
    _refuse_newer(db, version, len(migrations))
    missing = list(enumerate(migrations[:until], 1))[version:]
    return [path.stem for number, path in missing if _apply(db, number, path)]


def require_current(db: Database, folder: Path | None = None) -> None:
    """Raise unless the schema is the one of this program.

    SQLite is upgraded in place; PostgreSQL without a schema or with an older one raises SchemaBehind; a newer one
    raises ForeignDatabase.
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


def _migrations(folder: Path | None) -> list[Path]:
    """Return the migrations in order; they are numbered from 0001 without gaps."""
    folder = folder or MIGRATIONS
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
    """Read the identity of a database; its schema must exist."""
    with db.read() as tx:
        return DatabaseIdentity(**dict(tx.rows(db.dialect.statement(READ_IDENTITY))))


def write_identity(db: Database, tx: Tx, identity: DatabaseIdentity) -> None:
    """Write the identity of a database that is filled from another one."""
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
        if not tx.rows(there, schema=db.dialect.schema):  # IF NOT EXISTS would need the right to create it
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
        found: dict[str, str] = dict(tx.rows(db.dialect.statement(READ_VERSION)))
        if "schema_version" in found:
            raise ForeignDatabase(UNRELEASED.format(name=db.name))
        return int(found["version:core"])
    except (StoreUnavailable, RightsMissing, ForeignDatabase):
        raise
    except (StoreError, KeyError, ValueError) as error:
        table = db.dialect.table("meta")
        raise ForeignDatabase(f"{db.name} has a table {table} that is not ours: it is left as it is.") from error


def _refuse_newer(db: Database, version: int, latest: int) -> None:
    if version > latest:
        raise ForeignDatabase(
            f"The schema of {db.name} is version {version}, this program knows {latest}: use a newer Ostinato."
        )

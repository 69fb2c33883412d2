"""The schema and its versions.

A migration is `migrations/NNNN_name.sql`, written in the words of `dialect`. The kernel and each feature with tables
have migrations and a version of their own, in `{meta}` under `version:core` and `version:NAME`. The kernel's migrations
are applied first. Migrations only add. Each is one transaction; concurrent callers wait for each other.
"""

import math
import secrets
import zlib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Final

from ostinato.core.errors import ForeignDatabase, RightsMissing, SchemaBehind, StoreError, StoreUnavailable
from ostinato.core.read_models import DatabaseIdentity
from ostinato.feature import Features
from ostinato.store.database import Database, Tx
from ostinato.store.dialect import DatabaseKind

MIGRATIONS: Final = Path(__file__).parent / "migrations"
CORE: Final = "core"  # the owner of the kernel's migrations
VERSION: Final = "version:"

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
READ_VERSIONS: Final = "SELECT key, value FROM {meta} WHERE key LIKE 'version:%' OR key = 'schema_version'"
WRITE_VERSION: Final = """
    INSERT INTO {meta} (key, value) VALUES (:key, :version)
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


def versions(db: Database) -> dict[str, int]:
    """Return the versions of the schema by owner, none without a schema.

    Raise ForeignDatabase if tables with our names are not ours.
    """
    with db.read() as tx:
        return _versions(db, tx)


def schema_version(db: Database) -> int:
    """Return the version of the kernel's tables, 0 without a schema."""
    return versions(db).get(CORE, 0)


def latest_versions(features: Features, folder: Path | None = None) -> dict[str, int]:
    """Return the versions that this program needs, by owner. `folder`: the migrations of the kernel."""
    return {owner: len(_migrations(path)) for owner, path in _owners(features, folder).items()}


def upgrade(db: Database, folder: Path | None = None, until: Mapping[str, int] | None = None) -> list[str]:
    """Apply the missing migrations, up to these versions if any are given; return their names."""
    there = versions(db)
    _refuse_newer(db, there, latest_versions(db.features, folder))
    applied = list[str]()
    for owner, path in _owners(db.features, folder).items():
        last = None if until is None else until.get(owner, 0)
        missing = list(enumerate(_migrations(path)[:last], 1))[there.get(owner, 0) :]
        applied += [_shown(owner, file) for number, file in missing if _apply(db, owner, number, file)]
    return applied


def require_current(db: Database, folder: Path | None = None) -> None:
    """Raise unless the schema is the one of this program.

    SQLite is upgraded in place; PostgreSQL without a schema or with an older one raises SchemaBehind; a newer one
    raises ForeignDatabase.
    """
    there, latest = versions(db), latest_versions(db.features, folder)
    _refuse_newer(db, there, latest)
    if is_current(there, latest):
        return
    if db.dialect.kind is DatabaseKind.POSTGRES:
        raise SchemaBehind(
            f"The schema of {db.name} is {written(there)}, this program needs {written(latest)}: "
            "run `ostinato db upgrade`."
        )
    try:
        upgrade(db, folder)
    except StoreUnavailable as error:
        raise StoreUnavailable(
            f"{error} Its tables must be {'upgraded' if there else 'created'} first, but another transaction writes. "
            "If it is your own: open the database at start, with `app.open()`, in the lifespan for example."
        ) from error


def is_current(there: Mapping[str, int], latest: Mapping[str, int]) -> bool:
    """Return True if the tables fit this program; those of features that it lacks do not matter."""
    return all(there.get(owner, 0) == version for owner, version in latest.items())


def missing_features(there: Mapping[str, int], features: Features) -> list[str]:
    """List the features that these versions name, and this process does not have."""
    return sorted(name for name in there if name != CORE and features.named(name) is None)


def written(there: Mapping[str, int]) -> str:
    """Return versions for people: that of the kernel, and those of features that are not 1."""
    if not there:
        return "not there yet"
    others = [f"{owner} {version}" for owner, version in sorted(there.items()) if owner != CORE and version != 1]
    return ", ".join([f"version {there.get(CORE, 0)}", *others])


def _owners(features: Features, folder: Path | None) -> dict[str, Path]:
    """Return the folders of migrations by owner, that of the kernel first."""
    core = folder or MIGRATIONS
    return {CORE: core} if folder else {CORE: core, **features.folders("migrations")}


def _shown(owner: str, file: Path) -> str:
    return file.stem if owner == CORE else f"{owner} {file.stem}"


def _migrations(folder: Path) -> list[Path]:
    """Return the migrations in order; they are numbered from 0001 without gaps."""
    paths = sorted(folder.glob("[0-9][0-9][0-9][0-9]_*.sql"))
    if [int(path.name[:4]) for path in paths] != list(range(1, len(paths) + 1)):
        raise StoreError(f"The migrations in {folder} are not numbered 0001, 0002, …")
    return paths


def _apply(db: Database, owner: str, number: int, path: Path) -> bool:
    with db.write(math.inf) as tx:
        _wait_for_others(db, tx)
        there = _versions(db, tx)
        if there.get(owner, 0) >= number:
            return False
        if not there:
            _make_room(db, tx)
        for statement in db.dialect.script(path.read_text("utf-8")):
            tx.run(statement)
        tx.run(db.dialect.statement(WRITE_VERSION), key=VERSION + owner, version=str(number))
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


def _versions(db: Database, tx: Tx) -> dict[str, int]:
    names = [(db.dialect.table(name),) for name in sorted(db.dialect.tables)]
    there = tx.rows(db.dialect.statement(TABLES_THERE[db.dialect.kind]), names)
    if not there:
        return {}
    if (db.dialect.table("meta"),) not in there:
        raise ForeignDatabase(f"{db.name} has a table {there[0][0]} that is not ours: it is left as it is.")
    return _versions_in_meta(db, tx)


def _versions_in_meta(db: Database, tx: Tx) -> dict[str, int]:
    try:
        found: dict[str, str] = dict(tx.rows(db.dialect.statement(READ_VERSIONS)))
        if "schema_version" in found:
            raise ForeignDatabase(UNRELEASED.format(name=db.name))
        there = {key.removeprefix(VERSION): int(value) for key, value in found.items()}
        return {CORE: there[CORE], **there}
    except (StoreUnavailable, RightsMissing, ForeignDatabase):
        raise
    except (StoreError, KeyError, ValueError) as error:
        table = db.dialect.table("meta")
        raise ForeignDatabase(f"{db.name} has a table {table} that is not ours: it is left as it is.") from error


def _refuse_newer(db: Database, there: Mapping[str, int], latest: Mapping[str, int]) -> None:
    if any(there.get(owner, 0) > version for owner, version in latest.items()):
        raise ForeignDatabase(
            f"The schema of {db.name} is {written(there)}, this program knows {written(latest)}: use a newer Ostinato."
        )

"""Read-only views for queries that people have: `jobs` and `job_executions` of seed 003, `retries` of seed 000.

`ostinato db views` creates them in a schema of PostgreSQL, or with a prefix. Nothing is written to a view; each UPDATE
of the past has a command (docs/coming-from). One text serves both databases; a word such as
`@at(j.created_at)` stands for what each of them writes for an instant.
"""

import math
import re
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

from ostinato.config import Settings
from ostinato.core.errors import Conflict, Invalid
from ostinato.store import migrate
from ostinato.store.database import Database, Tx, open_database
from ostinato.store.dialect import DatabaseKind, split_by_name

TEXT: Final = Path(__file__).parent / "old_queries" / "views.sql"
NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,39}")
DEFAULT_SCHEMA: Final = "old"
MARK: Final = "made by ostinato db views"
WORD: Final = re.compile(r"@(\w+)\(((?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*)\)")

# What a word stands for; {0} is its first argument, {1} the members of JSON.
WORDS: Final[Mapping[DatabaseKind, Mapping[str, str]]] = {
    DatabaseKind.POSTGRES: {
        "uuid": "{0}",
        "words": "CAST({0} AS text)",
        "at": "(CAST('epoch' AS timestamptz) + CAST({0} AS bigint) * interval '1 microsecond')",
        "text": "(CAST({0} AS jsonb) #>> '{{{1}}}')",
        "number": "CAST(CAST(CAST({0} AS jsonb) #>> '{{{1}}}' AS double precision) AS bigint)",
        "json": "CAST({0} AS jsonb)",
        "boolean": "({0})",
        "now": "CAST(extract(epoch FROM now()) * 1000000 AS bigint)",
        "minutes": "CAST(extract(epoch FROM CAST((CAST({0} AS jsonb) #>> '{{{1}}}') AS interval)) / 60 AS integer)",
        "written": "(CAST({0} AS jsonb) #>> '{{{1}}}')",
        "is_like": "{0} ~ '^[0-9]+{1}$'",
    },
    DatabaseKind.SQLITE: {
        "uuid": "{id}",
        "words": "{id}",
        "at": "strftime('%Y-%m-%d %H:%M:%f', ({0}) / 1000000.0, 'unixepoch')",
        "text": "({0} ->> '$.{path}')",
        "number": "CAST({0} ->> '$.{path}' AS INTEGER)",
        "json": "{0}",
        "boolean": "({0})",
        "now": "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)",
        "minutes": (
            "(CAST(coalesce((SELECT sum(CAST(p.value AS INTEGER) * CASE substr(p.value, -1) "
            "WHEN 'w' THEN 10080 WHEN 'd' THEN 1440 WHEN 'h' THEN 60 WHEN 'm' THEN 1 ELSE 0 END) "
            "FROM json_each('[\"' || replace(replace(replace(replace({0} ->> '$.{path}', 'w', 'w\",\"'), "
            "'d', 'd\",\"'), 'h', 'h\",\"'), 'm', 'm\",\"') || '\"]') AS p), 0) AS INTEGER))"
        ),
        "written": "({0} ->> '$.{path}')",
        "is_like": "({0} GLOB '[0-9]*{1}' AND CAST(substr({0}, 1, length({0}) - 1) AS INTEGER) || '{1}' = {0})",
    },
}
HEX: Final = (
    "nullif("
    + " || '-' || ".join(
        f"lower(substr(hex({{0}}), {first}, {length}))"
        for first, length in ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))
    )
    + ", '----')"
)
SIZES: Final = {"days": 1440, "hours": 60, "minutes": 1}


def create(url: str | None, schema: str | None, prefix: str) -> list[str]:
    """Create the views, or replace those that this command has made; return their names."""
    with closing(_opened(url)) as database:
        names = _names(database, schema, prefix)
        with database.write(math.inf) as tx:
            if database.dialect.kind is DatabaseKind.POSTGRES:
                _run(database, tx, f'CREATE SCHEMA IF NOT EXISTS "{schema or DEFAULT_SCHEMA}"')
            for name, text in statements(database.dialect.kind).items():
                _drop(database, tx, names[name])
                _run(database, tx, f"CREATE VIEW {names[name]} AS\n{text}")
                if database.dialect.kind is DatabaseKind.POSTGRES:
                    _run(database, tx, f"COMMENT ON VIEW {names[name]} IS '{MARK}'")
        return list(names.values())


def drop(url: str | None, schema: str | None, prefix: str) -> list[str]:
    """Remove the views that this command has made; return their names."""
    with closing(_opened(url)) as database:
        names = _names(database, schema, prefix)
        with database.write(math.inf) as tx:
            return [name for name in names.values() if _drop(database, tx, name)]


def statements(kind: DatabaseKind) -> dict[str, str]:
    """Return the SELECT of each view, in the words of our dialect for the tables."""
    mark = "" if kind is DatabaseKind.POSTGRES else f"/* {MARK} */ "
    found = {}
    for name, _, body in split_by_name(TEXT.read_text("utf-8")):
        lines = [line for line in body.strip().splitlines() if not line.startswith("--")]
        found[name] = mark + _written("\n".join(lines), kind)
    return found


def _written(text: str, kind: DatabaseKind) -> str:
    """Replace the words by what the database writes, the inner ones first."""

    def one(match: re.Match[str]) -> str:
        word, inner = match[1], _written(match[2].strip(), kind)
        if word in ("interval_minutes", "interval_type"):
            return _interval(word, inner, kind)
        return _word(word, inner, kind)

    return WORD.sub(one, text)


def _word(word: str, inner: str, kind: DatabaseKind) -> str:
    known = WORDS[kind][word]
    if word not in ("text", "number", "minutes", "written"):
        return known.replace("{id}", HEX).replace("{0}", inner)
    value, _, path = inner.rpartition(" ")
    members = path.replace(".", ",")
    return known.replace("{{{1}}}", f"{{{members}}}").replace("{path}", path).replace("{0}", value)


def _interval(word: str, inner: str, kind: DatabaseKind) -> str:
    """Return the number of an interval, or its unit: the one that was written, else the largest that divides it."""
    minutes, written = _word("minutes", inner, kind), _word("written", inner, kind)
    cases = []
    for unit, size in SIZES.items():
        like = WORDS[kind]["is_like"].replace("{0}", written).replace("{1}", unit[0])
        result = f"'{unit}'" if word == "interval_type" else f"{minutes} / {size}"
        cases.append((f"WHEN {like} THEN {result}", f"WHEN {minutes} % {size} = 0 THEN {result}"))
    return "CASE " + " ".join([*(first for first, _ in cases), *(second for _, second in cases)]) + " END"


def _names(database: Database, schema: str | None, prefix: str) -> dict[str, str]:
    if prefix and not NAME.fullmatch(prefix):
        raise Invalid(f"--prefix is small letters, digits and _, at most 40, not {prefix[:60]!r}.")
    names = [name for name, _, _ in split_by_name(TEXT.read_text("utf-8"))]
    if database.dialect.kind is DatabaseKind.SQLITE:
        if schema is not None:
            raise Invalid("SQLite has no schemas: give the views a --prefix.")
        return {name: f'"{prefix}{name}"' for name in names}
    schema = schema or DEFAULT_SCHEMA
    if not NAME.fullmatch(schema):
        raise Invalid(f"--schema is small letters, digits and _, at most 40, not {schema[:60]!r}.")
    if schema == database.dialect.schema and not prefix:
        raise Invalid(f"The schema {schema} has our own tables: choose another one, or give a --prefix.")
    return {name: f'"{schema}"."{prefix}{name}"' for name in names}


def _drop(database: Database, tx: Tx, name: str) -> bool:
    """Drop a view of ours. Conflict if the name is somebody else's."""
    mark = _mark(database, tx, name)
    if mark is None:
        return False
    if MARK not in mark:
        raise Conflict(f"There is {name} already, which is not ours: choose another --prefix or --schema.")
    _run(database, tx, f"DROP VIEW {name}")
    return True


def _mark(database: Database, tx: Tx, name: str) -> str | None:
    """Return the mark of what has a name; None if nothing has it."""
    if database.dialect.kind is DatabaseKind.SQLITE:
        statement = "SELECT coalesce(sql, '') FROM sqlite_master WHERE name = :name"
        found = tx.rows(database.dialect.statement(statement), name=name.strip('"'))
    else:
        statement = (
            "SELECT coalesce(obj_description(to_regclass(:name), 'pg_class'), '') WHERE to_regclass(:name) IS NOT NULL"
        )
        found = tx.rows(database.dialect.statement(statement), name=name)
    return str(found[0][0]) if found else None


def _run(database: Database, tx: Tx, text: str) -> None:
    tx.run(database.dialect.statement(text))


def _opened(url: str | None) -> Database:
    settings = Settings.load({"database_url": url})
    database = open_database(settings.database_url, schema=settings.schema)
    try:
        migrate.require_current(database)
    except BaseException:
        database.close()
        raise
    return database

"""Stages: tables of ours in which a run collects its records until it is complete.

A stage belongs to one source. Its columns have the names and types of a batch, so the statements of `table_statements`
read a stage as they read a batch. With `replace` it has the records of the run, otherwise their keys alone.
"""

from dataclasses import dataclass
from hashlib import blake2b

from ostinato.features.sources.rules.tables import ColumnType, Target, WriteMode
from ostinato.features.sources.table_statements import SENT_AS, Copying, TargetTable, quoted
from ostinato.store.dialect import DatabaseKind, Dialect, Statement


@dataclass(frozen=True, slots=True)
class RunStage:
    """The table in which a run collects its records until it is complete. Without `replace` it has their keys alone."""

    name: str
    creation: tuple[str, ...]
    columns: tuple[str, ...]  # names and types, to tell whether an existing one fits
    picks: tuple[int, ...]  # the cells of a row that it has
    add: Statement  # rows whose hash it lacks
    change: Statement  # rows that it has already
    count: Statement
    empty: Statement
    copying: Copying | None


def stage_name(target: Target, schema: str, dialect: Dialect) -> str:
    """Return the quoted name of a target's stage. It does not begin with `ostinato_`: a backup is without it."""
    of = blake2b(f"{target.source}\0{target.table}".encode(), digest_size=10).hexdigest()
    if dialect.kind is DatabaseKind.POSTGRES and not target.database:
        return f"{quoted(dialect.schema)}.in_{of}"
    name = f"ostinatostage_{of}"
    return f"{quoted(schema)}.{name}" if schema else name


def stage_of(target: Target, place: TargetTable, name: str, dialect: Dialect) -> RunStage:
    """Return the stage of a target. Its columns have the names and types of a batch: c0, c1 …, row, hash."""
    is_postgres, blob = dialect.kind is DatabaseKind.POSTGRES, dialect.type_of("bytes")
    key = [] if place.ours else [number for number, each in enumerate(target.columns) if each.name in target.key]
    picks = list(range(len(target.columns))) if target.mode is WriteMode.REPLACE else key
    sent = {f"c{number}": SENT_AS.get(target.columns[number].type, "text") for number in picks}
    kinds = {column: dialect.type_of(kind) for column, kind in sent.items()}
    if not is_postgres and not place.ours:  # so that its cells compare as those of the table do
        kinds = {f"c{each}": found.type for each in picks if (found := place.find(target.columns[each].name))}
    every = [*sent, "row", "hash"]
    names, values = ", ".join(every), ", ".join(f"u.{column}" for column in every)
    batch = ", ".join(f"{column} {kind}" for column, kind in {**sent, "row": "bytes", "hash": "bytes"}.items())
    columns = [*(f"{column} {kind}" for column, kind in kinds.items()), f"row {blob}", f"hash {blob} PRIMARY KEY"]
    creation = [f"CREATE TABLE {name} ({', '.join(columns)}){'' if is_postgres else ' WITHOUT ROWID'}"]
    if key:
        index = name.rpartition(".")[2] + "_key"
        creation.append(f"CREATE INDEX {index} ON {name} ({', '.join(f'c{each}' for each in key)})")
    cells, made = ", ".join(f"{column} = u.{column}" for column in every), dialect.statement
    add = (
        f"INSERT INTO {name} ({names}) SELECT {values} FROM {{rows: {batch}}} WHERE true ON CONFLICT (hash) DO NOTHING"
    )
    by_hash = "t.hash = ANY (ARRAY[u.hash])" if is_postgres else "t.hash = u.hash"
    change = (
        f"UPDATE {name} AS t SET {cells} FROM {{rows: {batch}}} WHERE {by_hash} AND t.row {{is_distinct_from}} u.row"
    )
    return RunStage(
        name, tuple(creation), tuple(columns), tuple(picks), made(add, "add_to_stage"), made(change, "change_stage"),
        made(f"SELECT count(*) FROM {name}", "count_stage"),
        made(f"TRUNCATE {name}" if is_postgres else f"DELETE FROM {name}", "empty_stage"),
        _copying_to_stage(name, names, list(sent.values()), dialect) if is_postgres else None,
    )  # fmt: skip


def _copying_to_stage(name: str, names: str, sent: list[str], dialect: Dialect) -> Copying:
    kinds = {"bigint": ColumnType.INTEGER, "double": ColumnType.NUMBER, "text": ColumnType.TEXT}
    there = f"SELECT hash FROM {name} WHERE hash {{in: hashes bytes}}"
    into = f"COPY {name} ({names}) FROM STDIN (FORMAT binary)"
    return Copying(
        dialect.statement(there, "stage_there"),
        dialect.statement(into, "copy_stage"),
        (*(kinds[each] for each in sent), None),
        (),
    )

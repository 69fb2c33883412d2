"""SQL written once for two databases, in files of named statements.

Each statement stands under a line `-- name: claim`. If the two databases must differ, there are two bodies,
`-- name: claim [postgres]` and `-- name: claim [sqlite]`. Comments below the name describe the statement.

A statement may contain, besides SQL (never inside quotes):

    :now                             a parameter
    {jobs} {live} …                  our tables (`TABLES`), and those of features
    {columns live} {rows of live} …  the columns of a table (see columns.py)
    {rows: id uuid, fence bigint}    the rows of the batch, as a table `u`; its columns are written u.id, u.fence,
                                     and it stands alone after FROM, or before CROSS JOIN
    {shared: task text, slot bigint} parameters of these names and types, one after the other: shared by all rows
    {in: ids uuid}                   `= ANY (…)` / `IN (…)` over a list parameter: `WHERE j.id {in: ids uuid}`
    {found_by: l.id u.id}            `l.id = u.id`: the left is looked up by the right, never vice versa
    {for_update} {for_update_skip_locked} {for_share}      row locks, also `{for_update of j}`; SQLite has none
    {greatest} {least}               the greatest or least of several values, none null
    {position}                       `{position}(text, part)`: the position of a part in a text, 0 if missing
    {part chosen_jobs}               the text in this file under a line `-- part: chosen_jobs`
    {is_distinct_from} {is_not_distinct_from}              comparisons for which null equals null
    {uuid} {instant} {bigint} {double} {text} {json} {bytes}    types; all but {text} also in CAST(:x AS {uuid})
    {keyed} {strict} {fillfactor 50} {schema} {prefix}    for migrations; {prefix} begins an index's name

In a migration, lines below `-- [sqlite]` or `-- [postgres]` are for that database only, until the next such line or the
end of the file.

An instant is a whole number of microseconds since 1970 (UTC), an id a uuid (16 bytes), JSON plain text; {text}
is compared byte by byte on both databases. A type in `{rows: …}`, `{shared: …}` and `{in: …}` is one of those seven.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from ostinato.core.errors import InvalidSetting, StoreError
from ostinato.store.columns import with_columns

TABLES: Final = frozenset(
    "jobs live limits executions skips events workers queues hours api_keys sessions answers logs "
    "log_sizes dependencies deferrals "
    "barred declined task_schemas meta job_status".split()
)


TOKEN: Final = re.compile(
    r"""(?P<quoted>'(?:[^']|'')*'|"[^"]*")
      | (?P<comment>--[^\n]*)
      | (?P<cast>::)
      | :(?P<parameter>[a-z_][a-z0-9_]*)
      | \{(?P<word>[^{}]*)\}""",
    re.VERBOSE,
)
ONLY_FOR: Final = re.compile(r"^-- \[(postgres|sqlite)\]$", re.MULTILINE)
COLUMN: Final = re.compile(r"(?P<name>[a-z_][a-z0-9_]*) (?P<type>uuid|instant|bigint|double|text|json|bytes)")
IDENTIFIER: Final = re.compile(r"[a-z_][a-z0-9_]{0,39}")
ROW_LOCK: Final = re.compile(r"(?P<lock>for_update_skip_locked|for_update|for_share)(?: of (?P<table>[a-z_]+))?")
U: Final = "{u}"  # the place of the one row
CELL: Final = re.compile(r"\bu\.([a-z_][a-z0-9_]*)")
# VALUES is 4 µs faster for a wide row.
ONLY_CELLS: Final = re.compile(r"SELECT ((?:\?\d+|NULL|''|,\s+)+)\s+WHERE true")
FILLFACTOR: Final = re.compile(r"fillfactor (?P<percent>\d+)")


class DatabaseKind(StrEnum):
    POSTGRES = "postgres"
    SQLITE = "sqlite"


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement, ready for its driver."""

    name: str
    sql: str
    about: str
    parameters: tuple[str, ...]  # scalars and lists, in the order of $1, $2 …
    lists: Mapping[str, str]  # the lists among them → type
    columns: tuple[tuple[str, str], ...]  # of the batch: name, type
    used: tuple[int, ...]  # the positions of the columns that it names; on PostgreSQL the last $s
    each: str = ""  # SQLite: the statement for one row, its columns as ?1, ?2 …, then the parameters


@dataclass(frozen=True, slots=True)
class Dialect:
    """The SQL of one kind of database."""

    kind: DatabaseKind
    schema: str = "ostinato"
    tables: frozenset[str] = TABLES

    def __post_init__(self) -> None:
        if not IDENTIFIER.fullmatch(self.schema):
            raise InvalidSetting(
                f"The schema {self.schema!r} cannot be used: take small letters, digits and _, at most 40."
            )

    def statement(self, text: str, name: str = "") -> Statement:
        """Render one statement."""
        text = with_columns(text)
        rendered = _Rendering(self, name).render(text)
        if self.kind is DatabaseKind.POSTGRES or not rendered.columns:
            return rendered
        return replace(rendered, each=_RowByRow(self, name, rendered).render(text).sql)

    def statements(self, text: str) -> dict[str, Statement]:
        """Render a file of named statements; each must exist for both databases."""
        found: dict[str, dict[DatabaseKind, str]] = {}
        for name, only, body in split_by_name(with_parts(text)):
            bodies, kinds = found.setdefault(name, {}), [DatabaseKind(only)] if only else list(DatabaseKind)
            if bodies.keys() & set(kinds):
                raise StoreError(f"The statement {name} is written twice.")
            bodies.update(dict.fromkeys(kinds, body))
        for name, bodies in found.items():
            if missing := [kind for kind in DatabaseKind if kind not in bodies]:
                raise StoreError(f"The statement {name} is missing for {missing[0]}.")
        return {name: self.statement(bodies[self.kind], name) for name, bodies in found.items()}

    def script(self, text: str) -> list[Statement]:
        """Render a migration: statements that end with `;` at the end of a line, without parameters."""
        if "$$" in text:
            raise StoreError("A migration cannot hold $$ bodies.")
        bare = "\n".join(line.rstrip() for line in _without_comments(self._own(text)).splitlines())
        parts = [self.statement(part) for part in re.split(r";$", bare, flags=re.MULTILINE) if part.strip()]
        if any(part.parameters or part.columns for part in parts):
            raise StoreError("A migration cannot have parameters.")
        return parts

    def _own(self, text: str) -> str:
        """Return the part of a migration that applies to this kind of database."""
        first, *sections = ONLY_FOR.split(text)  # text, then pairs of kind and text
        own = (part for kind, part in zip(sections[::2], sections[1::2], strict=True) if kind == self.kind)
        return "".join((first, *own))

    def table(self, name: str) -> str:
        """Return the SQL name of one of our tables."""
        return f'"{self.schema}".{name}' if self.kind is DatabaseKind.POSTGRES else f"ostinato_{name}"

    def type_of(self, name: str) -> str:
        """Return the SQL type of a column."""
        return TYPES[self.kind][name]


TYPES: Final[Mapping[DatabaseKind, Mapping[str, str]]] = {
    DatabaseKind.POSTGRES: {
        "uuid": "uuid",
        "instant": "bigint",
        "bigint": "bigint",
        "double": "double precision",
        "text": "text",
        "json": "text",
        "bytes": "bytea",
    },
    DatabaseKind.SQLITE: {
        "uuid": "BLOB",
        "instant": "INTEGER",
        "bigint": "INTEGER",
        "double": "REAL",
        "text": "TEXT",
        "json": "TEXT",
        "bytes": "BLOB",
    },
}

WORDS: Final[Mapping[DatabaseKind, Mapping[str, str]]] = {
    DatabaseKind.POSTGRES: {
        "greatest": "GREATEST",
        "least": "LEAST",
        "position": "strpos",
        "is_distinct_from": "IS DISTINCT FROM",
        "is_not_distinct_from": "IS NOT DISTINCT FROM",
        "keyed": "",
        "strict": "",
        "prefix": "",
        **TYPES[DatabaseKind.POSTGRES],
        "text": 'text COLLATE "C"',
    },
    DatabaseKind.SQLITE: {
        "greatest": "max",
        "least": "min",
        "position": "instr",
        "is_distinct_from": "IS NOT",
        "is_not_distinct_from": "IS",
        "keyed": "STRICT, WITHOUT ROWID",  # rows are stored in the order of their key: one tree fewer to write
        "strict": "STRICT",
        "prefix": "ostinato_",
        **TYPES[DatabaseKind.SQLITE],
    },
}


class _Rendering:
    """The rendering of one statement from text to `Statement`."""

    def __init__(self, dialect: Dialect, name: str) -> None:
        self.dialect = dialect
        self.name = name
        self.postgres = dialect.kind is DatabaseKind.POSTGRES
        self.parameters: list[str] = []
        self.lists: dict[str, str] = {}
        self.columns: tuple[tuple[str, str], ...] = ()
        self.named: set[str] = set()  # the columns of the batch that it names

    def render(self, text: str) -> Statement:
        lines = text.strip().splitlines()
        about = [line.removeprefix("--").strip() for line in lines if line.startswith("--")]
        self.named = set(CELL.findall(text))
        sql = TOKEN.sub(self._token, text).strip().removesuffix(";")
        sql = "\n".join(line.strip() for line in sql.splitlines() if line.strip())
        if not sql:
            raise self._wrong("is empty")
        used = [place for place, (column, _) in enumerate(self.columns) if self._is_used(column)]
        for number, place in enumerate(used, len(self.parameters) + 1):
            sql = sql.replace(f"$rows_{self.columns[place][0]}$", f"${number}")
        label = f"/* {self.name} */ " if self.name else ""
        return Statement(
            self.name, label + sql, " ".join(about), tuple(self.parameters), self.lists, self.columns,
            tuple(used),
        )  # fmt: skip

    def _token(self, match: re.Match[str]) -> str:
        if match["quoted"] or match["cast"]:
            return match[0]
        if match["comment"]:
            return ""
        if match["parameter"]:
            return self._parameter(match["parameter"])
        return self._word(match["word"])

    def _parameter(self, name: str) -> str:
        if name in ("rows", "batch"):
            raise self._wrong(f"cannot call a parameter {name}")
        if name not in self.parameters:
            self.parameters.append(name)
        return f"${self.parameters.index(name) + 1}" if self.postgres else f":{name}"

    def _word(self, word: str) -> str:
        words = WORDS[self.dialect.kind]
        if word in self.dialect.tables:
            return self.dialect.table(word)
        if word in words:
            return words[word]
        if word == "schema" and self.postgres:
            return f'"{self.dialect.schema}"'
        if word.startswith("rows:"):
            return self._rows(word.removeprefix("rows:"))
        if word.startswith("shared:"):
            return self._shared(word.removeprefix("shared:"))
        if word.startswith("in:"):
            return self._in(word.removeprefix("in:"))
        if word.startswith("found_by:"):
            return self._found_by(*word.removeprefix("found_by:").split())
        if match := ROW_LOCK.fullmatch(word):
            return self._row_lock(match["lock"], match["table"])
        if match := FILLFACTOR.fullmatch(word):
            return f"WITH (fillfactor={match['percent']})" if self.postgres else ""
        raise self._wrong(f"has a word that no dialect knows: {{{word}}}")

    def _row_lock(self, lock: str, table: str | None) -> str:
        if not self.postgres:
            return ""  # SQLite has one writer
        verb, skip = lock.removesuffix("_skip_locked"), lock.endswith("_skip_locked")
        of = f" OF {table}" if table else ""
        return verb.replace("_", " ").upper() + of + (" SKIP LOCKED" if skip else "")

    def _rows(self, text: str) -> str:
        columns = self._columns(text)
        if self.columns and self.columns != columns:
            raise self._wrong("can have one batch only")
        self.columns = columns
        if self.postgres:  # their numbers are known after all other parameters
            used = [(name, self.dialect.type_of(kind)) for name, kind in columns if self._is_used(name)]
            arrays = ", ".join(f"$rows_{name}$::{kind}[]" for name, kind in used)
            return f"unnest({arrays}) AS u({', '.join(name for name, _ in used)})"
        cells = [_from_json(f"value->>{i}", kind) for i, (_, kind) in enumerate(columns)]
        ids = leading_ids(columns)
        cells[:ids] = [f"substr(:rows_ids, key * {16 * ids} + {16 * i + 1}, 16)" for i in range(ids)]
        fields = (f"{cell} AS {name}" for cell, (name, _) in zip(cells, columns, strict=True))
        return f"(SELECT {', '.join(fields)} FROM json_each(:rows)) AS u"

    def _is_used(self, column: str) -> bool:
        """Return True if the statement names this column of the batch. A statement that names none gets all."""
        return column in self.named or not self.named

    def _shared(self, text: str) -> str:
        given = ((self._parameter(name), self.dialect.type_of(kind)) for name, kind in self._columns(text))
        return ", ".join(f"{name}::{kind}" if self.postgres else name for name, kind in given)

    def _in(self, text: str) -> str:
        name, kind = self._column(text.strip())
        if self.lists.setdefault(name, kind) != kind:
            raise self._wrong(f"gives the list {name} two types")
        parameter = self._parameter(name)
        if self.postgres:
            return f"= ANY ({parameter}::{self.dialect.type_of(kind)}[])"
        if kind == "uuid":  # one blob: half the cost of hexadecimal text
            return f"IN (SELECT substr({parameter}, key * 16 + 1, 16) FROM json_each({self._places(name)}))"
        return f"IN (SELECT {_from_json('value', kind)} FROM json_each({parameter}))"

    def _found_by(self, key: str, other: str) -> str:
        """Make the left side be looked up by the right. PostgreSQL takes a table that was vacuumed while empty for
        empty, and then scans all of it for each row of a batch. It considers that only if it could also merge the two,
        and it cannot with an array. SQLite keeps the order of a CROSS JOIN."""
        table, _, column = key.partition(".")
        if table in self.dialect.tables:  # an alias is not allowed here
            key = f"{self.dialect.table(table)}.{column}"
        return f"{key} = ANY (ARRAY[{other}])" if self.postgres else f"{key} = {other}"

    def _places(self, name: str) -> str:
        """Return a JSON array as long as a list of ids."""
        return f":{name}_places"

    def _columns(self, text: str) -> tuple[tuple[str, str], ...]:
        return tuple(self._column(part.strip()) for part in text.split(","))

    def _column(self, text: str) -> tuple[str, str]:
        match = COLUMN.fullmatch(text)
        if match is None:
            raise self._wrong(f"has a column that is not `name type`: {text}")
        return match["name"], match["type"]

    def _wrong(self, what: str) -> StoreError:
        return StoreError(f"The statement {self.name or 'without a name'} {what}.")


def leading_ids(columns: Sequence[tuple[str, str]]) -> int:
    """Count the leading columns of a batch that are ids: they name the row and are never null."""
    return next((place for place, (_, kind) in enumerate(columns) if kind != "uuid"), len(columns))


def _without_comments(text: str) -> str:
    return TOKEN.sub(lambda match: "" if match["comment"] else match[0], text)


class _RowByRow(_Rendering):
    """Rendering for SQLite of one row at a time: its cells replace `u.column`, and there is no `u` to join.

    Binding a wide row costs half of parsing it from JSON.
    """

    def __init__(self, dialect: Dialect, name: str, whole: Statement) -> None:
        super().__init__(dialect, name)
        self.parameters = list(whole.parameters)
        self.width = len(whole.columns)
        self.place = {column: i for i, (column, _) in enumerate(whole.columns, 1)}

    def render(self, text: str) -> Statement:
        rendered = super().render(text)
        alone = rendered.sql.replace(f"FROM {U} CROSS JOIN ", "FROM ").replace(f"FROM {U}", "")
        bound = CELL.sub(lambda cell: f"?{self.place[cell[1]]}", alone)
        return replace(rendered, sql=ONLY_CELLS.sub(r"VALUES (\1)", bound))

    def _parameter(self, name: str) -> str:
        return f"?{self.width + self.parameters.index(name) + 1}"

    def _places(self, name: str) -> str:
        raise self._wrong("cannot have a batch and a list of ids")

    def _rows(self, text: str) -> str:
        return U


def _from_json(value: str, kind: str) -> str:
    return f"ostinato_uuid({value})" if kind == "uuid" else value


NAME_LINE: Final = re.compile(r"-- name: (?P<name>[a-z_0-9]+)(?: \[(?P<kind>postgres|sqlite)\])?")
PART_LINE: Final = re.compile(r"-- part: (?P<name>[a-z_0-9]+)")
PART: Final = re.compile(r"\{part (?P<name>[a-z_0-9]+)\}")


def with_parts(text: str) -> str:
    """Replace each `{part name}` by the text under `-- part: name`, up to the next name or part."""
    parts: dict[str, list[str]] = {}
    rest: list[str] = []
    into = rest
    for line in text.splitlines():
        if match := PART_LINE.fullmatch(line.rstrip()):
            into = parts.setdefault(match["name"], [])
        elif line.startswith("-- name"):
            into = rest
            rest.append(line)
        elif into is rest or not line.startswith("--"):
            into.append(line)
    whole = "\n".join(rest)
    while match := PART.search(whole):  # a part may contain another
        if match["name"] not in parts:
            raise StoreError(f"There is no part {match['name']}.")
        whole = whole.replace(match[0], "\n".join(parts[match["name"]]).strip())
    return whole


def split_by_name(text: str) -> list[tuple[str, str | None, str]]:
    """Return (name, its database or None, body) of each statement in a file."""
    found: list[tuple[str, str | None, list[str]]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("-- name"):
            match = NAME_LINE.fullmatch(line.rstrip())
            if match is None:
                raise StoreError(f"Line {number} does not name a statement: {line.strip()}")
            found.append((match["name"], match["kind"], []))
        elif found:
            found[-1][2].append(line)
        elif line.strip() and not line.startswith("--"):
            raise StoreError(f"Line {number} stands before the first name.")
    return [(name, kind, "\n".join(lines)) for name, kind, lines in found]

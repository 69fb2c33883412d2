"""SQL written once, for two databases.

Statements live in files, each under a line `-- name: claim`; where the two databases must differ there are
two bodies, `-- name: claim [postgres]` and `-- name: claim [sqlite]`. Comments below the name say what it is for.

What may stand in a statement besides SQL (never inside quotes):

    :now                             a parameter
    {jobs} {live} …                  our tables (`TABLES`)
    {rows: id uuid, fence bigint}    the rows of the batch, as a table `u`; its columns are written u.id, u.fence,
                                     and it stands alone after FROM, or before CROSS JOIN
    {shared: task text, slot bigint} parameters of these names and types, one after the other: what all rows share
    {in: ids uuid}                   `= ANY (…)` / `IN (…)` over a list parameter: `WHERE j.id {in: ids uuid}`
    {found_by: l.id u.id}            `l.id = u.id`: the left is looked up by the right, never the other way round
    {for_update} {for_update_skip_locked} {for_share}      row locks, also `{for_update of j}`; SQLite has none
    {greatest} {least}               of several values, none of them null
    {position}                       `{position}(text, part)`: where a part of a text begins, 0 if it is not in it
    {part chosen_jobs}               what stands in this file under a line `-- part: chosen_jobs`
    {is_distinct_from} {is_not_distinct_from}              comparisons for which null equals null
    {uuid} {instant} {bigint} {double} {text} {json} {bytes}    types; all but {text} also in CAST(:x AS {uuid})
    {keyed} {strict} {fillfactor 50} {schema} {prefix}    for migrations; {prefix} begins an index's name
    {page_words}                     the index of words, in SQLite

In a migration what stands below a line `-- [sqlite]` or `-- [postgres]` is for that one only, to the end of the file
or to the next such line.

An instant is a whole number of microseconds since 1970 (UTC), an id a uuid (16 bytes), JSON plain text; {text}
is compared byte by byte on both databases. A type in `{rows: …}`, `{shared: …}` and `{in: …}` is one of those seven.

Files of named statements: each under a line `-- name: claim`, perhaps for one database only, and with parts that
several of them share (see dialect.py).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from ostinato.core.errors import InvalidSetting, StoreError

TABLES: Final = frozenset(
    "jobs live limits executions skips events workers queues hours api_keys sessions hooks outbox answers logs "
    "log_sizes dependencies workflows workflow_versions pages crawl_urls crawl_hosts providers passages deferrals "
    "templates barred declined task_schemas meta job_status".split()
)
SEARCH_INDEX: Final = "page_words"  # SQLite keeps words in tables of their own; PostgreSQL in a column


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
ROW_LOCK: Final = re.compile(
    r"(?P<lock>for_update_skip_locked|for_update|for_share)(?: of (?P<table>[a-z_]+))?"
)
U: Final = "{u}"  # where the one row would stand
CELL: Final = re.compile(r"\bu\.([a-z_][a-z0-9_]*)")
# VALUES takes 4 µs less for a wide row.
ONLY_CELLS: Final = re.compile(r"SELECT ((?:\?\d+|NULL|''|,\s+)+)\s+WHERE true")
FILLFACTOR: Final = re.compile(r"fillfactor (?P<percent>\d+)")


class DatabaseKind(StrEnum):
    POSTGRES = "postgres"
    SQLITE = "sqlite"


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement, ready for its driver."""

    name: str
    sql: str
    about: str
    parameters: tuple[str, ...]  # scalars and lists, in the order of $1, $2 …
    lists: Mapping[str, str]  # those of them that are lists → type
    columns: tuple[tuple[str, str], ...]  # of the batch: name, type
    used: tuple[int, ...]  # the places of those columns that it names; on PostgreSQL the last $s
    each: str = ""  # SQLite: the same for one row of the batch, its columns as ?1, ?2 …, then the parameters


@dataclass(frozen=True, slots=True)
class Dialect:
    """The spelling of our SQL in one kind of database."""

    kind: DatabaseKind
    schema: str = "ostinato"

    def __post_init__(self) -> None:
        if not IDENTIFIER.fullmatch(self.schema):
            raise InvalidSetting(
                f"The schema {self.schema!r} cannot be used: take small letters, digits and _, at most 40."
            )

    def statement(self, text: str, name: str = "") -> Statement:
        """Render one statement."""
        rendered = _Rendering(self, name).render(text)
        if self.kind is DatabaseKind.POSTGRES or not rendered.columns:
            return rendered
        return replace(rendered, each=_RowByRow(self, name, rendered).render(text).sql)

    def statements(self, text: str) -> dict[str, Statement]:
        """Render a file of named statements, each of which must exist for both dialects."""
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
        first, *sections = ONLY_FOR.split(text)  # text, then kind and text in turn
        own = (part for kind, part in zip(sections[::2], sections[1::2], strict=True) if kind == self.kind)
        return "".join((first, *own))

    def table(self, name: str) -> str:
        """A table of ours as it is written in SQL."""
        return f'"{self.schema}".{name}' if self.kind is DatabaseKind.POSTGRES else f"ostinato_{name}"

    def type_of(self, name: str) -> str:
        """A type of a column."""
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
        "keyed": "STRICT, WITHOUT ROWID",  # rows stand in the order of their key: one tree fewer to write
        "strict": "STRICT",
        "prefix": "ostinato_",
        SEARCH_INDEX: f"ostinato_{SEARCH_INDEX}",
        **TYPES[DatabaseKind.SQLITE],
    },
}


class _Rendering:
    """One statement on its way from text to `Statement`."""

    def __init__(self, dialect: Dialect, name: str) -> None:
        self.dialect = dialect
        self.name = name
        self.postgres = dialect.kind is DatabaseKind.POSTGRES
        self.parameters: list[str] = []
        self.lists: dict[str, str] = {}
        self.columns: tuple[tuple[str, str], ...] = ()
        self.named: set[str] = set()  # the columns of the batch that it asks for

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
        if word in TABLES:
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
            return ""  # the writer is alone
        verb, skip = lock.removesuffix("_skip_locked"), lock.endswith("_skip_locked")
        of = f" OF {table}" if table else ""
        return verb.replace("_", " ").upper() + of + (" SKIP LOCKED" if skip else "")

    def _rows(self, text: str) -> str:
        columns = self._columns(text)
        if self.columns and self.columns != columns:
            raise self._wrong("can have one batch only")
        self.columns = columns
        if self.postgres:  # the numbers are known when all other parameters are
            used = [(name, self.dialect.type_of(kind)) for name, kind in columns if self._is_used(name)]
            arrays = ", ".join(f"$rows_{name}$::{kind}[]" for name, kind in used)
            return f"unnest({arrays}) AS u({', '.join(name for name, _ in used)})"
        cells = [_from_json(f"value->>{i}", kind) for i, (_, kind) in enumerate(columns)]
        ids = leading_ids(columns)
        cells[:ids] = [f"substr(:rows_ids, key * {16 * ids} + {16 * i + 1}, 16)" for i in range(ids)]
        fields = (f"{cell} AS {name}" for cell, (name, _) in zip(cells, columns, strict=True))
        return f"(SELECT {', '.join(fields)} FROM json_each(:rows)) AS u"

    def _is_used(self, column: str) -> bool:
        """A batch may be for several statements, and each is sent what it asks for; one that names none wants all."""
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
        if kind == "uuid":  # one after the other in a blob: half the cost of hexadecimal text
            return f"IN (SELECT substr({parameter}, key * 16 + 1, 16) FROM json_each({self._places(name)}))"
        return f"IN (SELECT {_from_json('value', kind)} FROM json_each({parameter}))"

    def _found_by(self, key: str, other: str) -> str:
        """A table that was vacuumed while it was empty looks empty to PostgreSQL, which then walks through all of it
        for each row of a batch. It considers that only where it could also merge the two: not with an array. SQLite
        keeps to the order of a CROSS JOIN.
        """
        table, _, column = key.partition(".")
        if table in TABLES:  # where an alias cannot stand
            key = f"{self.dialect.table(table)}.{column}"
        return f"{key} = ANY (ARRAY[{other}])" if self.postgres else f"{key} = {other}"

    def _places(self, name: str) -> str:
        """A JSON array that is as long as a list of ids."""
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
    """A statement of SQLite for one row at a time, its cells in the place of `u.column`, and no `u` to join.

    Binding a wide row costs half of taking it out of JSON.
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
    """Each `{part name}` replaced by what stands under `-- part: name`, up to the next name or part."""
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
    while match := PART.search(whole):  # one part may have another in it
        if match["name"] not in parts:
            raise StoreError(f"There is no part {match['name']}.")
        whole = whole.replace(match[0], "\n".join(parts[match["name"]]).strip())
    return whole


def split_by_name(text: str) -> list[tuple[str, str | None, str]]:
    """(name, the database it is for or None, body) of each statement in a file."""
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

"""Columns of the tables, from the fields of core/model.py, and the words that stand for them in statements.

    {columns live}                            id, job_id, number, …
    {columns live as l}                       l.id, l.job_id, l.number, …
    {columns live as l without progress}      all others
    {columns executions as l but result = u.result}    other expressions for these columns
    {rows of live}                            the rows of the batch: `{rows: id uuid, job_id uuid, …}`
    {shared of live without id, job_id}       parameters that all rows share: `{shared: number bigint, …}`
    {set live from u without id}              number = u.number, attempt = u.attempt, …

`only a, b` selects columns, in their order in the table; `with id uuid` puts others before them. So a new field of a
value appears in every statement that lists all columns; a migration adds its column to the table (a test compares the
two).
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import datetime
from functools import cache
from typing import Any, Final, get_args, get_type_hints
from uuid import UUID

from ostinato.core.errors import StoreError
from ostinato.core.model import JSON, Definition, Event, Execution, Facts, Live, Skip

WORD: Final = re.compile(
    r"""\{(?P<word>columns|rows\ of|shared\ of|set)\s+(?P<table>[a-z_]+)
        (?:\s+(?:as|from)\s+(?P<alias>[a-z]+))?
        (?:\s+with\s+(?P<more>[a-z_,\s]+?)(?=\s+without|\s+only|\}))?
        (?:\s+(?P<choice>without|only)\s+(?P<names>[a-z_,\s]+?))?
        (?:\s+but\s+(?P<others>[^{}]+))?\}""",
    re.VERBOSE,
)
NOT_STORED: Final = ("follows",)  # of a skip: only decides whether the last skip is extended
# Fields of a definition that are stored as JSON.
ENCODED: Final = {"schedule": "json", "policies": "json", "tags": "json"}

Columns = Mapping[str, str]  # name → type, in the order of the table


@cache
def columns_of(table: str) -> Columns:
    """Return the columns of a table by name: those of jobs are `definition` and `facts`."""
    match table:
        case "live":
            return _fields(Live)
        case "executions":
            return _fields(Execution)
        case "facts":
            return _fields(Facts)
        case "skips":
            return _fields(Skip)
        case "events":
            return _fields(Event)
        case "definition":
            return _definition()
        case "jobs":
            return {"id": "uuid", "held_key": "text", **columns_of("definition"), **columns_of("facts")}
        case _:
            raise StoreError(f"There is no column: the table {table} is unknown.")


def with_columns(text: str) -> str:
    """Replace the words above by their columns."""
    return WORD.sub(_written, text) if "{" in text else text


def _written(match: re.Match[str]) -> str:
    columns, alias = _chosen(match), match["alias"]
    match match["word"]:
        case "rows of":
            return f"{{rows: {_first(match)}{_typed(columns)}}}"
        case "shared of":
            return f"{{shared: {_typed(columns)}}}"
        case "set":
            return ", ".join(f"{name} = {alias}.{name}" for name in columns)
        case _:
            others = _others(match["others"] or "", columns)
            return ", ".join(others.get(name) or (f"{alias}.{name}" if alias else name) for name in columns)


def _chosen(match: re.Match[str]) -> Columns:
    columns = columns_of(match["table"])
    names = [name.strip() for name in (match["names"] or "").split(",") if name.strip()]
    if unknown := [name for name in names if name not in columns]:
        raise StoreError(f"{match[0]}: {match['table']} has no column {unknown[0]}.")
    keep: Callable[[str], bool] = names.__contains__ if match["choice"] == "only" else lambda name: name not in names
    return {name: kind for name, kind in columns.items() if keep(name)}


def _others(text: str, columns: Columns) -> dict[str, str]:
    """Read `name = expression, …`; commas inside parentheses belong to the expression."""
    found: dict[str, str] = {}
    for part in re.split(r",\s*(?=[a-z_]+ = )", text.strip()) if text.strip() else ():
        name, _, expression = part.partition(" = ")
        if name not in columns:
            raise StoreError(f"There is no column {name} to be replaced.")
        found[name] = expression.strip()
    return found


def _first(match: re.Match[str]) -> str:
    return f"{match['more'].strip()}, " if match["more"] else ""


def _typed(columns: Columns) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())


def _fields(kind: type[Any]) -> Columns:
    hints = get_type_hints(kind, include_extras=True)
    return {each.name: _type(hints[each.name]) for each in fields(kind) if each.name not in NOT_STORED}


def _definition() -> Columns:
    """Return the columns of a definition; only SQL uses `kind`, the kind of its schedule."""
    return {"kind": "text"} | {name: ENCODED.get(name, kind) for name, kind in _fields(Definition).items()}


def _type(hint: Any) -> str:
    parts = (hint, *get_args(hint))
    if JSON in parts or any(JSON in get_args(part) for part in parts):
        return "json"
    return next(
        (name for kind, name in ((UUID, "uuid"), (datetime, "instant"), (int, "bigint")) if kind in parts),
        "text",
    )

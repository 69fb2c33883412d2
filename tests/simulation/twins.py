"""The tables that a seed leaves, with the fast path and without it: they must be equal, in every row and every id.

One thing is taken out before they are compared: the CPU time in the account of a run. It is measured, so it differs
between two runs of one seed. On PostgreSQL the random end of ids is taken out, too: there the rows of a statement have
no order, so that two ids of one instant may change places.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from ostinato.store.database import Database

Tables = Mapping[str, list[tuple[Any, ...]]]

MEASURED = re.compile(r'"cpu_ms": ?\d+')
SHOWN = 3  # rows of a table
INSTANT = 8  # bytes of an id that say when it was made


def tables_of(database: Database) -> Tables:
    """Read every row of every table."""
    names = sorted(database.dialect.tables)
    with database.read() as tx:
        rows = {name: tx.rows(database.dialect.statement(f"SELECT * FROM {{{name}}}")) for name in names}
    told = _without_chance if database.elsewhere else _told
    return {name: sorted((tuple(map(told, row)) for row in found), key=repr) for name, found in rows.items()}


def differences(fast: Tables, full: Tables) -> list[str]:
    """Say which rows only one of the two has."""
    found = []
    for name in fast:
        one, other = Counter(fast[name]), Counter(full[name])
        found += [f"{name}, with the fast path: {row}" for row in list(one - other)[:SHOWN]]
        found += [f"{name}, without it: {row}" for row in list(other - one)[:SHOWN]]
    return found


def _told(value: Any) -> Any:
    return MEASURED.sub('"cpu_ms"', value) if isinstance(value, str) else value


def _without_chance(value: Any) -> Any:
    if isinstance(value, bytes | UUID):
        return (value if isinstance(value, bytes) else value.bytes)[:INSTANT]
    return _told(value)

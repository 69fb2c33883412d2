"""The tables that a seed leaves, with the fast path and without it: they must be equal, in every row and every id.

One thing is taken out before they are compared: the CPU time in the account of a run. It is measured, so it differs
between two runs of one seed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ostinato.store.database import Database

Tables = Mapping[str, list[tuple[Any, ...]]]

MEASURED = re.compile(r'"cpu_ms": ?\d+')
SHOWN = 3  # rows of a table


def tables_of(database: Database) -> Tables:
    """Read every row of every table."""
    names = sorted(database.dialect.tables)
    with database.read() as tx:
        rows = {name: tx.rows(database.dialect.statement(f"SELECT * FROM {{{name}}}")) for name in names}
    return {name: sorted((tuple(map(_told, row)) for row in found), key=repr) for name, found in rows.items()}


def differences(fast: Tables, full: Tables) -> list[str]:
    """Say which rows only one of the two has."""
    found = []
    for name in fast:
        only_fast = [row for row in fast[name] if row not in full[name]]
        only_full = [row for row in full[name] if row not in fast[name]]
        found += [f"{name}, with the fast path: {row}" for row in only_fast[:SHOWN]]
        found += [f"{name}, without it: {row}" for row in only_full[:SHOWN]]
    return found


def _told(value: Any) -> Any:
    return MEASURED.sub('"cpu_ms"', value) if isinstance(value, str) else value

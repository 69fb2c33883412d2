"""The schema and its versions.

A migration is `migrations/NNNN_name.sql`, in the words of `dialect`; the version reached stands in `{meta}` under
`schema_version`. Migrations only add. Each is one transaction, and callers at the same time queue.
"""

from pathlib import Path
from typing import Final

from ostinato.store.database import Database

MIGRATIONS: Final = Path(__file__).parent / "migrations"


def schema_version(db: Database) -> int:
    """The version of the schema; 0 when there is none. Tables of our names that are not ours: ForeignDatabase."""
    raise NotImplementedError


def upgrade(db: Database, folder: Path = MIGRATIONS) -> list[str]:
    """Apply what is missing; the names of what was applied."""
    raise NotImplementedError


def require_current(db: Database, folder: Path = MIGRATIONS) -> None:
    """Make sure that the schema is the one this code was written for.

    SQLite brings itself up to date; PostgreSQL that is empty or behind is SchemaBehind; newer is ForeignDatabase.
    """
    raise NotImplementedError

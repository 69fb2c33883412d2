"""The store: all rows of Ostinato, as tables of one database."""

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import RLock
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

from ostinato.config import Settings
from ostinato.core.model import Chance
from ostinato.feature import Feature
from ostinato.store import migrate
from ostinato.store.access import Access, Answers, Keys, Sessions
from ostinato.store.audit import Audit
from ostinato.store.clock_record import ClockRecord
from ostinato.store.dashboard import Board, Hours
from ostinato.store.database import Database
from ostinato.store.history import History, Traces
from ostinato.store.jobs import Declined, Jobs
from ostinato.store.locking import ChangeWriters, Definitions, Steps
from ostinato.store.logs import Logs
from ostinato.store.queue import Deferrals, Queue
from ostinato.store.search import Search
from ostinato.store.statistics import Statistics
from ostinato.store.workers import Workers

# All statements, one file per subject. Columns are always listed in the order of the fields of their value
# (core/model.py); tests/store/test_queries.py checks both and runs each statement on both databases.
QUERIES: Final = sorted((Path(__file__).parent / "queries").glob("*.sql"))


P = TypeVar("P")


@runtime_checkable
class _Closing(Protocol):
    """A part that holds something open."""

    def close(self) -> None: ...


class Store:
    """All tables: jobs, queue, history, workers and the rest. A method is one transaction."""

    def __init__(
        self,
        database: Database,
        chance: Chance,
        settings: Settings = Settings(),  # noqa: B008  a frozen value
        *,
        fast_path: bool = True,
    ) -> None:
        """`fast_path=False` leaves each decision to the rules: tests compare the two."""
        self.database, self.chance, self.settings = database, chance, settings
        self._parts: dict[Any, Any] = {}
        self._making = RLock()
        self.definitions = Definitions()
        for path in (*QUERIES, *database.features.statements):
            database.load(path)
        for feature in database.features:
            database.load(_awake(feature))
        writers = self.writers = ChangeWriters()
        self.jobs = Jobs(database, self.definitions, writers)
        self.steps = Steps(database.features, self.part)
        self.queue = Queue(database, self.definitions, chance, writers, self.steps, fast_path=fast_path)
        self.workers = Workers(database, self.queue, chance)
        self.history = History(database, chance, writers)
        self.audit = Audit(database)
        self.keys = Keys(database, chance)
        self.sessions = Sessions(database)
        self.access = Access(database, self.keys, chance)
        self.answers = Answers(database)
        self.clock_record = ClockRecord(database)
        self.search = Search(database, self.jobs)
        self.statistics = Statistics(database)
        self.traces = Traces(database)
        self.board = Board(database)
        self.hours = Hours(database)
        self.logs = Logs(database)
        self.declined = Declined(database, chance)
        self.deferrals = Deferrals(database)

    def part(self, kind: Callable[["Store"], P]) -> P:
        """Return the tables of a feature, one object for each process."""
        found: P | None = self._parts.get(kind)
        if found is not None:
            return found
        with self._making:  # two objects would both be writers
            found = self._parts.get(kind)
            made: P = kind(self) if found is None else found
            self._parts[kind] = made
        return made

    def is_awake(self, feature: Feature) -> bool:
        """Return True if a feature has rows, or no tables: otherwise its code need not be imported."""
        if not feature.tables:
            return True
        with self.database.read() as tx:
            return bool(tx.rows(f"{feature.name}_awake")[0][0])

    def awake(self, file: str) -> Iterator[Any]:
        """Import the files of this name, but for features without rows."""
        for feature in self.database.features:
            if feature.has(file) and self.is_awake(feature):
                yield feature.file(file)

    def require_current(self) -> None:
        """Raise unless the schema is the one of this program."""
        migrate.require_current(self.database)

    def is_current(self) -> bool:
        """Return True if the schema still has our version: another process may have upgraded it."""
        return migrate.is_current(migrate.versions(self.database), migrate.latest_versions(self.database.features))

    def missing_features(self) -> list[str]:
        """List the features that this database knows, and this process does not."""
        return migrate.missing_features(migrate.versions(self.database), self.database.features)

    def remembered(self, key: str) -> str | None:
        """Return a note that the database stores for us."""
        with self.database.read() as tx:
            row = tx.row("remembered", key=key)
        return None if row is None else str(row[0])

    def remember(self, key: str, value: str) -> None:
        with self.database.write() as tx:
            tx.run("remember", key=key, value=value)

    def close(self) -> None:
        for part in self._parts.values():
            if isinstance(part, _Closing):
                part.close()
        self.database.close()


def _awake(feature: Feature) -> str:
    found = " OR ".join(f"EXISTS (SELECT 1 FROM {{{table}}})" for table in feature.tables)
    return f"-- name: {feature.name}_awake\nSELECT {found}\n" if found else ""

"""Live rows that wait for a budget of outgoing requests, and until when."""

from datetime import datetime
from uuid import UUID

from ostinato.store.database import Database, Tx


class Deferrals:
    """Table of deferrals. A row whose execution waits no more, or for another time, counts no more."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def budget_of(self, execution_id: UUID, until: datetime) -> str | None:
        """Return the budget for which a live row waits until then."""
        with self._database.read() as tx:
            row = tx.row("deferral_of", id=execution_id, until=until)
        return None if row is None else str(row[0])

    def forget(self) -> None:
        """Delete the deferrals of executions that have ended."""
        with self._database.write() as tx:
            tx.run("forget_deferrals")


def waiting_for_budgets(tx: Tx) -> dict[str, int]:
    """Count the live rows that wait for each budget."""
    return dict(tx.rows("waiting_for_budgets"))


def try_deferred(tx: Tx, budget: str, until: datetime) -> None:
    """Let the runs that wait for a changed budget try again at `until`."""
    if tx.run("try_deferred", budget=budget, until=until):
        tx.notify()

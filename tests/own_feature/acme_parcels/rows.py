"""Parcels as rows: the only file that names the statements of rows.sql."""

from dataclasses import dataclass
from datetime import datetime

from ostinato.core.model import Live
from ostinato.store.rows import Shape
from ostinato.store.store import Store


@dataclass(frozen=True, slots=True)
class Parcel:
    address: str
    sent_at: datetime


PARCEL = Shape(Parcel)


class Parcels:
    """Table of parcels."""

    def __init__(self, store: Store) -> None:
        self._database = store.database

    def record(self, live: Live, address: str, now: datetime) -> bool:
        """Record a parcel; return False if the run no longer holds its execution."""
        with self._database.write() as tx:
            return tx.run("acme_parcels_record", id=live.id, fence=live.fence, address=address, now=now) == 1

    def all(self) -> list[Parcel]:
        with self._database.read() as tx:
            return [PARCEL.of(row) for row in tx.rows("acme_parcels_list")]

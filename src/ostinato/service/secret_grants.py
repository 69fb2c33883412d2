"""Stored references to secrets that are not granted on this host."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ostinato.config import Grants
from ostinato.core.auth import references
from ostinato.core.errors import Invalid
from ostinato.core.model import Json
from ostinato.core.payload import decode
from ostinato.store.doctor import Checkup
from ostinato.store.store import Store

MOST_JOBS: Final = 10_000  # jobs that are read
FEW: Final = 3


@dataclass(frozen=True, slots=True, order=True)
class Ungranted:
    """A stored reference that is not granted on this host, and one of its users."""

    reference: str
    user: str
    is_ours: bool  # one of Ostinato's settings: no grant opens it

    @property
    def advice(self) -> str:
        if self.is_ours:
            return "It is one of Ostinato's settings: name another secret."
        return "Add it to OSTINATO_SECRETS where its worker runs."


def few(told: Sequence[str]) -> list[str]:
    """Return the first three, and the number of the others: headers and log lines must stay short."""
    more = len(told) - FEW
    return [*told[:FEW], *([f"and {more:,} more"] if more > 0 else [])]


def ungranted(store: Store, grants: Grants) -> list[Ungranted]:
    """List the references that are not granted here, by name."""
    found: dict[str, Ungranted] = {}
    for user, reference in _stored(store):
        if reference not in found and not grants.allows(reference):
            found[reference] = Ungranted(reference, user, grants.is_ours(reference))
    return sorted(found.values())


def _stored(store: Store) -> Iterator[tuple[str, str]]:
    """Yield users and their references: jobs of built-in tasks, and rows of features."""
    holders = store.database.features.holders
    for name, args in Checkup(store.database).naming_secrets(MOST_JOBS):
        yield from ((f"job {name}", each) for each in references(read(args), holders))
    for module in store.awake("references"):
        yield from module.references(store)


def read(text: Json) -> Any:
    """Read JSON of a row; None if it is broken, which `db check` reports."""
    try:
        return decode(text)
    except Invalid:
        return None

"""Who may do what.

    viewer      reads
    operator    and controls: pause, resume, cancel, retry, run, restart, release, drain
    admin       and edits: makes, changes and deletes jobs, keys and hooks

A caller is whom a door has recognised; its name is what `by` says in the events.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Role(StrEnum):
    """What somebody may do; each may do what those before it may."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"

    def allows(self, needed: "Role") -> bool:
        """Whether this is enough where that is needed."""
        return RANK[self] >= RANK[needed]


RANK: Final = {role: rank for rank, role in enumerate(Role)}


@dataclass(frozen=True, slots=True)
class Caller:
    """Whom a door has recognised."""

    name: str
    role: Role


def trusted(by: Caller | str) -> Caller:
    """Return the caller; a plain name comes from Python or the database, where no credential is asked for."""
    return by if isinstance(by, Caller) else Caller(by, Role.ADMIN)


ANYBODY: Final = Caller("anonymous", Role.ADMIN)  # where no credential is asked for

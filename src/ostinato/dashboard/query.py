"""Query parameters of pages: filters, cursors, and links with changed parameters."""

from collections.abc import Container
from urllib.parse import urlencode
from uuid import UUID

from ostinato.core.errors import Invalid, NotFound
from ostinato.dashboard.page_request import PageRequest


def word(visit: PageRequest, name: str) -> str:
    """Read a parameter; empty if it is missing."""
    return visit.query.get(name, "").strip()


def address(visit: PageRequest, **changes: str | None) -> str:
    """Return the address of this page with changed parameters; None removes one."""
    asked: dict[str, str] = {name: value for name, value in visit.query.items() if value}
    for name, value in changes.items():
        asked.pop(name, None)
        if value:
            asked[name] = value
    return visit.path + (f"?{urlencode(asked)}" if asked else "")


def id_in_path(visit: PageRequest, name: str = "id") -> UUID:
    try:
        return UUID(visit.path_param(name))
    except ValueError:
        raise NotFound("There is no page at this address.") from None


def id_asked(visit: PageRequest, name: str) -> UUID | None:
    """Read an id; None if it is missing."""
    text = word(visit, name)
    try:
        return UUID(text) if text else None
    except ValueError:
        raise Invalid(f"{name} must be an id, not {text[:60]!r}.") from None


def one_of(visit: PageRequest, name: str, choices: Container[str], usual: str) -> str:
    """Read one of some words; for any other text return the usual one."""
    text = word(visit, name)
    return text if text in choices else usual

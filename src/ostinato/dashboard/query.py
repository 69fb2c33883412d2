"""Query parameters of pages: filters, cursors, and links with one of them changed."""

from collections.abc import Container
from urllib.parse import urlencode
from uuid import UUID

from ostinato.core.errors import Invalid, NotFound
from ostinato.dashboard.page_request import PageRequest


def word(visit: PageRequest, name: str) -> str:
    """A filter; empty when nothing is asked."""
    return visit.query.get(name, "").strip()


def address(visit: PageRequest, **changes: str | None) -> str:
    """This page with some of what it was asked changed; None takes it away."""
    asked: dict[str, str] = {name: value for name, value in visit.query.items() if value}
    for name, value in changes.items():
        asked.pop(name, None)
        if value:
            asked[name] = value
    return visit.path + (f"?{urlencode(asked)}" if asked else "")


def id_in_path(visit: PageRequest, name: str = "id") -> UUID:
    try:
        return UUID(visit.part(name))
    except ValueError:
        raise NotFound("There is nothing at this address.") from None


def id_asked(visit: PageRequest, name: str) -> UUID | None:
    """An id in the query; None when nothing is asked."""
    text = word(visit, name)
    try:
        return UUID(text) if text else None
    except ValueError:
        raise Invalid(f"{name} is an id, not {text[:60]!r}.") from None


def one_of(visit: PageRequest, name: str, choices: Container[str], usual: str) -> str:
    """One of some words; what is no such word is the usual one."""
    text = word(visit, name)
    return text if text in choices else usual

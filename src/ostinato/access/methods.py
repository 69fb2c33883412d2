"""Methods of an address: what a door answers to a method that the address does not have."""

from collections.abc import Sequence

from starlette.routing import BaseRoute, Match
from starlette.types import Scope


def allow_of(routes: Sequence[BaseRoute], scope: Scope) -> str | None:
    """List all methods of an address for the header `Allow`; None if it has this one, or is no address."""
    methods = set[str]()
    for route in routes:
        match route.matches(scope)[0]:
            case Match.FULL:
                return None
            case Match.PARTIAL:
                methods |= getattr(route, "methods", None) or set()
    return ", ".join(sorted(methods)) or None

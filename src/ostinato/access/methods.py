"""Methods of an address: what a door answers to a method that the address does not have."""

from collections.abc import Sequence

from starlette.routing import BaseRoute, Match
from starlette.types import Scope


def allow_of(routes: Sequence[BaseRoute], scope: Scope) -> str | None:
    """List all methods of an address for the header `Allow`; None if it has this one, or is no address."""
    methods = set[str]()
    for route in _own(routes, scope):
        match route.matches(scope)[0]:
            case Match.FULL:
                return None
            case Match.PARTIAL:
                methods |= getattr(route, "methods", None) or set()
    return ", ".join(sorted(methods)) or None


def _own(routes: Sequence[BaseRoute], scope: Scope) -> Sequence[BaseRoute]:
    """The routes whose path is this very address, if there are some: /jobs/bulk is no job with the key bulk."""
    return [route for route in routes if getattr(route, "path", None) == scope["path"]] or routes


def wrong_method(scope: Scope, allow: str) -> str:
    """Say which methods an address has."""
    return f"This address cannot be asked with {scope['method'][:20]}: it has {allow}."

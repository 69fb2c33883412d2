"""HTTP methods of an address, for the answer to a method that it does not allow."""

from collections.abc import Sequence

from starlette.routing import BaseRoute, Match
from starlette.types import Scope


def allow_of(routes: Sequence[BaseRoute], scope: Scope) -> str | None:
    """List the methods of an address for the header `Allow`; None if it allows this one or does not exist."""
    methods = set[str]()
    for route in _own(routes, scope):
        match route.matches(scope)[0]:
            case Match.FULL:
                return None
            case Match.PARTIAL:
                methods |= getattr(route, "methods", None) or set()
    return ", ".join(sorted(methods)) or None


def _own(routes: Sequence[BaseRoute], scope: Scope) -> Sequence[BaseRoute]:
    """Prefer the routes whose path equals the address: /jobs/bulk is not a job with the key bulk."""
    return [route for route in routes if getattr(route, "path", None) == scope["path"]] or routes


def wrong_method(scope: Scope, allow: str) -> str:
    """Say which methods an address has."""
    return f"This address does not allow {scope['method'][:20]}. Use {allow}."

"""Addresses of pages, and their roles."""

from collections.abc import Callable
from dataclasses import dataclass

from starlette.responses import Response

from ostinato.core.access import Role
from ostinato.dashboard.page_request import PageRequest

Answer = Callable[[PageRequest], Response]


@dataclass(frozen=True, slots=True)
class Route:
    """A page or an action; `role` is the lowest role that may use it, None admits every visitor."""

    method: str
    path: str
    answer: Answer
    role: Role | None


def get(path: str, answer: Answer, role: Role | None = Role.VIEWER) -> Route:
    return Route("GET", path, answer, role)


def post(path: str, answer: Answer, role: Role | None) -> Route:
    return Route("POST", path, answer, role)

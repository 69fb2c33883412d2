"""Requests of a source: where values go, the body, and what becomes of an answer.

A value goes to a place: `since` is a parameter of the URL, `header:X-Since` a header, `body:filter.since` a member of
the JSON or form body. A value comes from a place, too: a path into the answer, `header:X-Next`, or `last:id`, a path
into the last record.
"""

import copy
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final
from urllib.parse import urlencode

from ostinato.core.errors import Invalid
from ostinato.features.sources.rules.paths import getter

HEADER: Final = "header:"
BODY: Final = "body:"
LAST: Final = "last:"
LOOKED_AT: Final = 1024 * 1024  # bytes of an answer that actions look at

Placed = Sequence[tuple[str, str | int]]  # values by place


class Method(StrEnum):
    """The method of the requests of a source."""

    GET = "GET"
    POST = "POST"


class BodyKind(StrEnum):
    """The form of a body."""

    JSON = "json"
    FORM = "form"
    TEXT = "text"


TYPES: Final = {
    BodyKind.JSON: "application/json",
    BodyKind.FORM: "application/x-www-form-urlencoded",
    BodyKind.TEXT: "text/plain; charset=utf-8",
}


@dataclass(frozen=True, slots=True)
class SourceBody:
    """The body of each request. `value`: JSON, an object of texts, or a text."""

    kind: BodyKind
    value: Any = field(hash=False)


class ActionKind(StrEnum):
    """What becomes of an answer."""

    IGNORE = "ignore"  # an empty last page
    RETRY = "retry"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class ResponseAction:
    """An action for answers with one of these statuses, and with this text or a true value at this path."""

    action: ActionKind
    statuses: frozenset[int] = frozenset()  # none: 2xx
    contains: str = ""
    where: str = ""
    after: timedelta | None = None
    say: str = ""

    def takes(self, status: int) -> bool:
        return status in self.statuses if self.statuses else 200 <= status < 300

    @property
    def looks(self) -> bool:
        """True if it depends on the body."""
        return bool(self.contains or self.where)

    def fits(self, body: bytes) -> bool:
        """Return True if it is for an answer with this body."""
        if self.contains and self.contains not in body.decode("utf-8", "replace"):
            return False
        if not self.where:
            return True
        try:
            return bool(getter(self.where)(json.loads(body)))
        except (ValueError, RecursionError):
            return False


@dataclass(frozen=True, slots=True)
class PlacedRequest:
    """A request with each value in its place."""

    params: list[tuple[str, str]]
    headers: dict[str, str]
    body: bytes


def placed_request(
    params: Sequence[tuple[str, str]], headers: Iterable[tuple[str, str]], body: SourceBody | None, values: Placed
) -> PlacedRequest:
    """Put values into the parameters, the headers and the body of a request."""
    in_url, in_headers, inside = list(params), dict(headers), dict[str, str | int]()
    for place, value in values:
        if place.startswith(HEADER):
            in_headers[place.removeprefix(HEADER)] = str(value)
        elif place.startswith(BODY):
            inside[place.removeprefix(BODY)] = value
        else:
            in_url.append((place, str(value)))
    if body is None:
        return PlacedRequest(in_url, in_headers, b"")
    if not any(name.lower() == "content-type" for name in in_headers):
        in_headers["Content-Type"] = TYPES[body.kind]
    return PlacedRequest(in_url, in_headers, _written(body, inside))


def _written(body: SourceBody, inside: Mapping[str, str | int]) -> bytes:
    match body.kind:
        case BodyKind.TEXT:
            return str(body.value).encode()
        case BodyKind.FORM:
            return urlencode({**body.value, **inside}).encode()
        case BodyKind.JSON:
            value = copy.deepcopy(body.value) if inside else body.value
            for path, each in inside.items():
                _put(value, path.split("."), each)
            return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _put(value: dict[str, Any], way: list[str], new: str | int) -> None:
    for name in way[:-1]:
        inner = value.get(name)
        if not isinstance(inner, dict):
            inner = value[name] = {}
        value = inner
    value[way[-1]] = new


def check_place(place: str, body: SourceBody | None, what: str) -> str:
    """Refuse a place in a body that the source does not have."""
    if place.startswith(BODY):
        kind = None if body is None else body.kind
        if kind not in (BodyKind.JSON, BodyKind.FORM) or (kind is BodyKind.JSON and not isinstance(body.value, dict)):  # type: ignore[union-attr]
            raise Invalid(f"{what}: {place!r} needs a body that is a JSON object or a form.")
        if not all(place.removeprefix(BODY).split(".")):
            raise Invalid(f"{what} has an empty part: {place!r}.")
    return place

"""Endpoints as values: `Table` collects them, `Ask` is one request, `find` looks one up by method and path.

    TABLE = Table("jobs")

    @TABLE.get("/jobs/{id}/why", Role.VIEWER)
    def why(ask: Ask, ref: JobRef, asked: WhyQuery) -> WhyAnswer:
        return WhyAnswer.of(ask.service.jobs.why(ref, asked.at))

The parameters of a function say what it takes: a part of the path (`InPath`), a query (an args type, see
shapes/queries.py), a body (a pydantic type). The function answers with a dataclass of `shapes`.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, is_dataclass
from functools import cache, cached_property
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, cast, get_type_hints
from urllib.parse import unquote

from ostinato.core.access import Admission, Caller, Role
from ostinato.core.arguments import FieldKind, Flaw
from ostinato.core.errors import Forbidden, Invalid, NotFound, WrongArgument
from ostinato.core.schedule import Expired
from ostinato.feature import Features
from ostinato.service import Service
from ostinato.service.paging import allowance
from ostinato.shapes.queries import JOB, read_query

if TYPE_CHECKING:
    from ostinato.shapes.job_body import BodyContext

P = TypeVar("P")
F = TypeVar("F", bound=Callable[..., Any])

PLACE: Final = re.compile(r"\{(\w+)\}")
LONGEST_WARNING: Final = 4_000  # characters; many proxies refuse headers over 8 KiB
# Those that need pydantic come last: `find` imports no more than it must.
MODULES: Final = (
    "jobs",
    "executions",
    "operating",
    "keys",
    "changes",
)


class Ask:
    """One request: the service, the caller, and what the answer says beside its body."""

    def __init__(
        self,
        service: Service,
        by: Caller,
        timezone: str,
        *,
        headers: Mapping[str, str] | None = None,
        check: Callable[[], Admission] | None = None,
        allowed: Callable[[], Expired] = allowance,
    ) -> None:
        """`check` recognises the caller again; `allowed` bounds the time of a search."""
        self.service, self.by, self.timezone, self.allowed = service, by, timezone, allowed
        self.check = check or (lambda: Admission(by))
        self._headers = headers or {}
        self.status: int | None = None  # of the answer, if not the usual one
        self.headers: dict[str, str] = {}  # of the answer

    @property
    def here(self) -> "BodyContext":
        """The context of a body: the time, the default time zone, and the app of new jobs."""
        from ostinato.shapes.job_body import BodyContext

        return BodyContext(self.service.now(), self.timezone, self.service.app, self.service.tasks.run_args)

    def header(self, name: str) -> str | None:
        """Return a header of the request."""
        return self._headers.get(name)

    def part(self, kind: Callable[[Service], P]) -> P:
        """Return the part of a feature in the service."""
        return self.service.part(kind)

    def warn(self, named: Iterable[str], tasks: Collection[str] = ()) -> None:
        """Add a Warning header that names secrets not granted on this host, and tasks without a description."""
        if warnings := self.service.warnings(named, tasks):
            text = " ".join(warnings).encode("ascii", "backslashreplace").decode()[:LONGEST_WARNING]
            self.headers["Warning"] = f'199 ostinato "{text}"'


def header(name: str, description: str, longest: int) -> Mapping[str, Any]:
    """Describe a header of a request for the document."""
    shape = {"type": "string", "maxLength": longest}
    return {"name": name, "in": "header", "required": False, "description": description, "schema": shape}


@dataclass(frozen=True, slots=True)
class InPath:
    """A part of a path: its name in the path, and its reader."""

    name: str
    description: str
    kind: FieldKind[Any] = JOB

    def read(self, text: str) -> Any:
        try:
            return self.kind.read(text)
        except Flaw as flaw:
            raise WrongArgument(self.name, f"{self.name} {flaw.rest}") from None


JobRef = Annotated[str, InPath("id", "The id of a job, or its key.")]


@dataclass(frozen=True, slots=True)
class _Taken:
    """The parameters of an endpoint's function."""

    places: Mapping[str, InPath]  # by parameter
    query: tuple[str, type[Any]] | None = None
    body: tuple[str, Any, Any] | None = None  # parameter, type, default


@dataclass(frozen=True)
class Endpoint:
    """A question or a command: its address, the role that it requires, and its function."""

    method: str
    path: str  # below /api/v1
    role: Role
    function: Callable[..., Any]
    tag: str
    status: int = 200
    also: Mapping[int, str] = field(default_factory=dict)  # further statuses with the same answer, below 400
    is_documented: bool = True
    headers: tuple[Mapping[str, Any], ...] = ()  # of the request, for the document

    @cached_property
    def taken(self) -> _Taken:
        hints = get_type_hints(self.function, include_extras=True)
        places, query, body = dict[str, InPath](), None, None
        for name, parameter in list(signature(self.function).parameters.items())[1:]:
            hint = hints[name]
            place = next((each for each in getattr(hint, "__metadata__", ()) if isinstance(each, InPath)), None)
            if place is not None:
                places[name] = place
            elif is_dataclass(hint):
                query = (name, cast(type[Any], hint))
            else:
                body = (name, hint, parameter.default)
        return _Taken(places, query, body)

    @cached_property
    def answers_with(self) -> Any:
        """The type of its answer."""
        return get_type_hints(self.function, include_extras=True)["return"]

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(PLACE.sub(r"(?P<\1>[^/]+)", self.path))

    def require(self, by: Caller) -> None:
        """Raise Forbidden unless the caller's role allows this."""
        if not by.role.allows(self.role):
            raise Forbidden(f"This needs the role {self.role.value}; {by.name} is {by.role.value}.")

    def check_headers(self, header: Callable[[str], str | None]) -> None:
        """Raise WrongArgument if a header is longer than the document says."""
        for each in self.headers:
            name, longest = each["name"], each["schema"]["maxLength"]
            if len(header(name) or "") > longest:
                raise WrongArgument(name, f"{name} is longer than {longest} characters.")

    def call(self, ask: Ask, places: Mapping[str, str], query: Mapping[str, Any], **body: Any) -> Any:
        """Read path and query, and call the function; `body` is read already."""
        self.check_headers(ask.header)
        given: dict[str, Any] = {name: place.read(places[place.name]) for name, place in self.taken.places.items()}
        if self.taken.query is not None:
            name, kind = self.taken.query
            given[name] = read_query(kind, query)
        return self.function(ask, **given, **body)

    def answer(self, ask: Ask, places: Mapping[str, str], query: Mapping[str, Any], body: Any = None) -> Any:
        """Answer a request of this process; its body is JSON."""
        self.require(ask.by)
        if self.taken.body is None:
            return self.call(ask, places, query)
        name, kind, default = self.taken.body
        return self.call(ask, places, query, **{name: default if body is None else _read_body(kind, body)})


class Table:
    """Endpoints of one subject."""

    def __init__(self, tag: str) -> None:
        self._tag = tag
        self._endpoints: list[Endpoint] = []

    def __iter__(self) -> Iterator[Endpoint]:
        return iter(self._endpoints)

    def tagged(self, tag: str) -> "Table":
        """Return this table, for endpoints of another subject."""
        other = Table(tag)
        other._endpoints = self._endpoints
        return other

    def get(self, path: str, role: Role, **more: Any) -> Callable[[F], F]:
        return self.add("GET", path, role, **more)

    def post(self, path: str, role: Role, **more: Any) -> Callable[[F], F]:
        return self.add("POST", path, role, **more)

    def put(self, path: str, role: Role, **more: Any) -> Callable[[F], F]:
        return self.add("PUT", path, role, **more)

    def patch(self, path: str, role: Role, **more: Any) -> Callable[[F], F]:
        return self.add("PATCH", path, role, **more)

    def delete(self, path: str, role: Role, **more: Any) -> Callable[[F], F]:
        return self.add("DELETE", path, role, **more)

    def add(self, method: str, path: str, role: Role, **more: Any) -> Callable[[F], F]:
        """Add the endpoint of a function."""

        def add(function: F) -> F:
            self._endpoints.append(Endpoint(method, path, role, function, **{"tag": self._tag, **more}))
            return function

        return add


def tables(features: Features) -> Iterator[Table]:
    """Import the tables one after the other: those of the kernel, then those of features."""
    for name in MODULES:
        yield import_module(f"ostinato.endpoints.{name}").TABLE
    for module in features.modules("endpoints"):
        yield module.TABLE


def find(features: Features, method: str, path: str) -> tuple[Endpoint, dict[str, str]]:
    """Return the endpoint at an address, and the parts of its path; fixed parts win over variable ones."""
    for table in tables(features):
        found = [(each, match) for each in table if each.method == method and (match := each.pattern.fullmatch(path))]
        if found:
            endpoint, match = min(found, key=lambda pair: len(pair[0].taken.places))
            return endpoint, {name: unquote(text) for name, text in match.groupdict().items()}
    raise NotFound(f"There is no endpoint {method} {path[:100]}.")


def _read_body(kind: Any, given: Any) -> Any:
    from pydantic import TypeAdapter, ValidationError

    from ostinato.shapes.answers import refused

    try:
        return _adapter(TypeAdapter, kind).validate_python(given)
    except ValidationError as error:
        raise Invalid(refused(error.errors()).detail) from None


@cache
def _adapter(adapter: Callable[[Any], Any], kind: Any) -> Any:
    return adapter(kind)

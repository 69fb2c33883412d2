"""`PageRequest`: what a page function receives, its answers, the errors of forms, query parameters and addresses.

session cookie.
"""

from collections.abc import Callable, Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote, unquote, urlencode
from uuid import UUID

from pydantic import ValidationError
from starlette.datastructures import FormData, QueryParams
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from ostinato.access.mounting import root_of
from ostinato.access.sessions import Visitor, cookie_name
from ostinato.core.access import Caller, Role
from ostinato.core.errors import Invalid, NotFound, OstinatoError, UnknownTask
from ostinato.core.times import zone_names
from ostinato.dashboard.forms.fields import Form
from ostinato.service import Service
from ostinato.shapes.answers import ErrorAnswer, answer_of, refused, status_of

if TYPE_CHECKING:
    from ostinato.dashboard.app import Site


P = TypeVar("P")

ZONE: Final = "ostinato_zone"  # the cookie in which live.js stores the zone of the browser
MESSAGE_SECONDS: Final = 60  # lifetime of a message for the next page
LONGEST_MESSAGE: Final = 500


@dataclass(frozen=True, slots=True)
class Trouble:
    """An error to show beside its cause."""

    sentence: str
    status: int
    fields: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, error: OstinatoError) -> "Trouble":
        return cls.from_answer(answer_of(error), status_of(error))

    @classmethod
    def from_answer(cls, answer: ErrorAnswer, status: int = 422) -> "Trouble":
        return cls(answer.detail, status, {line.field: line.message for line in answer.errors or ()})


@dataclass(frozen=True, slots=True)
class PageRequest:
    """The request of a page, with its visitor."""

    site: "Site"
    request: Request
    visitor: Visitor
    form: FormData
    now: datetime
    troubles: Mapping[str, Trouble] = field(default_factory=dict)

    @property
    def service(self) -> Service:
        return self.site.service

    def part(self, kind: Callable[[Service], P]) -> P:
        """Return the commands and questions of a feature."""
        return self.service.part(kind)

    @property
    def caller(self) -> Caller:
        assert self.visitor.caller is not None
        return self.visitor.caller

    @property
    def by(self) -> str:
        """The name of the caller in events."""
        return self.caller.name

    @property
    def path(self) -> str:
        """The address of this page, without the prefix of a mounted dashboard."""
        return str(self.request.scope["path"])

    @property
    def root(self) -> str:
        """The prefix of all addresses of a mounted dashboard, else empty."""
        return root_of(self.request.scope)

    @property
    def query(self) -> QueryParams:
        return self.request.query_params

    def path_param(self, name: str) -> str:
        """Return a parameter of the path: `{id}`."""
        return str(self.request.path_params[name])

    @property
    def zone(self) -> str:
        """The viewer's zone, as the browser reports it, else the zone of the settings."""
        name = unquote(self.request.cookies.get(ZONE, ""))
        return name if name in zone_names() else self.site.settings.timezone

    def may(self, role: str) -> bool:
        """Return True if the visitor has this role; buttons for other roles are hidden."""
        return self.visitor.caller is not None and self.visitor.caller.role.allows(Role(role))

    def with_error(self, where: str, trouble: OstinatoError | Trouble) -> "PageRequest":
        """Return the same request with an error to show in a part of the page."""
        found = trouble if isinstance(trouble, Trouble) else Trouble.of(trouble)
        return replace(self, troubles={**self.troubles, where: found})

    # -- answers

    def page(self, template: str, *, status: int = 200, **answer: Any) -> Response:
        """Render a template. If the page shows errors, the highest error status replaces `status`."""
        worst = max((trouble.status for trouble in self.troubles.values()), default=status)
        message = unquote(self.request.cookies.get(self._message_cookie, ""))
        response = HTMLResponse(self.site.render(template, self, message=message, **answer), worst)
        if message:
            response.delete_cookie(self._message_cookie, path=f"{self.root}/")
        return self._with_cookie(response)

    def redirect(
        self, path: str, message: str = "", named: Iterable[str] = (), tasks: Collection[str] = ()
    ) -> Response:
        """Redirect to a page that shows a message, and the warnings of the service."""
        response = RedirectResponse(self.root + path, 303)
        message = " ".join([message, *self.service.warnings(named, tasks)])
        if message:
            self._set_cookie(response, self._message_cookie, quote(message[:LONGEST_MESSAGE]), MESSAGE_SECONDS)
        return self._with_cookie(response)

    def remember(self, response: Response, session: str) -> Response:
        """Let the browser keep a session until the browser is closed or the session ends."""
        self._set_cookie(response, cookie_name(self.request.headers), session)
        return response

    def forget(self, response: Response) -> Response:
        response.delete_cookie(cookie_name(self.request.headers), path=f"{self.root}/")
        return response

    def _with_cookie(self, response: Response) -> Response:
        return self.remember(response, self.visitor.cookie) if self.visitor.is_new else response

    @property
    def _message_cookie(self) -> str:
        return f"{cookie_name(self.request.headers)}_message"

    def _set_cookie(self, response: Response, name: str, value: str, seconds: int | None = None) -> None:
        forwarded = self.request.headers.get("x-forwarded-proto", "").partition(",")[0].strip()
        secure = "https" in (self.request.url.scheme, forwarded)
        response.set_cookie(name, value, seconds, path=f"{self.root}/", httponly=True, samesite="strict", secure=secure)


# -- Query parameters of pages: filters, cursors, and links with changed parameters


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


def id_in_path(visit: PageRequest) -> UUID:
    try:
        return UUID(visit.path_param("id"))
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


# -- Addresses of pages, and their roles

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


# -- Errors of a form: beside their fields, or above the form


class WrongFields(Invalid):
    """Several fields are wrong."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        super().__init__(" ".join(fields.values()))
        self.fields = fields


def with_error(
    visit: PageRequest, where: str, form: Form, error: OstinatoError | ValidationError
) -> tuple[PageRequest, Form]:
    """Add an error to the request and the form: beside its fields, or above the form."""
    trouble = _trouble(error)
    errors = trouble.fields or {"": trouble.sentence}
    above = form.unplaced(errors)
    marked = form.wrong(errors)
    if len(above) < len(errors):
        above.insert(0, "Nothing was saved. Correct the marked fields.")
    return visit.with_error(where, replace(trouble, sentence=" ".join(above), fields=marked.errors)), marked


def _trouble(error: OstinatoError | ValidationError) -> Trouble:
    match error:
        case ValidationError():
            return Trouble.from_answer(refused(error.errors()))
        case WrongFields():
            return Trouble(str(error), 422, error.fields)
        case UnknownTask():
            return Trouble(str(error), 422, {"task": str(error)})
        case _:
            return Trouble.of(error)

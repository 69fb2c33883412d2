"""One request for a page: who asks, for what, and how it is answered."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

from starlette.datastructures import FormData, QueryParams
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from ostinato.access.sessions import Visitor, cookie_name
from ostinato.core.access import Caller, Role
from ostinato.core.errors import OstinatoError
from ostinato.core.zones import zone_names
from ostinato.service import Service
from ostinato.shapes.errors import ErrorAnswer, answer_of, status_of

if TYPE_CHECKING:
    from ostinato.dashboard.app import Site

ZONE: Final = "ostinato_zone"  # a cookie that live.js sets: the zone of the browser
TOLD_FOR: Final = 60  # seconds that what was done is remembered for the next page
LONGEST_TOLD: Final = 500


@dataclass(frozen=True, slots=True)
class Trouble:
    """An error to be shown beside its cause."""

    sentence: str
    status: int
    fields: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, error: OstinatoError) -> "Trouble":
        return cls.told(answer_of(error), status_of(error))

    @classmethod
    def told(cls, answer: ErrorAnswer, status: int = 422) -> "Trouble":
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
        return self.request.url.path

    @property
    def query(self) -> QueryParams:
        return self.request.query_params

    def part(self, name: str) -> str:
        """A part of the path: `{id}`."""
        return str(self.request.path_params[name])

    @property
    def zone(self) -> str:
        """The viewer's zone, as the browser has told it; else that of the settings."""
        told = unquote(self.request.cookies.get(ZONE, ""))
        return told if told in zone_names() else self.site.settings.timezone

    def may(self, role: str) -> bool:
        """Return True if the visitor has this role; actions without it have no button."""
        return self.visitor.caller is not None and self.visitor.caller.role.allows(Role(role))

    def troubled(self, where: str, trouble: OstinatoError | Trouble) -> "PageRequest":
        """The same, with something to show that went wrong at a place of the page."""
        told = trouble if isinstance(trouble, Trouble) else Trouble.of(trouble)
        return replace(self, troubles={**self.troubles, where: told})

    # -- answers

    def page(self, template: str, *, status: int = 200, **answer: Any) -> Response:
        """A page. One that shows something that went wrong has the status of that."""
        worst = max((trouble.status for trouble in self.troubles.values()), default=status)
        told = unquote(self.request.cookies.get(self._told, ""))
        response = HTMLResponse(self.site.render(template, self, told=told, **answer), worst)
        if told:
            response.delete_cookie(self._told)
        return self._with_cookie(response)

    def see(
        self, path: str, told: str = "", named: Iterable[str] = (), tasks: Collection[str] = ()
    ) -> Response:
        """Go on to a page of ours, which says what was done, and what `desk.warnings` says."""
        response = RedirectResponse(path, 303)
        told = " ".join([told, *self.service.warnings(named, tasks)])
        if told:
            self._set_cookie(response, self._told, quote(told[:LONGEST_TOLD]), TOLD_FOR)
        return self._with_cookie(response)

    def remember(self, response: Response, session: str) -> Response:
        """Let the browser keep a session until it is closed, or the session is over."""
        self._set_cookie(response, cookie_name(self.request.headers), session)
        return response

    def forget(self, response: Response) -> Response:
        response.delete_cookie(cookie_name(self.request.headers))
        return response

    def _with_cookie(self, response: Response) -> Response:
        return self.remember(response, self.visitor.cookie) if self.visitor.is_new else response

    @property
    def _told(self) -> str:
        return f"{cookie_name(self.request.headers)}_told"

    def _set_cookie(self, response: Response, name: str, value: str, seconds: int | None = None) -> None:
        forwarded = self.request.headers.get("x-forwarded-proto", "").partition(",")[0].strip()
        secure = "https" in (self.request.url.scheme, forwarded)
        response.set_cookie(name, value, seconds, httponly=True, samesite="strict", secure=secure)

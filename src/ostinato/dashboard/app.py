"""The site: its routes, its templates, its files and headers, and the checks before each page."""

import hashlib
import logging
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Match, Router
from starlette.routing import Route as StarletteRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ostinato.access.requests import OWN_SITES, ClientGone, Workload, allow_of, read_body, run_check, wrong_method
from ostinato.access.sessions import Visitor, Visitors
from ostinato.config import Settings
from ostinato.core.access import ANONYMOUS
from ostinato.core.errors import Forbidden, Invalid, NotFound, OstinatoError
from ostinato.core.trace import page_of
from ostinato.dashboard import calendar, charts, executions, formatting, jobs, login, overview
from ostinato.dashboard import settings as settings_page
from ostinato.dashboard.forms import pages as forms
from ostinato.dashboard.page_request import PageRequest, Route, Trouble
from ostinato.feature import Features
from ostinato.service import Service

# -- Reading of forms, and protection against forms that were not made for the visitor (CSRF)

MOST_FIELDS: Final = 2000
FORM: Final = "application/x-www-form-urlencoded"
TOKEN: Final = "form_token"
ORIGIN: Final = re.compile(r"https?://(?P<authority>[^/?#@]+)", re.IGNORECASE)
OTHER_SITE: Final = "A page of another site sent this form. Nothing was changed."
NOT_OURS: Final = "This form belongs to an older or other session. Nothing was changed. Send it again."


async def read_form(request: Request) -> FormData:
    """Read the fields of a form in their order; raise TooLarge, TooSlow or ClientGone."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() not in ("", FORM):
        raise Invalid(f"A form must be sent as {FORM}.")
    body = await read_body(request.receive)
    try:
        text = body.decode("utf-8")
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError:
        raise Invalid(f"The form cannot be read: it is not UTF-8, or has over {MOST_FIELDS} fields.") from None
    return FormData([(name, value.replace("\r\n", "\n")) for name, value in pairs])


def require_own_form(headers: Headers, visitor: Visitor, form: FormData) -> None:
    """Raise Forbidden unless the form has the visitor's token and comes from a page of this site."""
    if not _same_origin(headers):
        raise Forbidden(OTHER_SITE)
    if not visitor.wrote(str(form.get(TOKEN, ""))):
        raise Forbidden(NOT_OURS)


def _same_origin(headers: Headers) -> bool:
    """Return whether the browser reports this site as origin, or reports nothing: then only the token counts."""
    if (site := headers.get("sec-fetch-site")) is not None:
        return site in OWN_SITES
    if (origin := headers.get("origin")) is None:
        return True
    found = ORIGIN.fullmatch(origin)
    return found is not None and found["authority"].lower() == headers.get("host", "").lower()


# -- Security headers of all pages

# Referrer-Policy is not `no-referrer`: then our own forms would be sent with `Origin: null`.
POLICY: Final = {
    "Content-Security-Policy": (
        "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Strict:
    """Middleware that adds the policy to every answer, and forbids caching unless the answer allows it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_policy(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in POLICY.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await self._app(scope, receive, send_with_policy)


# -- The stylesheets and scripts. Their addresses change with their content, so browsers may cache them for ever

TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
FOR_EVER: Final = {"Cache-Control": "public, max-age=31536000, immutable"}


class _Files:
    """The files of a folder, read once."""

    def __init__(self, folder: Path) -> None:
        self._files = {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in TYPES}
        self._versions = {name: hashlib.sha256(data).hexdigest()[:12] for name, data in self._files.items()}

    def url(self, name: str) -> str:
        return f"/static/{name}?v={self._versions[name]}"

    async def answer(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self._files:
            return PlainTextResponse("There is no file with this name.", 404)
        caching = FOR_EVER if request.query_params.get("v") == self._versions[name] else {"Cache-Control": "no-cache"}
        return Response(self._files[name], media_type=TYPES[Path(name).suffix], headers=caching)


# -- The site: its routes, its templates, and the checks before each page

log = logging.getLogger("ostinato.dashboard")

HERE: Final = Path(__file__).parent
NAVIGATION: Final = (  # place, path and title; those of features lie between
    (10, "/", "Overview"),
    (20, "/jobs", "Jobs"),
    (30, "/executions", "Executions"),
    (40, "/calendar", "Calendar"),
    (100, "/workers", "Workers"),
    (110, "/events", "Events"),
    (120, "/settings", "Settings"),
)


def routes_of(features: Features) -> list[Route]:
    """Return the routes of all pages."""
    return [*ROUTES, *(route for module in features.modules("pages") for route in module.ROUTES)]


def menu_of(features: Features) -> list[tuple[str, str]]:
    """Return the paths and titles of the menu, in order."""
    places = sorted([*NAVIGATION, *(entry for feature in features for entry in feature.menu)])
    return [(path, title) for _, path, title in places]


class Site:
    """The dashboard of a service."""

    def __init__(
        self, service: Service, settings: Settings, visitors: Visitors, version: str, workload: Workload
    ) -> None:
        self.service, self.settings, self.visitors, self.version = service, settings, visitors, version
        self._workload = workload
        self._files = _Files(HERE / "static")
        self._templates = self._environment()
        pages = routes_of(service.features)
        self.sections: list[executions.MakeSection] = [
            make for module in service.features.modules("pages") for make in getattr(module, "SECTIONS", ())
        ]
        self._menu, self._paths = menu_of(service.features), {route.path for route in pages}
        # Fixed paths come before paths with a {part}: /jobs/new is not a job.
        ordered = sorted(pages, key=lambda route: route.path.count("{"))
        self.routes: list[BaseRoute] = [
            StarletteRoute("/static/{name}", self._files.answer),
            *(StarletteRoute(each.path, self._endpoint(each), methods=[each.method]) for each in ordered),
        ]
        self._router = Router(self.routes, default=self._not_found)
        self.app: ASGIApp = Strict(self._routed)

    def _environment(self) -> Environment:
        found = Environment(
            loader=FileSystemLoader([HERE / "templates", *self.service.features.folders("templates").values()]),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        found.filters |= formatting.FILTERS
        found.globals |= {
            "static": self._files.url,
            "panels": self.service.features.panels,
            "trace_page": partial(page_of, self.settings.trace_url),
            **formatting.GLOBALS,
            **charts.GLOBALS,
        }
        return found

    def render(self, template: str, visit: PageRequest, **answer: Any) -> str:
        return self._templates.get_template(template).render(
            visit=visit,
            root=visit.root,
            now=visit.now,
            may=visit.may,
            troubles=visit.troubles,
            there=self._paths,
            navigation=self._menu,
            version=self.version,
            log_in=self.visitors.log_in,
            **answer,
        )

    def has(self, scope: Scope) -> bool:
        """Return True if an address belongs to the dashboard."""
        return any(route.matches(scope)[0] is not Match.NONE for route in self.routes)

    # -- the checks before each page

    def _endpoint(self, route: Route) -> Callable[[Request], Any]:
        async def endpoint(request: Request) -> Response:
            try:
                form = await read_form(request) if route.method == "POST" else FormData()
                visitor = await run_check(partial(self.visitors.of, request))
                place = await self._workload.place(visitor.credential)
            except OstinatoError as error:
                return await run_in_threadpool(self._refuse, request, error)
            except ClientGone:
                return Response(status_code=400)  # the client has closed the connection
            try:
                return await run_in_threadpool(self._answer, route, request, form, visitor)
            finally:
                place.give_back()

        return endpoint

    def _answer(self, route: Route, request: Request, form: FormData, visitor: Visitor) -> Response:
        try:
            visit = PageRequest(self, request, visitor, form, self.service.now())
            if route.role is not None and visit.visitor.caller is None:
                return login.ask(visit)
            if route.method == "POST":
                require_own_form(request.headers, visit.visitor, form)
            if route.role is not None and not visit.may(route.role):
                raise Forbidden(
                    f"This needs the role {route.role.value}, but {visit.by} has the role {visit.caller.role.value}."
                )
            return route.answer(visit)
        except OstinatoError as error:
            return self._refuse(request, error)
        except Exception as error:  # the log has the details, which a page must not show
            log.error("Page failed: %s %s", request.method, request.url.path, exc_info=error)
            return self._refuse(request, OstinatoError())

    def _refuse(self, request: Request, error: OstinatoError) -> Response:
        return self._trouble(request, Trouble.of(error))

    def _trouble(self, request: Request, trouble: Trouble) -> Response:
        """Show an error page without any use of the database, which may be the cause of the error."""
        anonymous = Visitor(ANONYMOUS if self.visitors.is_open else None, "", is_new=False)
        visit = PageRequest(self, request, anonymous, FormData(), self.service.now())
        return visit.page("trouble.html", status=trouble.status, trouble=trouble)

    async def _routed(self, scope: Scope, receive: Receive, send: Send) -> None:
        allow = allow_of(self.routes, scope)
        if allow is None:
            await self._router(scope, receive, send)
            return
        answer = self._trouble(Request(scope), Trouble(wrong_method(scope, allow), 405))
        answer.headers["Allow"] = allow
        await answer(scope, receive, send)

    async def _not_found(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = self._refuse(Request(scope), NotFound("There is no page at this address."))
        await answer(scope, receive, send)


class DashboardFirst:
    """Middleware before the API: the site answers its own paths, and unknown paths for browsers."""

    def __init__(self, app: ASGIApp, site: Site, others: Sequence[BaseRoute]) -> None:
        self._app, self._site, self._others = app, site, others

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (self._site.has(scope) or self._wants_error_page(scope)):
            await self._site.app(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _wants_error_page(self, scope: Scope) -> bool:
        wants_page = "text/html" in Request(scope).headers.get("accept", "")
        return wants_page and all(route.matches(scope)[0] is Match.NONE for route in self._others)


ROUTES: Final = (
    *login.ROUTES,
    *overview.ROUTES,
    *forms.ROUTES,
    *settings_page.ROUTES,
    *jobs.ROUTES,
    *jobs.ROUTES,
    *executions.ROUTES,
    *calendar.ROUTES,
    *overview.ROUTES,
    *overview.ROUTES,
)

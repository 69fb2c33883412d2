"""Log-in with a token or an API key, and log-out."""

from typing import Final
from urllib.parse import quote

from starlette.responses import Response

from ostinato.access.refusals import Refusal
from ostinato.core.errors import Unauthorized
from ostinato.dashboard.page_request import PageRequest, Trouble, get, post


def ask(visit: PageRequest) -> Response:
    """Redirect to the log-in page, which later leads back to this page."""
    if visit.request.method == "POST":
        trouble = Trouble("Your session has ended. Nothing was changed. Log in and try again.", 401)
        return _form(visit.with_error("login", trouble), "/")
    wanted = visit.path + (f"?{visit.request.url.query}" if visit.request.url.query else "")
    return visit.redirect("/login" if wanted == "/" else f"/login?next={quote(wanted, safe='')}")


def show(visit: PageRequest) -> Response:
    """Show the form, or redirect a visitor who needs no log-in."""
    onward = _local(visit.query.get("next", "/"))
    return visit.redirect(onward) if visit.visitor.caller is not None else _form(visit, onward)


def log_in(visit: PageRequest) -> Response:
    onward = _local(str(visit.form.get("next", "/")))
    if not visit.site.visitors.log_in:
        return visit.redirect(onward)
    credential = str(visit.form.get("credential", "")).strip()
    try:
        session = visit.site.visitors.begin(credential)
    except Unauthorized as error:
        visit.request.state.refused = Refusal.of_text(credential, str(error))
        return _form(visit.with_error("credential", error), onward)
    return visit.remember(visit.redirect(onward), session)


def log_out(visit: PageRequest) -> Response:
    visit.site.visitors.end(visit.visitor)
    return visit.forget(visit.redirect("/login", "You are logged out."))


def _form(visit: PageRequest, onward: str) -> Response:
    return visit.page("login.html", onward=onward)


def _local(path: str) -> str:
    """Return the path if it is on this site, else the overview's."""
    safe = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if safe else "/"


ROUTES: Final = (
    get("/login", show, role=None),
    post("/login", log_in, role=None),
    post("/logout", log_out, role=None),
)

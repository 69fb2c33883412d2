"""Settings and their origins, API keys, health checks and versions."""

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Final
from uuid import UUID

from pydantic import ValidationError
from starlette.responses import Response

from ostinato.config import SETTINGS
from ostinato.core.access import Role
from ostinato.core.errors import NotFound, OstinatoError, Unauthorized
from ostinato.dashboard.forms.fields import (
    CHOICE,
    OPTIONAL,
    TEXT,
    Field,
    Form,
    nested,
    table,
    typed,
    value_of,
)
from ostinato.dashboard.page_request import PageRequest, get, post, with_error
from ostinato.service.access import NewKey
from ostinato.shapes.access import KeyBody

KEY_FIELDS: Final = table(
    Field("name", "Name", TEXT, "The owner of the key; events show it as key:NAME~ab12.", needed=True),
    Field(
        "role",
        "Role",
        CHOICE,
        choices=(
            ("viewer", "viewer: reads"),
            ("operator", "operator: also runs, pauses, cancels"),
            ("admin", "admin: also edits"),
        ),
    ),
    Field("expires_in", "Expires in", OPTIONAL, "30d, 12h", "never"),
)
LIBRARIES: Final = ("fastapi", "uvicorn", "pydantic", "jinja2", "httpx2", "psycopg", "cronsim", "tzdata")


def show(visit: PageRequest) -> Response:
    return _page(visit, Form(KEY_FIELDS, {"role": Role.VIEWER.value}))


def make_key(visit: PageRequest) -> Response:
    """Create a key and show it, once, on this page."""
    texts = typed(visit.form, KEY_FIELDS)
    values = {name: value_of(one, texts[name]) for name, one in KEY_FIELDS.items() if texts.get(name, "").strip()}
    form = Form(KEY_FIELDS, texts)
    try:
        body = KeyBody.model_validate(nested(values))
        made = visit.service.keys.create(
            body.name,
            body.role,
            body.expires_in,
            by=visit.by,
            check=lambda: visit.site.visitors.require(visit.request),
        )
    except Unauthorized:
        raise
    except (OstinatoError, ValidationError) as error:
        return _page(*with_error(visit, "key", form, error))
    return _page(visit, Form(KEY_FIELDS, {"role": Role.VIEWER.value}), made)


def revoke_key(visit: PageRequest) -> Response:
    try:
        key = visit.service.keys.revoke(UUID(visit.path_param("id")), by=visit.by)
    except ValueError:
        raise NotFound("There is no key with this id.") from None
    return visit.redirect("/settings#keys", f"The key of {key.name} is revoked.")


def end_access(visit: PageRequest) -> Response:
    """End all access. To log in again, the admin creates a token or a key on the command line."""
    ended = visit.service.access.end_all(by=visit.by)
    message = f"All access is ended: API keys revoked: {ended.keys}, sessions ended: {ended.sessions}."
    return visit.redirect("/settings", message)


def _page(visit: PageRequest, form: Form, made: NewKey | None = None) -> Response:
    settings = visit.site.settings
    values = settings.shown()
    return visit.page(
        "settings.html",
        settings=[(each, values[each.name], settings.origins.get(each.name, "argument")) for each in SETTINGS],
        warnings=settings.warnings,
        keys=visit.service.keys.list() if visit.may(Role.ADMIN) else [],
        form=form,
        made=made,
        findings=visit.service.check_up(),
        versions=_versions(visit),
    )


def _versions(visit: PageRequest) -> list[tuple[str, str]]:
    ours = [
        ("Ostinato", visit.site.version),
        ("Python", f"{platform.python_version()} on {platform.platform(terse=True)}"),
    ]
    return ours + [(name, found) for name in LIBRARIES if (found := _version(name))]


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


ROUTES: Final = (
    get("/settings", show),
    post("/settings/keys", make_key, Role.ADMIN),
    post("/settings/keys/{id}/revoke", revoke_key, Role.ADMIN),
    post("/settings/access/end", end_access, Role.ADMIN),
)

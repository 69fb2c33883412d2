"""Providers: how often hosts may be asked, what is left of that, and who waits for it."""

from typing import Any, Final

from pydantic import ValidationError
from starlette.responses import Response

from ostinato.core.access import Role
from ostinato.core.auth import secrets_of
from ostinato.core.errors import Conflict, Invalid, OstinatoError
from ostinato.dashboard.forms.errors import troubled
from ostinato.dashboard.forms.fields import (
    CHOICE,
    OPTIONAL,
    TEXT,
    WHOLE,
    Field,
    Form,
    flat,
    nested,
    table,
    typed,
    value_of,
)
from ostinato.dashboard.page_request import PageRequest
from ostinato.dashboard.routes import get, post
from ostinato.shapes.base import WrongField
from ostinato.shapes.providers import ProviderAnswer, ProviderBody

KEY: Final = "key"  # the object with what each request carries
FIELDS: Final = table(
    Field("domain", "Domain", TEXT, "api.example.org; all below it share its budget.", needed=True),
    Field("limit", "Requests", WHOLE, "Of all workers together.", needed=True),
    Field("period", "In any", OPTIONAL, "1s, 1m, 1h", needed=True),
    Field(
        f"{KEY}.type",
        "Key",
        CHOICE,
        "What each request carries.",
        "",
        (("", "none"), ("header", "a header"), ("query", "a parameter"), ("bearer", "bearer token")),
    ),
    Field(f"{KEY}.name", "Name of the header or parameter", OPTIONAL),
    Field(
        f"{KEY}.value",
        "Its value",
        OPTIONAL,
        "Where the secret is: env:SECRET_NAME or file:/run/secrets/NAME.",
    ),
    Field(
        f"{KEY}.token", "Token", OPTIONAL, "Where the secret is: env:SECRET_NAME or file:/run/secrets/NAME."
    ),
)


def show(visit: PageRequest) -> Response:
    """All of them; `?edit=` fills the form with one."""
    texts: dict[str, str] = {}
    if domain := visit.query.get("edit"):
        answer = ProviderAnswer.of(visit.service.providers.get(domain))
        texts = flat(answer.model_dump(mode="json"), FIELDS.values())
    return _page(visit, Form(FIELDS, texts))


def save(visit: PageRequest) -> Response:
    """A new one, or (`edits`) the same anew."""
    form = Form(FIELDS, typed(visit.form, FIELDS))
    edits = str(visit.form.get("edits", ""))
    try:
        provider = ProviderBody.model_validate(_said(form)).new()
        if edits:
            visit.service.providers.put(provider, by=visit.by)
        else:
            visit.service.providers.create(provider, by=visit.by)
    except (OstinatoError, ValidationError) as error:
        visit, form = troubled(visit, "provider", form, _in_its_field(error))
        return _page(visit, form)
    named = () if provider.key is None else secrets_of(provider.key)
    return visit.see("/providers", f"{provider.domain} may be asked {provider.budget}.", named)


def delete(visit: PageRequest) -> Response:
    domain = visit.part("domain")
    visit.service.providers.delete(domain, by=visit.by)
    return visit.see("/providers", f"{domain} is asked without a budget from now on.")


def _page(visit: PageRequest, form: Form) -> Response:
    edits = str(visit.form.get("edits", "")) or visit.query.get("edit", "")
    return visit.page("providers.html", providers=visit.service.providers.list(), form=form, edits=edits)


def _said(form: Form) -> dict[str, Any]:
    said = {name: value_of(one, form.text(name)) for name, one in FIELDS.items() if form.text(name).strip()}
    if f"{KEY}.type" not in said:
        return {name: value for name, value in said.items() if not name.startswith(f"{KEY}.")}
    return nested(said)


def _in_its_field(error: OstinatoError | ValidationError) -> OstinatoError | ValidationError:
    """Attach an error that begins with a field's name to that field."""
    if isinstance(error, Conflict):
        return WrongField("domain", str(error))
    if not isinstance(error, Invalid) or isinstance(error, WrongField | ValidationError):
        return error
    first = str(error).split()[0].rstrip(":")
    return WrongField(first, str(error)) if first in FIELDS else error


ROUTES: Final = (
    get("/providers", show),
    post("/providers", save, Role.ADMIN),
    post("/providers/{domain}/delete", delete, Role.ADMIN),
)

"""Providers: request budgets of hosts, their remaining requests, and the runs that wait."""

from typing import Any, Final

from pydantic import ValidationError
from starlette.responses import Response

from ostinato.core.access import Role
from ostinato.core.auth import secrets_of
from ostinato.core.errors import Conflict, Invalid, OstinatoError
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
from ostinato.dashboard.page_request import PageRequest, get, post, with_error
from ostinato.features.providers.service import ProviderService
from ostinato.features.providers.shapes import ProviderAnswer, ProviderBody
from ostinato.shapes.answers import as_json
from ostinato.shapes.base import WrongField

KEY: Final = "key"  # the object that describes the credential of each request
FIELDS: Final = table(
    Field("domain", "Domain", TEXT, "api.example.org; its subdomains share the budget.", needed=True),
    Field("limit", "Requests", WHOLE, "The limit of all workers together.", needed=True),
    Field("period", "Period", OPTIONAL, "1s, 1m, 1h", needed=True),
    Field(
        f"{KEY}.type",
        "Credential",
        CHOICE,
        "Sent with each request.",
        "",
        (("", "none"), ("header", "a header"), ("query", "a parameter"), ("bearer", "bearer token")),
    ),
    Field(f"{KEY}.name", "Name of the header or parameter", OPTIONAL),
    Field(
        f"{KEY}.value",
        "Value",
        OPTIONAL,
        "A reference to the secret: env:SECRET_NAME or file:/run/secrets/NAME.",
    ),
    Field(
        f"{KEY}.token",
        "Token",
        OPTIONAL,
        "A reference to the secret: env:SECRET_NAME or file:/run/secrets/NAME.",
    ),
)


def show(visit: PageRequest) -> Response:
    """Show all providers; `?edit=` fills the form with one."""
    texts: dict[str, str] = {}
    if domain := visit.query.get("edit"):
        answer = ProviderAnswer.of(visit.part(ProviderService).get(domain))
        texts = flat(as_json(answer), FIELDS.values())
    return _page(visit, Form(FIELDS, texts))


def save(visit: PageRequest) -> Response:
    """Create a provider, or replace the one that `edits` names."""
    form = Form(FIELDS, typed(visit.form, FIELDS))
    edits = str(visit.form.get("edits", ""))
    try:
        provider = ProviderBody.model_validate(_values(form)).new()
        if edits:
            visit.part(ProviderService).put(provider, by=visit.by)
        else:
            visit.part(ProviderService).create(provider, by=visit.by)
    except (OstinatoError, ValidationError) as error:
        visit, form = with_error(visit, "provider", form, _in_its_field(error))
        return _page(visit, form)
    named = () if provider.key is None else secrets_of(provider.key)
    return visit.redirect("/providers", f"The provider {provider.domain} is saved: {provider.budget}.", named)


def delete(visit: PageRequest) -> Response:
    domain = visit.path_param("domain")
    visit.part(ProviderService).delete(domain, by=visit.by)
    return visit.redirect("/providers", f"The provider {domain} is deleted. Its requests are no longer limited.")


def _page(visit: PageRequest, form: Form) -> Response:
    edits = str(visit.form.get("edits", "")) or visit.query.get("edit", "")
    return visit.page("providers.html", providers=visit.part(ProviderService).list(), form=form, edits=edits)


def _values(form: Form) -> dict[str, Any]:
    values = {name: value_of(one, form.text(name)) for name, one in FIELDS.items() if form.text(name).strip()}
    if f"{KEY}.type" not in values:
        return {name: value for name, value in values.items() if not name.startswith(f"{KEY}.")}
    return nested(values)


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

"""Reading of forms, and protection against forms that were not made for the visitor (CSRF)."""

import re
from typing import Final
from urllib.parse import parse_qsl

from starlette.datastructures import FormData, Headers
from starlette.requests import Request

from ostinato.access.bodies import read_body
from ostinato.access.credentials import OWN_SITES
from ostinato.access.sessions import Visitor
from ostinato.core.errors import Forbidden, Invalid

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

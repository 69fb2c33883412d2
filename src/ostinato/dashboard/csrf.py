"""Forms: read, and refused unless a page of ours for this very visitor has sent them."""

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
FROM_ELSEWHERE: Final = "This form was sent by a page from elsewhere; nothing was changed."
NOT_OURS: Final = (
    "This form is older than your session, or was not made for it; nothing was changed. Send it again."
)


async def read_form(request: Request) -> FormData:
    """Read the fields of a form, in their order; TooLarge, TooSlow or ClientGone."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() not in ("", FORM):
        raise Invalid(f"A form must be sent as {FORM}.")
    body = await read_body(request.receive)
    try:
        text = body.decode("utf-8")
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError:
        raise Invalid(
            f"The form cannot be read: it is not UTF-8, or has over {MOST_FIELDS} fields."
        ) from None
    return FormData([(name, value.replace("\r\n", "\n")) for name, value in pairs])


def require_own_form(headers: Headers, visitor: Visitor, form: FormData) -> None:
    """Forbidden unless the form carries the visitor's token and comes from a page of this site."""
    if not _same_origin(headers):
        raise Forbidden(FROM_ELSEWHERE)
    if not visitor.wrote(str(form.get(TOKEN, ""))):
        raise Forbidden(NOT_OURS)


def _same_origin(headers: Headers) -> bool:
    """As the browser says; one that says nothing is judged by the token alone."""
    if (site := headers.get("sec-fetch-site")) is not None:
        return site in OWN_SITES
    if (origin := headers.get("origin")) is None:
        return True
    found = ORIGIN.fullmatch(origin)
    return found is not None and found["authority"].lower() == headers.get("host", "").lower()

"""Recognition of callers: by a token, by an API key, or, without auth, from this host alone.

A credential is `Authorization: Bearer …` (a token or a key) or `X-API-Key: …`. One, and only one: a request that
brings two could be read in two ways.

Without auth, any caller at the port may do everything. So the port is on loopback, and a request must say so: a
browser that was lured to `http://evil.example` and then told that this name is 127.0.0.1 says `Host: evil.example`,
and a page from elsewhere that calls us says where it is from (`Origin`, `Sec-Fetch-Site`). Another port of this host
is elsewhere too.
"""

import ipaddress
import re
from collections.abc import Callable
from typing import Final

from starlette.datastructures import Headers

from ostinato.access.tokens import Tokens
from ostinato.config import Settings
from ostinato.core.access import ANYBODY, BEARER, Admission, is_key
from ostinato.core.errors import Forbidden, InvalidSetting, Unauthorized
from ostinato.service import Service
from ostinato.service.keys import admission_of

Recognise = Callable[[Headers], Admission]

AUTHORITY: Final = re.compile(r"(?P<host>\[[0-9a-f:.]+\]|[^\[\]:]+)(?::[0-9]{1,5})?", re.IGNORECASE)
OWN_SITES: Final = ("same-origin", "none")  # values of `Sec-Fetch-Site`: a page of this server, or no page
WANTED: Final = "This needs a credential: Authorization: Bearer TOKEN, with a token or an API key."


def anybody(_: Headers) -> Admission:
    """Admit every request: no credential is required."""
    return Admission(ANYBODY)


def recogniser(settings: Settings, service: Service, *, insecure: bool = False) -> Recognise:
    """As the settings say: by credentials, or without; `insecure` asks nobody anything."""
    if settings.auth_configured:
        return ByCredential(Tokens.of(settings), service)
    return anybody if insecure else on_loopback


def require_safe_binding(host: str, settings: Settings, *, insecure: bool) -> None:
    """Without auth a server listens on loopback only, unless told that this is meant."""
    if not (settings.auth_configured or insecure or is_loopback(host)):
        raise InvalidSetting(
            f"Without auth whoever reaches {host} could do everything: set OSTINATO_AUTH_SECRET (or another way of"
            " auth), listen on 127.0.0.1, or say --insecure if this is meant."
        )


class ByCredential:
    """Check of tokens and API keys."""

    def __init__(self, tokens: Tokens | None, service: Service) -> None:
        self._tokens, self._service = tokens, service
        self.signer = "" if tokens is None else tokens.signer

    def __call__(self, headers: Headers) -> Admission:
        return self.admit(_credential(headers))

    def admit(self, credential: str) -> Admission:
        """Check a token or key, with one read of the database; Unauthorized if it is not good now."""
        if is_key(credential):
            return admission_of(self._service.keys.find(credential))
        if self._tokens is None:
            raise Unauthorized("Tokens are not taken here: come with an API key.")
        admission = self._tokens.admit(credential, self._service.now())
        self._service.access.require_not_barred(admission)
        return admission

    def by_session(self, cookie: str) -> Admission:
        """Check the session of a cookie; Unauthorized when it is over."""
        return self._service.sessions.recognise(cookie, self.signer)


def on_loopback(headers: Headers) -> Admission:
    """Admit requests to this host without a credential, unless a page from elsewhere has sent them."""
    hosts = headers.getlist("host")
    if len(hosts) != 1 or not _names_loopback(hosts[0]):
        raise Forbidden("Without auth only requests to 127.0.0.1, ::1 or localhost are answered.")
    if not _is_from_here(headers, hosts[0]):
        raise Forbidden("Without auth pages from elsewhere are not answered.")
    return Admission(ANYBODY)


def _is_from_here(headers: Headers, host: str) -> bool:
    """Return True if no page, or a page of this scheme, host and port, has sent a request.

    A link on another page may be followed: it reads, and its page sees no answer. A form always names its `Origin`.
    """
    origins, sites = headers.getlist("origin"), headers.getlist("sec-fetch-site")
    if len(origins) > 1 or len(sites) > 1:
        return False
    if sites and sites[0] not in OWN_SITES and (origins or not _is_followed_link(headers)):
        return False
    forwarded = headers.get("x-forwarded-proto", "").partition(",")[0].strip().lower()
    schemes = ("http", "https") if sites == ["same-origin"] else (forwarded or "http",)
    return not origins or origins[0].lower() in [f"{scheme}://{host.lower()}" for scheme in schemes]


def _is_followed_link(headers: Headers) -> bool:
    """Return whether a browser shows a new page and sends no body: a form would send one."""
    if "content-type" in headers or "content-length" in headers:
        return False
    return headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"


def is_loopback(host: str) -> bool:
    """Return True if an address or name is this host's own."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _names_loopback(authority: str) -> bool:
    found = AUTHORITY.fullmatch(authority)
    return found is not None and is_loopback(found["host"].strip("[]"))


def _credential(headers: Headers) -> str:
    """The one that was brought."""
    bearers, keys = headers.getlist("authorization"), headers.getlist("x-api-key")
    if not bearers and not keys:
        raise Unauthorized(WANTED)
    if len(bearers) + len(keys) > 1:
        raise Unauthorized("There is more than one credential: bring one.")
    if keys:
        return keys[0]
    found = BEARER.fullmatch(bearers[0])
    if found is None:
        raise Unauthorized(WANTED)
    return found["credential"]

"""Recognition of callers: by a token, by an API key, or, without auth, by their address on this host.

A credential is `Authorization: Bearer …` (a token or a key) or `X-API-Key: …`. A request with two credentials is
ambiguous, and refused.

Without auth, any caller at the port may do everything. So the server listens on loopback, and `Host` must name it: in
DNS rebinding a browser resolves evil.example to 127.0.0.1, but still sends `Host: evil.example`. `Origin` and
`Sec-Fetch-Site` show whether a page of another site sent a request. Another port of this host is another site.
"""

import re
from collections.abc import Callable
from typing import Final

from starlette.datastructures import Headers

from ostinato.access.requests import OWN_SITES, is_followed_link, is_loopback
from ostinato.access.tokens import Tokens
from ostinato.config import Settings
from ostinato.core.access import ANONYMOUS, BEARER, Admission, is_key
from ostinato.core.errors import Forbidden, InvalidSetting, Unauthorized
from ostinato.service import Service
from ostinato.service.access import admission_of

Recognise = Callable[[Headers], Admission]

AUTHORITY: Final = re.compile(r"(?P<host>\[[0-9a-f:.]+\]|[^\[\]:]+)(?::[0-9]{1,5})?", re.IGNORECASE)
CREDENTIAL_REQUIRED: Final = (
    "This request needs a credential. Send Authorization: Bearer TOKEN, with a token or an API key."
)


def anybody(_: Headers) -> Admission:
    """Admit every request: no credential is required."""
    return Admission(ANONYMOUS)


def recogniser(settings: Settings, service: Service, *, insecure: bool = False) -> Recognise:
    """Return the recogniser that the settings ask for; `insecure` without auth admits every request."""
    if settings.auth_configured:
        return ByCredential(Tokens.of(settings), service)
    return anybody if insecure else on_loopback


def require_safe_binding(host: str, settings: Settings, *, insecure: bool) -> None:
    """Raise InvalidSetting if a server without auth would listen beyond loopback; `insecure` permits it."""
    if not (settings.auth_configured or insecure or is_loopback(host)):
        raise InvalidSetting(
            f"Without auth, every client that reaches {host} could do everything. Set OSTINATO_AUTH_SECRET (or another"
            " kind of auth), listen on 127.0.0.1, or add --insecure to allow this."
        )


class ByCredential:
    """Check of tokens and API keys."""

    def __init__(self, tokens: Tokens | None, service: Service) -> None:
        self._tokens, self._service = tokens, service
        self.signer = "" if tokens is None else tokens.signer

    def __call__(self, headers: Headers) -> Admission:
        return self.admit(_credential(headers))

    def admit(self, credential: str) -> Admission:
        """Check a token or key with one read of the database; raise Unauthorized if it is not valid now."""
        if is_key(credential):
            return admission_of(self._service.keys.find(credential))
        if self._tokens is None:
            raise Unauthorized("This server does not accept tokens. Use an API key.")
        admission = self._tokens.admit(credential, self._service.now())
        self._service.access.require_not_barred(admission)
        return admission

    def by_session(self, cookie: str) -> Admission:
        """Check the session of a cookie; raise Unauthorized if it has ended."""
        return self._service.sessions.recognise(cookie, self.signer)


def on_loopback(headers: Headers) -> Admission:
    """Admit requests to this host without a credential, unless a page of another site sent them."""
    hosts = headers.getlist("host")
    if len(hosts) != 1 or not _names_loopback(hosts[0]):
        raise Forbidden("Without auth, this server answers only requests to 127.0.0.1, ::1 or localhost.")
    if not _is_from_here(headers, hosts[0]):
        raise Forbidden("Without auth, this server does not answer requests from pages of other sites.")
    return Admission(ANONYMOUS)


def _is_from_here(headers: Headers, host: str) -> bool:
    """Return True if a request comes from no page, or from a page of this scheme, host and port.

    Links on other pages are allowed: they only read, and their page cannot see the answer. Forms always send `Origin`.
    """
    origins, sites = headers.getlist("origin"), headers.getlist("sec-fetch-site")
    if len(origins) > 1 or len(sites) > 1:
        return False
    if sites and sites[0] not in OWN_SITES and (origins or not is_followed_link(headers)):
        return False
    forwarded = headers.get("x-forwarded-proto", "").partition(",")[0].strip().lower()
    schemes = ("http", "https") if sites == ["same-origin"] else (forwarded or "http",)
    return not origins or origins[0].lower() in [f"{scheme}://{host.lower()}" for scheme in schemes]


def _names_loopback(authority: str) -> bool:
    found = AUTHORITY.fullmatch(authority)
    return found is not None and is_loopback(found["host"].strip("[]"))


def _credential(headers: Headers) -> str:
    """Read the one credential of a request; raise Unauthorized if there is none, or more than one."""
    bearers, keys = headers.getlist("authorization"), headers.getlist("x-api-key")
    if not bearers and not keys:
        raise Unauthorized(CREDENTIAL_REQUIRED)
    if len(bearers) + len(keys) > 1:
        raise Unauthorized("The request has more than one credential. Send one.")
    if keys:
        return keys[0]
    found = BEARER.fullmatch(bearers[0])
    if found is None:
        raise Unauthorized(CREDENTIAL_REQUIRED)
    return found["credential"]

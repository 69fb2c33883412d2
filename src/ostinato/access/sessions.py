"""Cookie sessions of browsers.

With auth, a token or an API key starts a session, which the database stores; its cookie is `HttpOnly` and
`SameSite=Strict`. Without auth, the cookie is a random value, and the token of each form belongs to it.
Browsers send a cookie to all ports of a host, so the cookie's name contains the port.
"""

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Final

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection

from ostinato.access.credentials import ByCredential, Recognise, anybody, on_loopback
from ostinato.access.mounting import host_of
from ostinato.core.access import Admission, Caller
from ostinato.core.errors import Unauthorized
from ostinato.service import Service

PORT: Final = re.compile(r":(?P<port>[0-9]{1,5})$")
COOKIE: Final = re.compile(r"[A-Za-z0-9_-]{43}")


@dataclass(frozen=True, slots=True)
class Visitor:
    """A visitor of the dashboard, and the token of its forms."""

    caller: Caller | None  # None: not logged in yet
    cookie: str
    is_new: bool  # the browser does not have the cookie yet
    credential: str = ""  # the id of the credential that started the session
    by_host: bool = False  # logged in by the application that the dashboard is mounted in

    @property
    def form_token(self) -> str:
        """The secret token in each form of this visitor."""
        return hmac.new(self.cookie.encode(), b"form", hashlib.sha256).hexdigest()

    def wrote(self, form_token: str) -> bool:
        return not self.is_new and hmac.compare_digest(self.form_token.encode(), form_token.encode())


class Visitors:
    """Recognition of visitors by the cookie of their browser."""

    def __init__(self, recognise: Recognise, service: Service) -> None:
        self._recognise, self._service = recognise, service

    @property
    def log_in(self) -> bool:
        """True if visitors have to log in."""
        return isinstance(self._recognise, ByCredential)

    @property
    def is_open(self) -> bool:
        """True if visitors need no log-in at all, neither here nor at a host."""
        return self._recognise in (anybody, on_loopback)

    def of(self, request: HTTPConnection) -> Visitor:
        """Recognise a visitor; raise Forbidden if it may not even see the log-in page."""
        headers, host = request.headers, host_of(request.scope)
        given = cookie_of(headers)
        cookie = given or secrets.token_urlsafe(32)
        if host is not None:
            admission = host.check()
            return Visitor(admission.caller, cookie, given is None, admission.credential, by_host=True)
        if not self.log_in:
            return Visitor(self._recognise(headers).caller, cookie, given is None)
        session = None if given is None else self._admission(given)
        if session is None:
            return Visitor(None, cookie, given is None)
        return Visitor(session.caller, cookie, is_new=False, credential=session.credential)

    def require(self, request: HTTPConnection) -> None:
        """Raise Unauthorized if the session has ended."""
        if self.of(request).caller is None:
            raise Unauthorized("The session has ended. Log in again.")

    def _admission(self, cookie: str) -> Admission | None:
        try:
            return self._by_credential.by_session(cookie)
        except Unauthorized:
            return None

    def begin(self, credential: str) -> str:
        """Start a session and return its cookie; raise Unauthorized if the credential is not valid."""
        return self._service.sessions.begin(self._by_credential.admit(credential))

    def end(self, visitor: Visitor) -> None:
        self._service.sessions.end(visitor.cookie)

    @property
    def _by_credential(self) -> ByCredential:
        assert isinstance(self._recognise, ByCredential)
        return self._recognise


def session_recogniser(recognise: Recognise) -> Recognise | None:
    """Return a recogniser by session cookie, for the requests of scripts; None if nobody logs in here."""
    if not isinstance(recognise, ByCredential):
        return None

    def by_session(headers: Headers) -> Admission:
        cookie = cookie_of(headers)
        return recognise(headers) if cookie is None else recognise.by_session(cookie)

    return by_session


def cookie_name(headers: Headers) -> str:
    found = PORT.search(headers.get("host", ""))
    return f"ostinato_{found['port']}" if found else "ostinato"


def cookie_of(headers: Headers) -> str | None:
    """Read our cookie; None without one."""
    try:
        jar = SimpleCookie(headers.get("cookie", ""))
    except CookieError:
        return None
    morsel = jar.get(cookie_name(headers))
    return morsel.value if morsel is not None and COOKIE.fullmatch(morsel.value) else None

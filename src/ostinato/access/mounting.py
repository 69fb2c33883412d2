"""Requests to a mounted API: the prefix, and who may send them.

The host strips nothing from `path`; it names the prefix in `root_path`. Inside, `path` has no prefix and `root_path` is
empty, so that each rule about paths is the same as in `ostinato serve`. Links add `root_of(scope)`.

A mounted API is as public as its host. So there are three doors, and each is shut until it is opened:

    caller=     the host's log-in. Its cookie comes with requests of every site, so pages of other sites are refused
    auth is on  tokens, keys and sessions, as in `ostinato serve`
    neither     only requests of this host that no proxy has passed on. `Host` alone proves nothing here: a client far
                away may send any, while `ostinato serve` relies on its loopback socket
"""

import inspect
import re
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.types import Scope

from ostinato.access.requests import OWN_SITES, is_followed_link, is_loopback
from ostinato.core.access import Admission, Caller, Role, is_reserved
from ostinato.core.errors import Forbidden, Invalid, Unauthorized

Found = tuple[str, str] | None
HostLogin = Callable[[MutableMapping[str, Any]], Found | Awaitable[Found]]

ROOT: Final = "ostinato.root"
HOST: Final = "ostinato.host"
KEPT: Final = (
    "type", "asgi", "http_version", "method", "scheme", "query_string", "headers", "client", "server", "extensions",
)  # fmt: skip
PROXIES: Final = (
    "forwarded", "via", "x-real-ip", "cf-connecting-ip", "true-client-ip", "x-forwarded-for", "x-forwarded-host",
    "x-forwarded-proto", "x-forwarded-port", "x-forwarded-prefix", "x-forwarded-server",
)  # fmt: skip
ORIGIN: Final = re.compile(r"https?://(?P<authority>[^/?#@]+)", re.IGNORECASE)
STREAM_SECONDS: Final = 60.0  # of the host's log-in; then the client reconnects, and the host is asked again
LONGEST_NAME: Final = 200
ONLY_HERE: Final = (
    "Without auth, a mounted dashboard answers only requests that come from this host without a proxy. Set"
    " OSTINATO_AUTH_SECRET (or another kind of auth), or pass caller= to app.asgi()."
)
LOG_IN_THERE: Final = "You are not logged in, or may not use this part. Log in to the application, then come back."
OTHER_SITE: Final = "A page of another site sent this request. Nothing was changed."
WRONG_CALLER: Final = (
    "The function caller of app.asgi() must return None or (name, role); the role is viewer, operator or admin."
    " It returned {!r}."
)


@dataclass(frozen=True, slots=True)
class _HostAdmission:
    """A caller that the host has logged in, and the time until which this holds for a stream."""

    admission: Admission
    until: float

    def check(self) -> Admission:
        """Raise Unauthorized when the host must be asked again."""
        if time.monotonic() > self.until:
            raise Unauthorized("The log-in must be checked again.")
        return self.admission


def inner_scope(scope: Scope) -> Scope:
    """Return the scope for the API: without the prefix, and without the state of the host."""
    root, path = _split(scope)
    inner = {name: scope[name] for name in KEPT if name in scope}
    prefix = f"/{root.strip('/')}" if root else ""  # with two slashes a link would lead to another host
    return inner | {"path": path or "/", "raw_path": b"", "root_path": "", ROOT: prefix, "state": {}}


def _split(scope: Scope) -> tuple[str, str]:
    """Split the path into prefix and rest. `FastAPI(root_path="/x")` names a prefix that its path may not have."""
    root, path = str(scope.get("root_path", "")).rstrip("/"), str(scope["path"])
    outside = str(scope.get("app_root_path", "")).rstrip("/")
    for prefix in (root, root.removeprefix(outside)):
        if path == prefix or path.startswith(f"{prefix}/"):
            return root, path[len(prefix) :]
    return root, path


def root_of(scope: Scope) -> str:
    """Return the prefix of all addresses: `/ops`, or nothing."""
    return str(scope.get(ROOT, ""))


def host_of(scope: Scope) -> _HostAdmission | None:
    """Return the log-in of the host; None without one."""
    found = scope.get(HOST)
    return found if isinstance(found, _HostAdmission) else None


def nobody(_: Headers) -> Admission:
    """Refuse every request: only the host logs in."""
    raise Unauthorized(LOG_IN_THERE)


def require_this_host(scope: Scope) -> None:
    """Raise Forbidden unless the request comes from this host, and from no proxy."""
    client, headers = scope.get("client"), Headers(scope=scope)
    if client is None or not is_loopback(client[0]) or any(name in headers for name in PROXIES):
        raise Forbidden(ONLY_HERE)


async def ask_host(caller: HostLogin, scope: Scope) -> Found:
    """Call the host's function, on a thread unless it is async; raise Invalid if its answer is not an answer."""
    found = await caller(scope) if inspect.iscoroutinefunction(caller) else await run_in_threadpool(caller, scope)
    if inspect.isawaitable(found):
        found = await found
    if found is None:
        return None
    match found:
        case (str() as name, str() as role) if name and role in list(Role):
            return name, role
    raise Invalid(WRONG_CALLER.format(found))


def admitted(found: tuple[str, str], scope: Scope) -> _HostAdmission:
    """Admit a caller of the host; raise Forbidden for a page of another site, and for a name of Ostinato's own."""
    name, role = found[0][:LONGEST_NAME], Role(found[1])
    if not _is_from_this_site(Headers(scope=scope)):
        raise Forbidden(OTHER_SITE)
    if is_reserved(name):
        raise Forbidden(f"The name {name} is Ostinato's own. Let caller return another name.")
    return _HostAdmission(Admission(Caller(name, role), f"host:{name}"), time.monotonic() + STREAM_SECONDS)


def _is_from_this_site(headers: Headers) -> bool:
    """Return True if no page of another site sent the request; a link on one may lead here."""
    origins, sites = headers.getlist("origin"), headers.getlist("sec-fetch-site")
    if len(origins) > 1 or len(sites) > 1:
        return False
    if sites:
        return sites[0] in OWN_SITES or (not origins and is_followed_link(headers))
    if not origins:
        return True
    found = ORIGIN.fullmatch(origins[0])
    return found is not None and found["authority"].lower() == headers.get("host", "").lower()

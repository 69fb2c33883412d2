"""The caller of a request, and its role.

`Authentication` recognises the caller before the body is read. An endpoint names the role that it requires:
`by: Annotated[Caller, needs(Role.OPERATOR)]`.
"""

from functools import partial
from typing import Annotated, Any, Final

from fastapi import Depends, Request
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from ostinato.access.credentials import Recognise
from ostinato.access.mounting import host_of
from ostinato.access.refusals import REFUSED, Refusal
from ostinato.access.requests import run_check
from ostinato.core.access import Caller, Role
from ostinato.core.errors import Forbidden, OstinatoError, Unauthorized
from ostinato.rest.failures import refusal


class Authentication:
    """Middleware that recognises the caller of each request, or answers 401. Open paths need no credential.

    A session of the dashboard allows reads only (`by_session`). A change requires a credential: a page of another site
    cannot make a browser send one.
    """

    def __init__(
        self,
        app: ASGIApp,
        recognise: Recognise,
        open_paths: frozenset[str],
        by_session: Recognise | None = None,
    ) -> None:
        self._app, self._recognise, self._open = app, recognise, open_paths
        self._by_session = by_session or recognise

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in self._open:
            headers = Headers(scope=scope)
            host = host_of(scope)
            reads = scope["method"] in READING and not any(name in headers for name in CREDENTIALS)
            by_credential = partial(self._by_session if reads else self._recognise, headers)
            check = by_credential if host is None else host.check
            state = scope.setdefault("state", {})
            try:
                state["admission"] = await run_check(check)
            except OstinatoError as error:
                if isinstance(error, Unauthorized):
                    state[REFUSED] = Refusal.of(headers, str(error))
                await refusal(error)(scope, receive, send)
                return
            state["caller"], state["check"] = state["admission"].caller, check
        await self._app(scope, receive, send)


async def caller(request: Request) -> Caller:
    """Return the recognised caller."""
    found = request.state.caller
    assert isinstance(found, Caller)
    return found


def needs(role: Role) -> Any:
    """Return a dependency that gives the caller if its role allows `role`; otherwise the answer is 403."""

    async def allowed(found: Annotated[Caller, Depends(caller)]) -> Caller:
        if not found.role.allows(role):
            raise Forbidden(f"This needs the role {role.value}; {found.name} is {found.role.value}.")
        return found

    return Depends(allowed)


Viewer = Annotated[Caller, needs(Role.VIEWER)]

READING: Final = ("GET", "HEAD")
CREDENTIALS: Final = ("authorization", "x-api-key")
OPEN: Final = frozenset({"/healthz", "/readyz"})

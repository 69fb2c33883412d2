"""The caller of a request, and its role.

The doorkeeper recognises the caller before the request is read; an endpoint names the role that it needs:
`by: Annotated[Caller, needs(Role.OPERATOR)]`.
"""

from functools import partial
from typing import Annotated, Any, Final

from fastapi import Depends, Request
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from ostinato.access.checking import run_check
from ostinato.access.credentials import Recognise
from ostinato.access.refusals import REFUSED, Refusal
from ostinato.core.access import Caller, Role
from ostinato.core.errors import Forbidden, OstinatoError, Unauthorized
from ostinato.rest.failures import refusal


class Doorkeeper:
    """Lets in whom it recognises; the others get 401, whatever they wanted. Open paths ask nobody.

    Whoever has a session of the dashboard may read by it (`by_session`), and nothing else: what changes something
    needs a credential, which no page from elsewhere can make a browser send.
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
            reads = scope["method"] in READING and not any(name in headers for name in CREDENTIALS)
            check = partial(self._by_session if reads else self._recognise, headers)
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
    """Whom the doorkeeper recognised."""
    found = request.state.caller
    assert isinstance(found, Caller)
    return found


def needs(role: Role) -> Any:
    """The caller, if the role is enough."""

    async def allowed(who: Annotated[Caller, Depends(caller)]) -> Caller:
        if not who.role.allows(role):
            raise Forbidden(f"This needs the role {role.value}; {who.name} is {who.role.value}.")
        return who

    return Depends(allowed)


Viewer = Annotated[Caller, needs(Role.VIEWER)]
Operator = Annotated[Caller, needs(Role.OPERATOR)]
Admin = Annotated[Caller, needs(Role.ADMIN)]

READING: Final = ("GET", "HEAD")
CREDENTIALS: Final = ("authorization", "x-api-key")
OPEN: Final = frozenset({"/healthz", "/readyz"})

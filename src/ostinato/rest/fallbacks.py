"""Middleware for all endpoints: the answer to an unsupported method, and a header against content sniffing."""

from collections.abc import Sequence

from starlette.datastructures import MutableHeaders
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ostinato.access.methods import allow_of, wrong_method
from ostinato.rest.failures import NO_SNIFF, refuse


class ByMethod:
    """Middleware that answers 405 and lists the methods of the path."""

    def __init__(self, app: ASGIApp, routes: Sequence[BaseRoute]) -> None:
        self._app, self._routes = app, routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        allow = allow_of(self._routes, scope) if scope["type"] == "http" else None
        if allow is None:
            await self._app(scope, receive, send)
            return
        await refuse(405, wrong_method(scope, allow), {"Allow": allow})(scope, receive, send)


class NoSniff:
    """Middleware that tells browsers not to guess content types."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_header(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(NO_SNIFF)
            await send(message)

        await self._app(scope, receive, send_with_header)

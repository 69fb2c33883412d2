"""Answers that are the same for every endpoint: to a method that an address does not have, and to curious browsers."""

from collections.abc import Sequence

from starlette.datastructures import MutableHeaders
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ostinato.access.methods import allow_of, wrong_method
from ostinato.rest.failures import NO_SNIFF, refuse


class ByMethod:
    """Middleware that answers 405 with all methods of an address."""

    def __init__(self, app: ASGIApp, routes: Sequence[BaseRoute]) -> None:
        self._app, self._routes = app, routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        allow = allow_of(self._routes, scope) if scope["type"] == "http" else None
        if allow is None:
            await self._app(scope, receive, send)
            return
        await refuse(405, wrong_method(scope, allow), {"Allow": allow})(scope, receive, send)


class NoSniff:
    """Middleware that tells browsers to take each answer for what it says it is."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def told(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(NO_SNIFF)
            await send(message)

        await self._app(scope, receive, told)

"""Limit of concurrent requests: a request takes a place after its body, and returns it when its answer begins."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ostinato.access.workload import Workload
from ostinato.core.errors import TooManyRequests
from ostinato.rest.failures import refusal


class Working:
    """Middleware that waits for a place before a request runs; 429 if too many wait. Open paths need no place."""

    def __init__(self, app: ASGIApp, workload: Workload) -> None:
        self._app, self._workload = app, workload

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        admission = scope.get("state", {}).get("admission")
        if admission is None:
            await self._app(scope, receive, send)
            return
        try:
            place = await self._workload.place(admission.credential)
        except TooManyRequests as error:
            await refusal(error)(scope, receive, send)
            return

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                place.give_back()
            await send(message)

        try:
            await self._app(scope, receive, answer)
        finally:
            place.give_back()

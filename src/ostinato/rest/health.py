"""Health: `/healthz` is the process, `/readyz` what it needs to do its work. Neither asks who wants to know."""

import asyncio
from collections.abc import Callable
from typing import Final

from fastapi import APIRouter, Response
from pydantic import BaseModel

from ostinato.access.checking import run_check
from ostinato.core.errors import StoreError
from ostinato.rest.routers import api_router

ANSWER_WITHIN: Final = 5.0  # seconds that the database has

Check = Callable[[], list[str]]


class Alive(BaseModel):
    """The process answers."""

    status: str = "ok"


class Ready(BaseModel):
    """Readiness of this process; if it is not ready, the reasons."""

    ready: bool
    reasons: list[str]


class Readiness:
    """Asks what can be wrong, in a thread, once at a time: a database that hangs is not asked again and again."""

    def __init__(self, check: Check) -> None:
        self._check = check
        self._asking: asyncio.Task[list[str]] | None = None

    async def reasons(self) -> list[str]:
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(run_check(self._ask))
        try:
            return await asyncio.wait_for(asyncio.shield(self._asking), ANSWER_WITHIN)
        except TimeoutError:
            return [f"The database has not answered within {ANSWER_WITHIN:g} s."]

    def _ask(self) -> list[str]:
        try:
            return self._check()
        except StoreError:
            return ["The database does not answer."]


def router(check: Check) -> APIRouter:
    """`check` gives the reasons why this process is not ready."""
    routes, readiness = api_router("health", prefix=""), Readiness(check)

    @routes.get("/healthz")
    async def healthz() -> Alive:
        """This process answers."""
        return Alive()

    @routes.get("/readyz", responses={503: {"model": Ready, "description": "Not ready, and why"}})
    async def readyz(response: Response) -> Ready:
        """The database answers, its schema is current, and jobs come due here."""
        reasons = await readiness.reasons()
        if reasons:
            response.status_code = 503
        return Ready(ready=not reasons, reasons=reasons)

    return routes

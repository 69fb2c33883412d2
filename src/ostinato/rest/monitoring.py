"""`/healthz` checks the process, `/readyz` its dependencies, `/metrics` is for Prometheus."""

import asyncio
from collections.abc import Callable
from typing import Annotated, Final

from fastapi import APIRouter, Header, Response
from pydantic import BaseModel

from ostinato.access.requests import run_check
from ostinato.core.errors import StoreError
from ostinato.rest.caller import Viewer
from ostinato.rest.exporter import PrometheusText
from ostinato.rest.failures import api_router

# -- Endpoints of health: `/healthz` checks the process, `/readyz` its dependencies. Neither needs a credential

ANSWER_WITHIN: Final = 5.0  # seconds that a check of the database may take

Check = Callable[[], list[str]]


class Alive(BaseModel):
    """Health of this process: it answers."""

    status: str = "ok"


class Ready(BaseModel):
    """Readiness of this process; if it is not ready, the reasons."""

    ready: bool
    reasons: list[str]


class Readiness:
    """Check of readiness, in a thread, one at a time: a database that hangs gets no further checks."""

    def __init__(self, check: Check) -> None:
        self._check = check
        self._checking: asyncio.Task[list[str]] | None = None

    async def reasons(self) -> list[str]:
        if self._checking is None or self._checking.done():
            self._checking = asyncio.create_task(run_check(self._found))
        try:
            return await asyncio.wait_for(asyncio.shield(self._checking), ANSWER_WITHIN)
        except TimeoutError:
            return [f"The database has not answered within {ANSWER_WITHIN:g} s."]

    def _found(self) -> list[str]:
        try:
            return self._check()
        except StoreError:
            return ["The database does not answer."]


def health_router(check: Check) -> APIRouter:
    """Return the health endpoints; `check` returns the reasons why this process is not ready."""
    routes, readiness = api_router("health", prefix=""), Readiness(check)

    @routes.get("/healthz")
    async def healthz() -> Alive:
        """Answer as long as the process runs."""
        return Alive()

    @routes.get("/readyz", responses={503: {"model": Ready, "description": "Not ready, and why"}})
    async def readyz(response: Response) -> Ready:
        """Check that the database answers, its schema is current, and this process fires due jobs."""
        reasons = await readiness.reasons()
        if reasons:
            response.status_code = 503
        return Ready(ready=not reasons, reasons=reasons)

    return routes


# -- `/metrics`, for Prometheus

TEXT: Final[dict[int | str, dict[str, object]]] = {
    200: {"description": "Prometheus text", "content": {"text/plain": {"schema": {"type": "string"}}}}
}


def metrics_router(text: PrometheusText) -> APIRouter:
    """Return the endpoint `/metrics`."""
    routes = api_router("metrics", prefix="")

    @routes.get("/metrics", response_class=Response, responses=TEXT)
    def metrics(by: Viewer, accept: Annotated[str, Header()] = "") -> Response:
        """Return all metrics in the format of Prometheus."""
        written, content_type = text.written(accept)
        return Response(written, media_type=content_type, headers={"Cache-Control": "no-store"})

    return routes

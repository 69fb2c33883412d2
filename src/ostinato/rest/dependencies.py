"""Dependencies of endpoints: the service, and the context of a request body."""

from collections.abc import Callable, Collection, Iterable
from typing import Annotated, Any, Final

from fastapi import Depends, Request, Response

from ostinato.service import Service
from ostinato.shapes.job_body import BodyContext

LONGEST_WARNING: Final = 4_000  # characters; many proxies refuse headers over 8 KiB


async def the_service(request: Request) -> Service:
    service = request.app.state.service
    assert isinstance(service, Service)
    return service


ServiceDep = Annotated[Service, Depends(the_service)]


def part(kind: Callable[[Service], Any]) -> Any:
    """Return a dependency that gives the part of a feature in the service."""

    async def found(service: ServiceDep) -> Any:
        return service.part(kind)

    return Depends(found)


async def here(request: Request, service: ServiceDep) -> BodyContext:
    """Return the context of a body: the time, the default time zone, and the app of new jobs."""
    return BodyContext(service.now(), request.app.state.settings.timezone, service.app, service.tasks.run_args)


BodyContextDep = Annotated[BodyContext, Depends(here)]


def warn(response: Response, service: Service, named: Iterable[str], tasks: Collection[str] = ()) -> None:
    """Add a Warning header that names secrets not granted on this host, and tasks without a description."""
    if warnings := service.warnings(named, tasks):
        text = " ".join(warnings).encode("ascii", "backslashreplace").decode()[:LONGEST_WARNING]
        response.headers["Warning"] = f'199 ostinato "{text}"'

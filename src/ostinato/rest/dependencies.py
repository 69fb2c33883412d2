"""Dependencies of endpoints: the front desk, and the time and place of a request."""

from collections.abc import Collection, Iterable
from typing import Annotated, Final

from fastapi import Depends, Request, Response

from ostinato.service import Service
from ostinato.shapes.job_body import BodyContext

LONGEST_WARNING: Final = 4_000  # characters; many proxies refuse headers over 8 KiB


async def the_service(request: Request) -> Service:
    service = request.app.state.service
    assert isinstance(service, Service)
    return service


ServiceDep = Annotated[Service, Depends(the_service)]


async def here(request: Request, service: ServiceDep) -> BodyContext:
    """The zone of schedules that name none, and the app that new jobs belong to."""
    return BodyContext(
        service.now(), request.app.state.settings.timezone, service.app, service.tasks.run_args
    )


BodyContextDep = Annotated[BodyContext, Depends(here)]


def warn(response: Response, service: Service, named: Iterable[str], tasks: Collection[str] = ()) -> None:
    """Say in a header which of these secrets are not granted on this host, and which tasks are not described."""
    if told := service.warnings(named, tasks):
        text = " ".join(told).encode("ascii", "backslashreplace").decode()[:LONGEST_WARNING]
        response.headers["Warning"] = f'199 ostinato "{text}"'

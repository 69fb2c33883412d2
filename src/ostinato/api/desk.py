"""Dependencies of endpoints: the front desk, and the time and place of a request."""

from collections.abc import Collection, Iterable
from typing import Annotated, Final

from fastapi import Depends, Request, Response

from ostinato.scheduler import Scheduler
from ostinato.wire.job_body import Here

LONGEST_WARNING: Final = 4_000  # characters; many proxies refuse headers over 8 KiB


async def front_desk(request: Request) -> Scheduler:
    desk = request.app.state.desk
    assert isinstance(desk, Scheduler)
    return desk


Desk = Annotated[Scheduler, Depends(front_desk)]


async def here(request: Request, desk: Desk) -> Here:
    """The zone of schedules that name none, and the app that new jobs belong to."""
    return Here(desk.now(), request.app.state.settings.timezone, desk.app, desk.tasks.run_args)


AtThisDesk = Annotated[Here, Depends(here)]


def warn(response: Response, desk: Scheduler, named: Iterable[str], tasks: Collection[str] = ()) -> None:
    """Say in a header which of these secrets are not granted on this host, and which tasks are not described."""
    if told := desk.warnings(named, tasks):
        text = " ".join(told).encode("ascii", "backslashreplace").decode()[:LONGEST_WARNING]
        response.headers["Warning"] = f'199 ostinato "{text}"'

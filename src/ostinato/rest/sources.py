"""Sources: HTTP APIs that are fetched into tables."""

from typing import Annotated

from fastapi import Body, Depends, Path, Query, Request, Response

from ostinato.core.auth import references
from ostinato.rest.caller import Admin, Operator, Viewer
from ostinato.rest.dependencies import ServiceDep, warn
from ostinato.rest.routers import api_router
from ostinato.service import Service
from ostinato.service.sources import SourceContext, SourceView
from ostinato.shapes.sources import (
    ApplyBody,
    Changes,
    Definition,
    PlanAnswer,
    RecordList,
    Replacing,
    SourceAnswer,
    SourceGone,
    SourceList,
    TriedAnswer,
)

router = api_router("sources")

Name = Annotated[str, Path(description="The name of a source.", max_length=100)]


async def here(request: Request) -> SourceContext:
    settings = request.app.state.settings
    return SourceContext(settings.timezone, settings.permits)


Written = Annotated[Definition, Body()]
AtThisDoor = Annotated[SourceContext, Depends(here)]


@router.post("/sources", status_code=201)
def create_source(
    body: Written, service: ServiceDep, here: AtThisDoor, by: Admin, response: Response
) -> SourceAnswer:
    """Declare a source; its first run is at once. 201 with the id of its job."""
    view = service.sources.create(body, here, by=by.name)
    response.headers["Location"] = f"/api/v1/sources/{view.name}"
    return _saved(service, view, response)


@router.get("/sources")
def list_sources(service: ServiceDep, by: Viewer) -> SourceList:
    """Every source, by name."""
    found = [SourceAnswer.of(view) for view in service.sources.list()]
    return SourceList(sources=found, total=len(found))


@router.post("/sources/test")
def test_source(body: Written, service: ServiceDep, here: AtThisDoor, by: Admin) -> TriedAnswer:
    """Fetch and map one page of a definition. Nothing is stored."""
    return TriedAnswer.of(service.sources.test(body, here))


@router.post("/sources/apply")
def apply_sources(
    body: ApplyBody, service: ServiceDep, here: AtThisDoor, by: Admin, response: Response
) -> PlanAnswer:
    """Bring the sources in line with these: created, changed, and deleted if pruned. `dry_run` only says so."""
    warn(response, service, [each for source in body.sources for each in references(source)])
    if body.dry_run:
        return PlanAnswer.of(service.sources.plan(body.sources, here, prune=body.prune), dry_run=True)
    done = service.sources.apply(body.sources, here, prune=body.prune, by=by.name)
    return PlanAnswer.of(done, dry_run=False)


@router.get("/sources/{name}")
def get_source(name: Name, service: ServiceDep, by: Viewer) -> SourceAnswer:
    """One source."""
    return SourceAnswer.of(service.sources.get(name))


@router.put("/sources/{name}")
def replace_source(
    name: Name,
    body: Annotated[Replacing, Body()],
    service: ServiceDep,
    here: AtThisDoor,
    by: Admin,
    response: Response,
) -> SourceAnswer:
    """The whole definition anew. A run in progress is not touched."""
    view = service.sources.replace(name, {"name": name, **body}, here, by=by.name)
    return _saved(service, view, response)


@router.patch("/sources/{name}")
def edit_source(
    name: Name,
    body: Annotated[Changes, Body()],
    service: ServiceDep,
    here: AtThisDoor,
    by: Admin,
    response: Response,
) -> SourceAnswer:
    """Some fields of the definition; null removes one."""
    view = service.sources.edit(name, body, here, by=by.name)
    return _saved(service, view, response)


@router.delete("/sources/{name}")
def delete_source(
    name: Name,
    service: ServiceDep,
    by: Admin,
    with_data: Annotated[bool, Query(description="Its rows too.")] = False,
) -> SourceGone:
    """Remove a source. Its rows stay, unless `with_data` says otherwise."""
    rows = service.sources.delete(name, with_data=with_data, by=by.name)
    told = f", with {rows} rows" if with_data else "; its rows stay"
    return SourceGone(message=f"Source {name} is deleted{told}.", rows_deleted=rows)


@router.post("/sources/{name}/run", status_code=202)
def run_source(name: Name, service: ServiceDep, by: Operator) -> SourceAnswer:
    """An extra run now; the schedule does not move."""
    return SourceAnswer.of(service.sources.run(name, by=by.name))


@router.get("/sources/{name}/records")
def list_records(
    name: Name, service: ServiceDep, by: Viewer, limit: Annotated[int, Query(ge=1, le=1000)] = 20
) -> RecordList:
    """The newest rows of a source, by column."""
    found = list(service.sources.records(name, limit))
    view = service.sources.get(name)
    return RecordList(records=found, table=view.source.table if view.source else "", limit=limit)


def _saved(service: Service, view: SourceView, response: Response) -> SourceAnswer:
    """A source that was saved, with a warning for secrets that are not granted on this host."""
    warn(response, service, references(view.written))
    return SourceAnswer.of(view)

"""Endpoints of sources: HTTP APIs to fetch into tables."""

from typing import Annotated

from fastapi import Body, Depends, Path, Query, Request, Response

from ostinato.core.auth import references
from ostinato.features.sources.service import SourceContext, SourceService, SourceView
from ostinato.features.sources.shapes import (
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
from ostinato.rest.caller import Admin, Operator, Viewer
from ostinato.rest.dependencies import ServiceDep, part, warn
from ostinato.rest.routers import api_router
from ostinato.service import Service

router = api_router("sources")
Sources = Annotated[SourceService, part(SourceService)]

Name = Annotated[str, Path(description="The name of a source.", max_length=100)]


async def here(request: Request) -> SourceContext:
    settings = request.app.state.settings
    return SourceContext(settings.timezone, settings.permits)


Written = Annotated[Definition, Body()]
SourceContextDep = Annotated[SourceContext, Depends(here)]


@router.post("/sources", status_code=201)
def create_source(
    body: Written, service: ServiceDep, sources: Sources, here: SourceContextDep, by: Admin, response: Response
) -> SourceAnswer:
    """Create a source; its first run starts at once. The answer has the id of its job."""
    view = sources.create(body, here, by=by.name)
    response.headers["Location"] = f"/api/v1/sources/{view.name}"
    return _saved(service, view, response)


@router.get("/sources")
def list_sources(sources: Sources, by: Viewer) -> SourceList:
    """List all sources by name."""
    found = [SourceAnswer.of(view) for view in sources.list()]
    return SourceList(sources=found, total=len(found))


@router.post("/sources/test")
def test_source(body: Written, sources: Sources, here: SourceContextDep, by: Admin) -> TriedAnswer:
    """Fetch and map one page of a definition. Nothing is stored."""
    return TriedAnswer.of(sources.test(body, here))


@router.post("/sources/apply")
def apply_sources(
    body: ApplyBody, service: ServiceDep, sources: Sources, here: SourceContextDep, by: Admin, response: Response
) -> PlanAnswer:
    """Make the sources match the body: create, change, and with `prune` delete. `dry_run` only returns the plan."""
    warn(response, service, [each for source in body.sources for each in references(source)])
    if body.dry_run:
        return PlanAnswer.of(sources.plan(body.sources, here, prune=body.prune), dry_run=True)
    done = sources.apply(body.sources, here, prune=body.prune, by=by.name)
    return PlanAnswer.of(done, dry_run=False)


@router.get("/sources/{name}")
def get_source(name: Name, sources: Sources, by: Viewer) -> SourceAnswer:
    """Get a source."""
    return SourceAnswer.of(sources.get(name))


@router.put("/sources/{name}")
def replace_source(
    name: Name,
    body: Annotated[Replacing, Body()],
    service: ServiceDep,
    sources: Sources,
    here: SourceContextDep,
    by: Admin,
    response: Response,
) -> SourceAnswer:
    """Replace the whole definition. A run in progress does not change."""
    view = sources.replace(name, {"name": name, **body}, here, by=by.name)
    return _saved(service, view, response)


@router.patch("/sources/{name}")
def edit_source(
    name: Name,
    body: Annotated[Changes, Body()],
    service: ServiceDep,
    sources: Sources,
    here: SourceContextDep,
    by: Admin,
    response: Response,
) -> SourceAnswer:
    """Change some fields of the definition; null removes a field."""
    view = sources.edit(name, body, here, by=by.name)
    return _saved(service, view, response)


@router.delete("/sources/{name}")
def delete_source(
    name: Name,
    sources: Sources,
    by: Admin,
    with_data: Annotated[bool, Query(description="Also delete its stored rows.")] = False,
) -> SourceGone:
    """Delete a source. Its stored rows stay, unless `with_data` is set."""
    rows = sources.delete(name, with_data=with_data, by=by.name)
    data = f", with {rows} rows" if with_data else "; its rows stay"
    return SourceGone(message=f"Source {name} is deleted{data}.", rows_deleted=rows)


@router.post("/sources/{name}/run", status_code=202)
def run_source(name: Name, sources: Sources, by: Operator) -> SourceAnswer:
    """Run a source now, in addition to its schedule."""
    return SourceAnswer.of(sources.run(name, by=by.name))


@router.get("/sources/{name}/records")
def list_records(
    name: Name, sources: Sources, by: Viewer, limit: Annotated[int, Query(ge=1, le=1000)] = 20
) -> RecordList:
    """List the newest rows of a source, by column."""
    found = list(sources.records(name, limit))
    view = sources.get(name)
    return RecordList(records=found, table=view.source.table if view.source else "", limit=limit)


def _saved(service: Service, view: SourceView, response: Response) -> SourceAnswer:
    """Return the answer for a saved source, with a warning for secrets that are not granted on this host."""
    warn(response, service, references(view.written))
    return SourceAnswer.of(view)

"""Endpoints of sources: HTTP APIs to fetch into tables."""

from typing import Annotated, Final

from ostinato.core.access import Role
from ostinato.core.arguments import text
from ostinato.core.auth import references
from ostinato.endpoints.table import Ask, InPath, Table
from ostinato.features.sources.service import SourceContext, SourceService, SourceView
from ostinato.features.sources.shapes import (
    ApplyBody,
    Changes,
    DeleteQuery,
    PartQuery,
    PlanAnswer,
    RecordList,
    RecordQuery,
    Replacing,
    RunQuery,
    SourceAnswer,
    SourceGone,
    SourceList,
    StateAnswer,
    StateBody,
    StateGone,
    StateList,
    StateQuery,
    TriedAnswer,
    Written,
)

TABLE: Final = Table("sources")

Name = Annotated[str, InPath("name", "The name of a source.", text(100))]


@TABLE.post("/sources", Role.ADMIN, status=201)
def create_source(ask: Ask, body: Written) -> SourceAnswer:
    """Create a source; its first run starts at once. The answer has the id of its job."""
    view = _sources(ask).create(body, _here(ask), by=ask.by.name)
    ask.headers["Location"] = f"/api/v1/sources/{view.name}"
    return _saved(ask, view)


@TABLE.get("/sources", Role.VIEWER)
def list_sources(ask: Ask) -> SourceList:
    """List all sources by name."""
    found = [SourceAnswer.of(view) for view in _sources(ask).list()]
    return SourceList(sources=found, total=len(found))


@TABLE.post("/sources/test", Role.ADMIN)
def test_source(ask: Ask, body: Written) -> TriedAnswer:
    """Fetch and map one page of a definition. Nothing is stored."""
    return TriedAnswer.of(_sources(ask).test(body, _here(ask)))


@TABLE.post("/sources/apply", Role.ADMIN)
def apply_sources(ask: Ask, body: ApplyBody) -> PlanAnswer:
    """Make the sources match the body: create, change, and with `prune` delete. `dry_run` only returns the plan."""
    ask.warn([each for source in body.sources for each in references(source)])
    sources = _sources(ask)
    if body.dry_run:
        return PlanAnswer.of(
            sources.plan(body.sources, _here(ask), prune=body.prune, first_run=body.first_run), dry_run=True
        )
    done = sources.apply(body.sources, _here(ask), prune=body.prune, first_run=body.first_run, by=ask.by.name)
    return PlanAnswer.of(done, dry_run=False)


@TABLE.get("/sources/{name}", Role.VIEWER)
def get_source(ask: Ask, name: Name) -> SourceAnswer:
    """Get a source."""
    return SourceAnswer.of(_sources(ask).get(name))


@TABLE.put("/sources/{name}", Role.ADMIN)
def replace_source(ask: Ask, name: Name, body: Replacing) -> SourceAnswer:
    """Replace the whole definition. A run in progress does not change."""
    return _saved(ask, _sources(ask).replace(name, {"name": name, **body}, _here(ask), by=ask.by.name))


@TABLE.patch("/sources/{name}", Role.ADMIN)
def edit_source(ask: Ask, name: Name, body: Changes) -> SourceAnswer:
    """Change some fields of the definition; null removes a field."""
    return _saved(ask, _sources(ask).edit(name, body, _here(ask), by=ask.by.name))


@TABLE.delete("/sources/{name}", Role.ADMIN)
def delete_source(ask: Ask, name: Name, asked: DeleteQuery) -> SourceGone:
    """Delete a source. Its stored rows stay, unless `with_data` is set."""
    rows = _sources(ask).delete(name, with_data=asked.with_data, by=ask.by.name)
    data = f", with {rows} rows" if asked.with_data else "; its rows stay"
    return SourceGone(message=f"Source {name} is deleted{data}.", rows_deleted=rows)


@TABLE.post("/sources/{name}/run", Role.OPERATOR, status=202)
def run_source(ask: Ask, name: Name, asked: RunQuery) -> SourceAnswer:
    """Run a source now, in addition to its schedule. Only an admin may set `allow_deletions`."""
    return SourceAnswer.of(_sources(ask).run(name, allow_deletions=asked.allow_deletions, by=ask.by))


@TABLE.get("/sources/{name}/records", Role.VIEWER)
def list_records(ask: Ask, name: Name, asked: RecordQuery) -> RecordList:
    """List the newest rows of a source, by column."""
    found = list(_sources(ask).records(name, asked.limit))
    view = _sources(ask).get(name)
    return RecordList(records=found, table=view.source.table if view.source else "", limit=asked.limit)


@TABLE.get("/sources/{name}/state", Role.VIEWER)
def get_source_state(ask: Ask, name: Name, asked: StateQuery) -> StateList:
    """Get how far a source has read, by part."""
    found = _sources(ask).states(name, after=asked.after or None, limit=asked.limit)
    return StateList(states=[StateAnswer.of(state) for state in found])


@TABLE.put("/sources/{name}/state", Role.ADMIN)
def set_source_state(ask: Ask, name: Name, body: StateBody) -> StateAnswer:
    """Set the value from which the next run asks for records; 409 while a run is in progress."""
    return StateAnswer.of(_sources(ask).set_state(name, body.cursor, part=body.part))


@TABLE.delete("/sources/{name}/state", Role.ADMIN)
def reset_source_state(ask: Ask, name: Name, asked: PartQuery) -> StateGone:
    """Forget how far a source has read: the next run begins anew. 409 while a run is in progress."""
    forgotten = _sources(ask).reset_state(name, part=asked.part or None)
    return StateGone(message=f"Source {name} begins anew with its next run.", forgotten=forgotten)


def _sources(ask: Ask) -> SourceService:
    return ask.part(SourceService)


def _here(ask: Ask) -> SourceContext:
    return SourceContext(ask.timezone, ask.service.known.permits)


def _saved(ask: Ask, view: SourceView) -> SourceAnswer:
    """Return the answer for a saved source, with a warning for secrets that are not granted on this host."""
    ask.warn(references(view.written))
    return SourceAnswer.of(view)

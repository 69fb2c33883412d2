"""Endpoints of imports: jobs of other systems, the record of each import, its undo."""

from typing import Annotated, Final

from ostinato.core.access import Role
from ostinato.core.arguments import text
from ostinato.endpoints.table import Ask, InPath, Table
from ostinato.features.transfer.service import ImportService
from ostinato.features.transfer.shapes import (
    ImportAnswer,
    ImportBody,
    ImportList,
    TakenAnswer,
    TakenList,
    UndoneAnswer,
    UndoQuery,
)

TABLE: Final = Table("imports")

Name = Annotated[str, InPath("name", "The name of an import.", text(200))]


@TABLE.get("/imports", Role.VIEWER, is_documented=False)
def list_imports(ask: Ask) -> ImportList:
    """List the newest imports, each with the number of its jobs that are still here."""
    service = ask.part(ImportService)
    return ImportList(imports=[ImportAnswer.of(row, service.count(row.name)) for row in service.list()])


@TABLE.post("/imports/{name}", Role.ADMIN, is_documented=False)
def import_jobs(ask: Ask, name: Name, body: ImportBody) -> TakenList:
    """Import jobs of another system; with `dry_run` only plan it. The commands `ostinato import …` make the bodies."""
    taken = ask.part(ImportService).take(
        name, body.kind, body.source, body.wanted(ask), ask.allowed, by=ask.by.name, dry_run=body.dry_run
    )
    return TakenList(name=name, jobs=[TakenAnswer.of(each) for each in taken])


@TABLE.post("/imports/{name}/undo", Role.ADMIN, is_documented=False)
def undo_import(ask: Ask, name: Name, asked: UndoQuery) -> UndoneAnswer:
    """Remove the next jobs of an import with their rows, but for those that were edited since."""
    undone = ask.part(ImportService).undo(name, asked.after, asked.limit, by=ask.by.name)
    return UndoneAnswer.of(name, undone)

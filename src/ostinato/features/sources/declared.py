"""Sources that a program declares: `app.source({...})`, `app.source("sources/gdp.yaml")`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ostinato.config import Settings
from ostinato.core.errors import Invalid
from ostinato.core.model import Definition
from ostinato.features.sources.rules import Source, definition_of, read_source
from ostinato.features.sources.rules.definition import FirstFetch
from ostinato.shapes.documents import listed, read_file


def declared_sources(given: Mapping[str, Any] | str | Path, settings: Settings, app: str) -> list[Definition]:
    """Return the jobs of a definition, or of all definitions in a file."""
    return [
        definition_of(_declared(read_source(each, settings.timezone, egress=settings.allow_private_addresses)), app)
        for each in ([given] if isinstance(given, Mapping) else _of_file(Path(given)))
    ]


def _declared(source: Source) -> Source:
    if source.first_run is FirstFetch.FROM_ROWS:
        raise Invalid(
            f"{source.name}: firstRun: from_rows reads the table, and a declaration is read without a database. "
            "Use firstRun: next, or create the source with `ostinato source apply`."
        )
    return source


def _of_file(file: Path) -> list[Any]:
    return [each for document in read_file(file) for each in listed(document, "sources")]

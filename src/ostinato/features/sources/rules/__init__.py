"""Sources: HTTP APIs that are fetched into a table, as values and rules.

`definition` has the values, `reading` reads them from definitions, `mapping` turns records into rows, `paging` finds
the next page, and `jobs` makes the job of a source. Nothing here does I/O.
"""

from ostinato.features.sources.rules.definition import Source
from ostinato.features.sources.rules.jobs import TASK, definition_of, key_of, source_of
from ostinato.features.sources.rules.reading import read_source

__all__ = ["TASK", "Source", "definition_of", "key_of", "read_source", "source_of"]

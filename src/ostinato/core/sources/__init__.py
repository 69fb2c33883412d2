"""Sources: an HTTP API that is fetched into a table, as values and rules.

`definition` has the values, `reading` makes them from what people write, `mapping` turns records into rows, `paging`
knows which page comes next, and `jobs` makes the job of a source. Nothing here asks or stores anything.
"""

from ostinato.core.sources.definition import Source
from ostinato.core.sources.jobs import TASK, definition_of, key_of, source_of
from ostinato.core.sources.reading import read_source

__all__ = ["TASK", "Source", "definition_of", "key_of", "read_source", "source_of"]

"""The secrets that steps of workflows name."""

from collections.abc import Iterator

from ostinato.core.auth import references as named
from ostinato.features.workflows.rows import Workflows
from ostinato.service.doctor import read
from ostinato.store.store import Store

PAGE_LIMIT = 250


def references(store: Store) -> Iterator[tuple[str, str]]:
    """Yield workflows and the references in the arguments of their steps."""
    rows, after, holders = store.part(Workflows), 0, store.database.features.holders
    while page := rows.page(PAGE_LIMIT, after):
        for row in page:
            for node in read(row.nodes) or []:
                yield from ((f"workflow {row.name}", each) for each in named(node.get("args"), holders))
        after = page[-1].id

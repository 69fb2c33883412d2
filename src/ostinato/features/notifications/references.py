"""The secrets that webhooks name."""

from collections.abc import Iterator

from ostinato.features.notifications.outbox import Outbox
from ostinato.store.store import Store


def references(store: Store) -> Iterator[tuple[str, str]]:
    """Yield webhooks and the references of their secrets."""
    return ((f"hook {hook.id}", hook.secret) for hook in store.part(Outbox).hooks() if hook.secret)

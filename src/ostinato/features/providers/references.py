"""The secrets that providers name."""

from collections.abc import Iterator

from ostinato.core.auth import secrets_of
from ostinato.features.providers.rows import Providers
from ostinato.store.store import Store


def references(store: Store) -> Iterator[tuple[str, str]]:
    """Yield providers and the references of their keys."""
    for provider in store.part(Providers).all():
        if provider.key is not None:
            yield from ((f"provider {provider.domain}", each) for each in secrets_of(provider.key))

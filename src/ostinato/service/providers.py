"""Providers at the front desk: whose budgets there are, what is left of them, and who waits."""

from ostinato.clock import Clock
from ostinato.core.errors import Conflict, NotFound
from ostinato.core.providers import Provider, check_domain
from ostinato.store.providers import ProviderRow
from ostinato.store.store import Store

MOST_PROVIDERS = 1000


class ProviderService:
    """Saves, shows and deletes providers. What is saved counts within seconds in every process."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock

    def create(self, provider: Provider, *, by: str = "") -> ProviderRow:
        """A new one; Conflict if its domain has one already."""
        return self._saved(provider, by, new=True)[0]

    def put(self, provider: Provider, *, by: str = "") -> tuple[ProviderRow, bool]:
        """A new one, or the same anew; and whether it is new. What was used of its budget stays used."""
        return self._saved(provider, by)

    def list(self) -> list[ProviderRow]:
        """By domain."""
        return self._store.providers.standing(self._clock.now())

    def get(self, domain: str) -> ProviderRow:
        name = check_domain(domain)
        for row in self.list():
            if row.provider.domain == name:
                return row
        raise NotFound(f"There is no provider {name}.")

    def delete(self, domain: str, *, by: str = "") -> None:
        """Its hosts are asked without a budget from then on."""
        self._store.providers.delete(check_domain(domain), self._clock.now(), by)

    def _saved(self, provider: Provider, by: str, new: bool = False) -> tuple[ProviderRow, bool]:
        known = self._store.providers.all()
        if len(known) >= MOST_PROVIDERS and all(each.domain != provider.domain for each in known):
            raise Conflict(f"There are {MOST_PROVIDERS} providers already: delete one first.")
        is_new = self._store.providers.save(provider, self._clock.now(), by, new=new)
        return self.get(provider.domain), is_new

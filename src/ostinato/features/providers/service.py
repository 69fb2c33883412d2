"""Commands and questions about providers: their budgets, and the rest of each."""

from ostinato.core.errors import Conflict, NotFound
from ostinato.features.providers.rows import Providers
from ostinato.features.providers.rules import Provider, ProviderRow, check_domain
from ostinato.service import Service

MOST_PROVIDERS = 1000


class ProviderService:
    """Commands and questions about providers. Every process uses a change within seconds."""

    def __init__(self, service: Service) -> None:
        self._rows, self._clock = service.store.part(Providers), service.clock

    def create(self, provider: Provider, *, by: str = "") -> ProviderRow:
        """Create a provider; Conflict if its domain has one already."""
        return self._saved(provider, by, new=True)[0]

    def put(self, provider: Provider, *, by: str = "") -> tuple[ProviderRow, bool]:
        """Create or replace a provider; return it, and whether it is new. The used part of its budget stays used."""
        return self._saved(provider, by)

    def list(self) -> list[ProviderRow]:
        """List the providers, by domain."""
        return self._rows.standing(self._clock.now())

    def get(self, domain: str) -> ProviderRow:
        name = check_domain(domain)
        for row in self.list():
            if row.provider.domain == name:
                return row
        raise NotFound(f"There is no provider {name}.")

    def delete(self, domain: str, *, by: str = "") -> None:
        """Delete a provider; requests to its hosts have no budget any more."""
        self._rows.delete(check_domain(domain), self._clock.now(), by)

    def _saved(self, provider: Provider, by: str, new: bool = False) -> tuple[ProviderRow, bool]:
        known = self._rows.all()
        if len(known) >= MOST_PROVIDERS and all(each.domain != provider.domain for each in known):
            raise Conflict(f"There are {MOST_PROVIDERS} providers already: delete one first.")
        is_new = self._rows.save(provider, self._clock.now(), by, new=new)
        return self.get(provider.domain), is_new

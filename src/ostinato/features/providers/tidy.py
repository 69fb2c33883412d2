"""Removal of old rows of budgets."""

from datetime import datetime

from ostinato.features.providers.rows import Providers
from ostinato.store.kernel import Kernel


def tidy(kernel: Kernel, now: datetime) -> None:
    """Delete requests that no longer count."""
    kernel.part(Providers).forget(now)

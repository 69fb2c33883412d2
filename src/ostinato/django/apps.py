"""The app "ostinato.django" of a Django project: `migrate` creates and upgrades the tables of Ostinato, too."""

from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class OstinatoConfig(AppConfig):  # type: ignore[misc]
    """The app of Django."""

    name = "ostinato.django"
    label = "ostinato"
    verbose_name = "Ostinato"

    def ready(self) -> None:
        post_migrate.connect(upgrade, sender=self, dispatch_uid="ostinato")


def upgrade(using: str, **_: Any) -> None:
    """Upgrade our tables in a database that Django has migrated, if a backend of ours uses it."""
    from ostinato.django.backend import backends
    from ostinato.django.databases import is_in_memory

    for backend in backends().values():
        if backend.database == using and not is_in_memory(using):
            backend.app.upgrade()

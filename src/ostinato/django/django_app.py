"""The Ostinato app of each database in TASKS, and the Django tasks that it knows."""

from collections.abc import Mapping
from threading import RLock
from typing import Any, Final

from django.conf import settings

from ostinato.app import Ostinato
from ostinato.config import Settings
from ostinato.django.body import body_of
from ostinato.django.databases import transaction_of, url_of

NAME: Final = "django"  # scopes the keys of jobs
BY_DEFAULT: Final = "default"  # the origin of a setting that nobody has chosen
NOT_SETTINGS: Final = ("database", "modules")  # options of a backend; the others are settings of Ostinato

_apps: Final = dict[str, "DjangoApp"]()
_lock: Final = RLock()


class DjangoApp:
    """The app of one database of Django. It follows the database when tests replace it."""

    def __init__(self, alias: str, options: Mapping[str, Any]) -> None:
        given = {name: value for name, value in options.items() if name not in NOT_SETTINGS}
        self.alias = alias
        self.ostinato = Ostinato(given.pop("name", NAME), **{"timezone": _time_zone(), **given})

    def knows(self, path: str) -> bool:
        return self.ostinato.registry.own(path) is not None

    def add(self, task: Any, **options: Any) -> None:
        """Register a Django task under its module path."""
        self.ostinato.task(name=task.module_path, **options)(body_of(task))

    def following(self) -> Ostinato:
        """Return the app on the database that Django uses now; it may not be open yet."""
        url = url_of(self.alias)
        with _lock:
            if self.ostinato.settings.database_url != url:
                self.ostinato.close()
                self.ostinato.configure(database_url=url)
        return self.ostinato

    def opened(self) -> Ostinato:
        """Return the app with an open database.

        Jobs are then written and read through Django's connections. On PostgreSQL the app closes its own: Django
        could not drop a test database otherwise.
        """
        app = self.following()
        with _lock:
            if not app.is_open:
                self._open(app)
        return app

    def _open(self, app: Ostinato) -> None:
        with transaction_of(self.alias) as connection:
            database = app.open().store.database
            if connection is not None:
                with database.borrow(connection):
                    pass  # it compares the two databases, which takes a connection of its own the first time
        database.close()

    def upgrade(self) -> None:
        """Create or upgrade our tables; nothing stays open."""
        app = self.following()
        with _lock:
            if not app.is_open:
                app.open(upgrade=True)
                app.close()


def app_of(alias: str, options: Mapping[str, Any]) -> DjangoApp:
    """Return the app of a database, made on first use: threads and backends share it."""
    with _lock:
        if alias not in _apps:
            _apps[alias] = DjangoApp(alias, options)
        return _apps[alias]


def _time_zone() -> str | None:
    """Return Django's time zone for schedules, unless Ostinato was given another."""
    return settings.TIME_ZONE if Settings.load().origins["timezone"] == BY_DEFAULT else None

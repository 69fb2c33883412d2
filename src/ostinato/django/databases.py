"""Django's databases for Ostinato: the URL of an alias, and the open transaction of this thread."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from django.db import connections, transaction

from ostinato.core.errors import InvalidSetting

IN_MEMORY: Final = (
    'The database "{alias}" of Django is in memory, where no worker can see it. '
    'Give it a file: DATABASES["{alias}"]["TEST"] = {{"NAME": BASE_DIR / "test.sqlite3"}} for tests.'
)


def url_of(alias: str) -> str:
    """Return the URL of the database of an alias, as it is now: tests change it."""
    connection = connections[alias]
    match connection.vendor:
        case "sqlite":
            if connection.is_in_memory_db():
                raise InvalidSetting(IN_MEMORY.format(alias=alias))
            return f"sqlite:////{str(Path(connection.settings_dict['NAME']).absolute()).lstrip('/')}"
        case "postgresql":
            return _postgres_url(connection.get_connection_params())
        case vendor:
            raise InvalidSetting(
                f'The database "{alias}" of Django is {vendor}. Ostinato works on SQLite and PostgreSQL: name '
                'such a database in TASKS, OPTIONS={"database": ALIAS}.'
            )


def is_in_memory(alias: str) -> bool:
    """Return True if no other process can see the database of this alias."""
    connection = connections[alias]
    return bool(connection.vendor == "sqlite" and connection.is_in_memory_db())


def _postgres_url(params: Mapping[str, Any]) -> str:
    from psycopg import pq

    known = {option.keyword.decode() for option in pq.Conninfo.get_defaults()}
    said = {name: str(value) for name, value in params.items() if name in known and value not in (None, "")}
    user, password, name = (quote(said.pop(each, ""), safe="") for each in ("user", "password", "dbname"))
    said.pop("client_encoding", None)
    who = f"{user}{password and f':{password}'}@" if user else ""
    return f"postgresql://{who}/{name}?{urlencode(said, quote_via=quote)}"


@contextmanager
def transaction_of(alias: str) -> Iterator[object | None]:
    """Return the driver's connection with the caller's transaction on this alias.

    Outside of `atomic()` it is a transaction of its own. On SQLite it is then None: our own connection waits for its
    turn among the writers, and Django's would fail when another process writes.
    """
    connection = connections[alias]
    if connection.vendor == "sqlite" and not connection.in_atomic_block and connection.get_autocommit():
        yield None
        return
    with transaction.atomic(using=alias, savepoint=False):
        yield connection.connection

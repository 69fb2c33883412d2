"""Django's connections around a run: a thread of a worker must not keep one that the server has closed."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from asgiref.sync import sync_to_async
from django.db import close_old_connections, reset_queries


def renew() -> None:
    """Close the connections of this thread that are unusable or too old, and forget the recorded queries."""
    reset_queries()
    close_old_connections()


@contextmanager
def renewed() -> Iterator[None]:
    """Do it before and after a run, on its thread."""
    renew()
    try:
        yield
    finally:
        renew()


@asynccontextmanager
async def renewed_async() -> AsyncIterator[None]:
    """Do it around an `async def` run, on the thread that Django uses for its queries."""
    await sync_to_async(renew)()
    try:
        yield
    finally:
        await sync_to_async(renew)()

"""Apps on a fresh database of each kind, and a way to let an app work for a while."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from ostinato import Ostinato
from tests.waiting import PATIENCE

NewApp = Callable[..., Ostinato]


@pytest.fixture
def new_app(database_url: str) -> Iterator[NewApp]:
    """Make apps on the test's database, which has its schema."""
    made: list[Ostinato] = []

    def make(name: str = "shop", **settings: Any) -> Ostinato:
        app = Ostinato(name, **{"database_url": database_url, "poll_interval": "1s"} | settings)
        app.open(upgrade=True)
        made.append(app)
        return app

    yield make
    for app in made:
        app.close()


@pytest.fixture
def app(new_app: NewApp) -> Ostinato:
    return new_app()


def during(app: Ostinato, body: Callable[[], Awaitable[Any]]) -> Any:
    """Let the app work while `body` runs; return the result of `body`."""

    async def main() -> Any:
        async with app.running():
            return await asyncio.wait_for(body(), PATIENCE)

    return asyncio.run(main())

"""A service over a store that tests crank by hand, on both databases."""

from datetime import datetime

import pytest

from ostinato.service.service import Service
from tests.build import CHANCE
from tests.store.conftest import World, world

__all__ = ["world"]


class WorldClock:
    """The time of a world."""

    def __init__(self, world: World) -> None:
        self._world = world

    def now(self) -> datetime:
        return self._world.now

    def monotonic(self) -> float:
        return self._world.now.timestamp()


@pytest.fixture
def service(world: World) -> Service:
    return Service(world.store, WorldClock(world), CHANCE, "", lambda: ["work", "other"])

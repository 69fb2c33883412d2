"""Apps on either database, as in tests/app; and an API that is played."""

from collections.abc import Iterator

import pytest

from tests.app.conftest import app, new_app
from tests.played_api import PlayedApi

__all__ = ["app", "new_app"]


@pytest.fixture
def api() -> Iterator[PlayedApi]:
    with PlayedApi() as api:
        yield api

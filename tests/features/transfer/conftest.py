"""The time of the former systems."""

from datetime import UTC, datetime

import pytest

from tests.features.transfer import old_systems

AT_IMPORT = old_systems.NOW


@pytest.fixture(autouse=True)
def now(request, monkeypatch):
    """Let former systems count from the start of each test: a whole run takes longer than their shortest due time."""
    fresh = datetime.now(UTC).replace(microsecond=0)
    for module in (old_systems, request.module):
        if getattr(module, "NOW", None) is AT_IMPORT:
            monkeypatch.setattr(module, "NOW", fresh)
    return fresh

"""Apps on either database, as in tests/app."""

from tests.app.conftest import app, new_app

__all__ = ["app", "new_app"]

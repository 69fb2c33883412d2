"""Ostinato in Flask: `attach(jobs, app)` runs tasks in the app's context, and adds the command `flask ostinato`.

It may import every other room, and no other room imports it. `app` is imported by name: `--app ostinato.flask:app`.
"""

from typing import Any

from ostinato.config.extras import is_installed
from ostinato.core.errors import InvalidSetting

if not is_installed("flask"):
    raise InvalidSetting("ostinato.flask needs Flask: pip install flask.")

from ostinato.flask.attaching import attach, attached

__all__ = ["attach"]

APP = "app"


def __getattr__(name: str) -> Any:
    """Return the Ostinato app of the attached Flask app; load what FLASK_APP names if none is attached yet."""
    if name == APP:
        return attached()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""Ostinato in Django: "ostinato.django" in INSTALLED_APPS, a backend of `django.tasks`, and schedules beside tasks.

It may import every other room, and no other room imports it. `app` is imported by name: `--app ostinato.django:app`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from ostinato.config.extras import need

if TYPE_CHECKING:
    from ostinato.django.backend import Backend, job

__all__ = ["Backend", "job"]

APP: Final = "app"  # and app_NAME for the backend of that name in TASKS

need("django", "django", "ostinato.django")


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: Django imports this package before its apps are ready."""
    if name in __all__:
        return getattr(import_module("ostinato.django.backend"), name)
    if name == APP or name.startswith(f"{APP}_"):
        return import_module("ostinato.django.ready").app_named(name.removeprefix(APP).removeprefix("_"))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

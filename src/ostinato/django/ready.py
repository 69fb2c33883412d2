"""Django, set up, and the tasks of its apps. Workers and the processes of runs import this module.

It has an attribute for the body of each task, by which a process finds it: the path, with colons for dots.
"""

from importlib import import_module
from typing import Any

import django
from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import autodiscover_modules

from ostinato.core.errors import InvalidSetting


def _set_up() -> None:
    if apps.ready:
        return
    try:
        django.setup()
    except ImproperlyConfigured as error:
        raise InvalidSetting(f"Django is not set up: {error}") from error


_set_up()

from ostinato.app import Ostinato  # noqa: E402
from ostinato.django.backend import backends  # noqa: E402
from ostinato.django.body import path_of  # noqa: E402


def discover() -> None:
    """Import the module `tasks` of each app of Django, and those that the backends name."""
    autodiscover_modules("tasks")
    for backend in backends().values():
        for name in backend.options.get("modules", ()):
            import_module(name)


def app_named(name: str) -> Ostinato:
    """Return the app of the backend of this name; without a name, of "default" or of the first."""
    found = backends()
    if not found:
        raise InvalidSetting('No backend in TASKS is ours: {"default": {"BACKEND": "ostinato.django.Backend"}}.')
    if name and name not in found:
        raise InvalidSetting(f"TASKS has no backend {name!r} of ours; there are {', '.join(found)}.")
    return found[name or ("default" if "default" in found else next(iter(found)))].app.following()


def __getattr__(name: str) -> Any:
    for backend in backends().values():
        task = backend.app.ostinato.registry.own(path_of(name))
        if task is not None:
            return task.function
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


discover()

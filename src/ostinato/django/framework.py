"""Django's framework for tasks: `django.tasks` of Django 6, or its backport `django_tasks` for Django 5.2.

Only this module knows which of the two it is. Neither has types.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from ostinato.core.errors import InvalidSetting

DJANGO_6, BACKPORT = "django.tasks", "django_tasks"
NAME: Final = DJANGO_6 if find_spec(DJANGO_6) else BACKPORT

if find_spec(NAME) is None:
    raise InvalidSetting('Django 5.2 needs django-tasks: pip install "ostinato[django]".')

_base: Any = import_module(f"{NAME}.base")
_json: Any = import_module("django.utils.json" if NAME == DJANGO_6 else f"{NAME}.utils")

signals: Any = import_module(f"{NAME}.signals")
task_backends: Any = import_module(NAME).task_backends
BaseTaskBackend: Any = import_module(f"{NAME}.backends.base").BaseTaskBackend
TaskResultDoesNotExist: Any = import_module(f"{NAME}.exceptions").TaskResultDoesNotExist
Task: Any = _base.Task
TaskContext: Any = _base.TaskContext
TaskError: Any = _base.TaskError
TaskResult: Any = _base.TaskResult
TaskResultStatus: Any = _base.TaskResultStatus
normalize_json: Any = _json.normalize_json

"""The backend of Django's tasks: TASKS = {"default": {"BACKEND": "ostinato.django.Backend"}}.

A job is written through Django's connection, so it is part of the caller's `atomic()`.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple
from uuid import UUID

from ostinato.app import Ostinato
from ostinato.app.tasks import AppTask, run_once, without_schedule
from ostinato.core.errors import NotFound
from ostinato.core.payload import encode
from ostinato.django import framework
from ostinato.django.body import Body
from ostinato.django.databases import transaction_of
from ostinato.django.django_app import DjangoApp, app_of
from ostinato.django.results import DJANGO, EnqueueNote, as_ours, result_of
from ostinato.django.rules import CallArgs, by_name, our_priority
from ostinato.options import JobOptions
from ostinato.task import Call

DATABASE: Final = "database"  # the option with the alias
MOST_RUNS: Final = 250
BEGUN: Final = ("running", "completed", "failed", "cancelled")


class Backend(framework.BaseTaskBackend):  # type: ignore[misc]
    """Backend of `django.tasks` that makes each enqueued task a job of Ostinato."""

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: Mapping[str, Any]) -> None:
        super().__init__(alias, params)
        self.database: str = self.options.get(DATABASE, "default")

    @property
    def app(self) -> DjangoApp:
        """The app of the backend's database."""
        return app_of(self.database, self.options)

    def validate_task(self, task: Any) -> None:
        """Refuse a task that Django refuses; note the others: a worker must know them by name."""
        super().validate_task(task)
        if not self.app.knows(task.module_path):
            self.app.add(task)

    def enqueue(self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Enqueue a task, in the caller's transaction if there is one."""
        self.validate_task(task)
        call = CallArgs(framework.normalize_json(args), framework.normalize_json(kwargs))
        app = self.app.opened()
        known = _known(app, task.module_path)
        named = encode(by_name(known.body.parameters, call))
        at = app.now() if task.run_after is None else as_ours(task.run_after)
        options = self._options(known.options, task, len(call.args))
        definition = run_once(Call(task.module_path, named), at, options, app.name)
        with transaction_of(self.database) as connection:
            job = app.jobs.put(definition, connection)
        result = result_of(job, (), task, known.body.parameters)
        framework.signals.task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> Any:
        """Return the result of a job; raise TaskResultDoesNotExist without one."""
        app = self.app.opened()
        try:
            with self._reading(app):
                job = app.jobs.get(UUID(str(result_id)))
                runs = app.executions.search(job.id, states=BEGUN, limit=MOST_RUNS).items
            body = _known(app, job.task).body
        except (ValueError, NotFound) as error:
            raise framework.TaskResultDoesNotExist(result_id) from error
        return result_of(job, runs, body.task, body.parameters)

    def _options(self, own: JobOptions, task: Any, positional: int) -> JobOptions:
        note = EnqueueNote(positional, self.alias, task.priority, task.run_after)
        return {
            **without_schedule(own),
            "queue": task.queue_name,
            "priority": our_priority(task.priority),
            "metadata": {**own.get("metadata", {}), DJANGO: note.to_json()},
        }

    @contextmanager
    def _reading(self, app: Ostinato) -> Iterator[None]:
        """Read what the caller's transaction has written, too."""
        with transaction_of(self.database) as connection:
            if connection is None:
                yield
                return
            with app.parts.store.database.reading_in(connection):
                yield


def backends() -> dict[str, Backend]:
    """Return the backends of ours in TASKS, by name."""
    return {backend.alias: backend for backend in framework.task_backends.all() if isinstance(backend, Backend)}


class _Known(NamedTuple):
    """A task of Django in the registry, and the options of its jobs."""

    body: Body
    options: JobOptions


def _known(app: Ostinato, path: str) -> _Known:
    """Return a task of Django by its path; raise NotFound for one of another kind."""
    found = app.registry.own(path)
    if not isinstance(found, AppTask) or not isinstance(found.function, Body):
        raise NotFound(f"The task {path} is not one of Django's, or its module was not imported.")
    return _Known(found.function, found.options)

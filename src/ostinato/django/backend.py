"""The backend of Django's tasks: TASKS = {"default": {"BACKEND": "ostinato.django.Backend"}}; and `job` beside a task.

A job is written through Django's connection, so it is part of the caller's `atomic()`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any, Final, NamedTuple, TypeVar, Unpack
from uuid import UUID

from django.conf import settings

from ostinato.app import Ostinato
from ostinato.app.tasks import AppTask, run_once, without_schedule
from ostinato.config import Settings
from ostinato.core.errors import Invalid, NotFound
from ostinato.core.payload import encode
from ostinato.django import framework
from ostinato.django.body import Body, body_of
from ostinato.django.databases import transaction_of, url_of
from ostinato.django.results import DJANGO, EnqueueNote, as_ours, result_of
from ostinato.django.rules import CallArgs, by_name, our_priority
from ostinato.options import TASK_OPTIONS, JobOptions, TaskOptions, check_names
from ostinato.task import Call

T = TypeVar("T")

NAME: Final = "django"  # scopes the keys of jobs
BY_DEFAULT: Final = "default"  # the origin of a setting that nobody has chosen
NOT_SETTINGS: Final = ("database", "modules")  # options of a backend; the others are settings of Ostinato
DATABASE: Final = "database"  # the option with the alias
MOST_RUNS: Final = 250
SAID_BY_TASK: Final = {"priority": "priority", "queue": "queue_name"}
BEGUN: Final = ("running", "completed", "failed", "cancelled")


# -- The app of each database in TASKS, and the Django tasks that it knows

_apps: Final = dict[str, "_DjangoApp"]()
_lock: Final = RLock()


class _DjangoApp:
    """The app of one database of Django. It follows the database when tests replace it."""

    def __init__(self, alias: str, options: Mapping[str, Any]) -> None:
        given = {name: value for name, value in options.items() if name not in NOT_SETTINGS}
        self.alias = alias
        self.ostinato = Ostinato(given.pop("name", NAME), **{"timezone": _time_zone(), **given})

    def knows(self, path: str) -> bool:
        return self.ostinato.registry.own(path) is not None

    def add(self, task: Any, **options: Any) -> None:
        """Register a Django task under its module path."""
        self.ostinato.task(name=task.module_path, **options)(body_of(task))

    def following(self) -> Ostinato:
        """Return the app on the database that Django uses now; it may not be open yet."""
        url = url_of(self.alias)
        with _lock:
            if self.ostinato.settings.database_url != url:
                self.ostinato.close()
                self.ostinato.configure(database_url=url)
        return self.ostinato

    def opened(self) -> Ostinato:
        """Return the app with an open database.

        Jobs are then written and read through Django's connections. On PostgreSQL the app closes its own: Django
        could not drop a test database otherwise.
        """
        app = self.following()
        with _lock:
            if not app.is_open:
                self._open(app)
        return app

    def _open(self, app: Ostinato) -> None:
        with transaction_of(self.alias) as connection:
            database = app.open().store.database
            if connection is not None:
                with database.borrow(connection):
                    pass  # it compares the two databases, which takes a connection of its own the first time
        database.close()

    def upgrade(self) -> None:
        """Create or upgrade our tables; nothing stays open."""
        app = self.following()
        with _lock:
            if not app.is_open:
                app.open(upgrade=True)
                app.close()


def app_of(alias: str, options: Mapping[str, Any]) -> _DjangoApp:
    """Return the app of a database, made on first use: threads and backends share it."""
    with _lock:
        if alias not in _apps:
            _apps[alias] = _DjangoApp(alias, options)
        return _apps[alias]


def _time_zone() -> str | None:
    """Return Django's time zone for schedules, unless Ostinato was given another."""
    return settings.TIME_ZONE if Settings.load().origins["timezone"] == BY_DEFAULT else None


# -- The backend


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
    def app(self) -> _DjangoApp:
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


# -- `job`: schedules and policies beside a Django task


def job(**options: Unpack[TaskOptions]) -> Callable[[T], T]:
    """Schedule a Django task, or set the policies of its enqueues: `@job(cron="0 9 * * mon-fri", retries=3)` above
    `@task`. It returns the task."""
    check_names(options, TASK_OPTIONS)
    for ours, theirs in SAID_BY_TASK.items():
        if ours in options:
            raise Invalid(f"{ours}= is said to Django: @task({theirs}=…).")

    def declare(task: T) -> T:
        _declare(task, options)
        return task

    return declare


def _declare(task: Any, options: TaskOptions) -> None:
    if not isinstance(task, framework.Task):
        raise Invalid(f"@job stands above @task of {framework.NAME}: {task!r} is not a task.")
    backend = task.get_backend()
    if not isinstance(backend, Backend):
        raise Invalid(
            f"The task {task.module_path} has the backend {task.backend!r}, which has no schedules: "
            'set its BACKEND to "ostinato.django.Backend" in TASKS.'
        )
    backend.app.add(task, **options, queue=task.queue_name, priority=our_priority(task.priority))

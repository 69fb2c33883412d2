"""`job`: schedules and policies beside a Django task."""

from collections.abc import Callable
from typing import Any, Final, TypeVar, Unpack

from ostinato.core.errors import Invalid
from ostinato.django import framework
from ostinato.django.rules import our_priority
from ostinato.options import TASK_OPTIONS, TaskOptions, check_names

T = TypeVar("T")

SAID_BY_TASK: Final = {"priority": "priority", "queue": "queue_name"}


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
    from ostinato.django.backend import Backend

    if not isinstance(task, framework.Task):
        raise Invalid(f"@job stands above @task of {framework.NAME}: {task!r} is not a task.")
    backend = task.get_backend()
    if not isinstance(backend, Backend):
        raise Invalid(
            f"The task {task.module_path} has the backend {task.backend!r}, which has no schedules: "
            'set its BACKEND to "ostinato.django.Backend" in TASKS.'
        )
    backend.app.add(task, **options, queue=task.queue_name, priority=our_priority(task.priority))

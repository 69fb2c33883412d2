"""The body of a Django task, as Ostinato runs it: on the loop, on a thread or in a process.

A body is found by name: `ostinato.django.ready` has an attribute for each, so that the process of a run can import it.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any, Final

from django.utils import timezone

from ostinato.django import framework
from ostinato.django.connections import renewed, renewed_async
from ostinato.django.results import error_of, result_in_run
from ostinato.django.rules import open_to_names, parameters_of
from ostinato.task import Context
from ostinato.task.signals import hide_frames_of

hide_frames_of(__file__)

MODULE: Final = "ostinato.django.ready"
OURS: Final = inspect.Parameter("_ostinato", inspect.Parameter.POSITIONAL_ONLY, annotation=Context)


def attribute_of(path: str) -> str:
    """Return the name of the attribute that is the body of a task."""
    return path.replace(".", ":")


def path_of(attribute: str) -> str:
    return attribute.replace(":", ".")


class Body:
    """The function of a Django task, with its connections and the signals of Django around a call."""

    def __init__(self, task: Any) -> None:
        functools.update_wrapper(self, task.func)
        self.task, self.func = task, task.func
        self.parameters = parameters_of(inspect.signature(task.func), takes_context=task.takes_context)
        self.__module__, self.__qualname__ = MODULE, attribute_of(task.module_path)
        shown = open_to_names(self.parameters).parameters.values()
        self.__signature__ = self.parameters.replace(parameters=[OURS, *shown])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Body) and self.func is other.func

    def __hash__(self) -> int:
        return hash(self.func)

    def __call__(self, context: Context, /, **named: Any) -> Any:
        with renewed():
            run = _DjangoRun(self, context, named)
            framework.signals.task_started.send_robust(sender=run.sender, task_result=run.result)
            try:
                value = run.returned(self.func(*run.args, **run.kwargs))
            except BaseException as error:
                run.raised(error)
                framework.signals.task_finished.send_robust(sender=run.sender, task_result=run.result)
                raise
            framework.signals.task_finished.send_robust(sender=run.sender, task_result=run.result)
            return value


class _AsyncBody(Body):
    """The body of an `async def` task."""

    async def __call__(self, context: Context, /, **named: Any) -> Any:
        async with renewed_async():
            run = _DjangoRun(self, context, named)
            await framework.signals.task_started.asend_robust(sender=run.sender, task_result=run.result)
            try:
                value = run.returned(await self.func(*run.args, **run.kwargs))
            except BaseException as error:
                run.raised(error)
                await framework.signals.task_finished.asend_robust(sender=run.sender, task_result=run.result)
                raise
            await framework.signals.task_finished.asend_robust(sender=run.sender, task_result=run.result)
            return value


class _DjangoRun:
    """One run as Django sees it: the arguments as they were given, and the TaskResult so far."""

    def __init__(self, body: Body, context: Context, named: dict[str, Any]) -> None:
        self.result = result_in_run(context, body.task, body.parameters, named)
        self.sender = type(body.task.get_backend())
        first = [framework.TaskContext(task_result=self.result)] if body.task.takes_context else []
        self.args, self.kwargs = [*first, *self.result.args], self.result.kwargs

    def returned(self, value: Any) -> Any:
        """Return the value as JSON; raise TypeError if it is not, as Django says."""
        value = framework.normalize_json(value)
        self._end(framework.TaskResultStatus.SUCCESSFUL, _return_value=value)
        return value

    def raised(self, error: BaseException) -> None:
        self._end(framework.TaskResultStatus.FAILED, errors=[*self.result.errors, error_of(error)])

    def _end(self, status: Any, **more: Any) -> None:
        for name, value in {"status": status, "finished_at": timezone.now(), **more}.items():
            object.__setattr__(self.result, name, value)  # frozen for tasks; Django's own backends do the same


def body_of(task: Any) -> Callable[..., Any]:
    """Return the body of a Django task."""
    return _AsyncBody(task) if inspect.iscoroutinefunction(task.func) else Body(task)

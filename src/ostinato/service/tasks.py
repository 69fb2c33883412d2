"""Questions about tasks and their args."""

from dataclasses import dataclass
from typing import Any, Literal

from ostinato.core.errors import NotFound
from ostinato.core.task_schema import TaskSchema
from ostinato.service.known_tasks import KnownTasks
from ostinato.task.describing import help_of, schema_of

Origin = Literal["built_in", "own", "elsewhere"]


@dataclass(frozen=True, slots=True)
class TaskView:
    """A task, as far as it is known here. Of a task that no worker has described only the name is known."""

    name: str
    origin: Origin
    help: str = ""
    args: dict[str, Any] | None = None  # JSON schema
    off: str | None = None  # why it is not allowed here


class TaskService:
    """Questions about the known tasks."""

    def __init__(self, known: KnownTasks) -> None:
        self._known = known

    def list(self) -> list[TaskView]:
        """List the known tasks, by name."""
        names = self._known.everywhere()
        described = self._known.described(names)
        return [self._view(name, described.get(name)) for name in sorted(names)]

    def get(self, name: str) -> TaskView:
        """Return one task."""
        if name not in self._known.everywhere():
            raise NotFound(f"No process here, and no worker of the last 30 days, knows a task {name[:100]!r}.")
        return self._view(name, self._known.described([name]).get(name))

    def run_args(self, name: str) -> tuple[str, ...]:
        """Return the args that the jobs of a task open to operators by default."""
        own = self._known.own(name)
        return () if own is None else own.run_args

    def _view(self, name: str, described_there: TaskSchema | None) -> TaskView:
        own = self._known.own(name)
        if own is not None:
            return TaskView(name, "own", help_of(own), schema_of(own))
        if described_there is not None:
            return TaskView(name, "elsewhere", described_there.help, dict(described_there.args))
        if not self._known.is_built_in(name):
            return TaskView(name, "elsewhere")
        ours = self._known.features.built_in(name)
        return TaskView(name, "built_in", ours.help, ours.schema, ours.off(self._known.permits))

"""Workflows in Python: a function that lists the steps.

    @app.workflow
    def report(flow):
        rows = flow.step(extract, region=flow.payload["region"])
        flow.step(send_email, to="ops@example.org", count=rows.result["count"])

The function is called once, at its declaration. It builds the graph and runs no task. `rows.result["count"]` stands for
a future value. A step runs after the steps it refers to; other steps run in parallel.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, Unpack, cast
from uuid import UUID

from ostinato.core.errors import Invalid
from ostinato.core.payload import encode
from ostinato.features.workflows.rules import WORKFLOW_TASK, TriggerKind, read_graph
from ostinato.features.workflows.rules.condition import PART, REF
from ostinato.handle import Handle
from ostinato.options import JOB_OPTIONS, JobOptions, check_names, has_schedule
from ostinato.task import Call, Task

if TYPE_CHECKING:
    from ostinato.features.workflows.service import WorkflowService
    from ostinato.service import Service

Node = dict[str, Any]


class Reference:
    """A future value of a step or trigger: pass it to steps, or compare it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __getitem__(self, key: str | int) -> "Reference":
        if not PART.fullmatch(str(key)):
            raise Invalid(f"{key!r} cannot be used in a reference. Pass {self._text} as a whole.")
        return Reference(f"{self._text}.{key}")

    def __repr__(self) -> str:
        return f"<Reference {self._text}>"

    def __iter__(self) -> Iterator[Any]:
        raise Invalid(f"{self._text} has no value yet. Pass it to a step, which gets the value when it runs.")

    def __bool__(self) -> bool:
        raise Invalid(f"{self._text} has no value yet. Use using(when=…) for steps that depend on it.")

    def __eq__(self, other: object) -> "Condition":  # type: ignore[override]
        return self._compared("==", other)

    def __ne__(self, other: object) -> "Condition":  # type: ignore[override]
        return self._compared("!=", other)

    def __lt__(self, other: object) -> "Condition":
        return self._compared("<", other)

    def __le__(self, other: object) -> "Condition":
        return self._compared("<=", other)

    def __gt__(self, other: object) -> "Condition":
        return self._compared(">", other)

    def __ge__(self, other: object) -> "Condition":
        return self._compared(">=", other)

    __hash__ = None  # type: ignore[assignment]

    def _compared(self, sign: str, other: object) -> "Condition":
        right = other._text if isinstance(other, Reference) else json.dumps(other)
        return Condition(f"{self._text} {sign} {right}")

    @property
    def text(self) -> str:
        return self._text


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition for `using(when=…)`: `rows.result["count"] > 0`; joined by & and |."""

    text: str

    def __and__(self, other: "Condition") -> "Condition":
        return Condition(f"({self.text}) and ({other.text})")

    def __or__(self, other: "Condition") -> "Condition":
        return Condition(f"({self.text}) or ({other.text})")

    def __invert__(self) -> "Condition":
        return Condition(f"not ({self.text})")

    def __bool__(self) -> bool:
        raise Invalid(
            "A condition has no value before the workflow runs. Use using(when=…), and join conditions with & and |."
        )


@dataclass(frozen=True, slots=True)
class StepOf:
    """A step of a workflow, for references by other steps."""

    id: str

    @property
    def result(self) -> Reference:
        """The future result of the step."""
        return Reference(f"{self.id}.result")


class StepOptions(TypedDict, total=False):
    """Options of a step."""

    id: str
    after: StepOf | list[StepOf]
    retries: int
    retry_delay: str | float
    timeout: str | float
    when: Condition | Reference | str


class GraphBuilder:
    """Builder of the graph of one workflow."""

    def __init__(self, nodes: list[Node], options: StepOptions | None = None) -> None:
        self._nodes, self._options = nodes, options or StepOptions()

    @property
    def payload(self) -> Reference:
        """The payload of the trigger."""
        return Reference("payload")

    @property
    def trigger(self) -> Reference:
        """Fields of the trigger: `flow.trigger["timestamp"]`."""
        return Reference("trigger")

    def using(self, **options: Unpack[StepOptions]) -> "GraphBuilder":
        """Set options of the next step: `flow.using(retries=2, timeout="5m").step(extract)`."""
        for name in options:
            if name not in StepOptions.__annotations__:
                raise Invalid(f"A step has no option {name}=. Options are {', '.join(StepOptions.__annotations__)}.")
        return GraphBuilder(self._nodes, options)

    def step(self, task: Task[..., Any] | str, /, **args: Any) -> StepOf:
        """Add a step: a task with its arguments; references in them are resolved when the step is queued."""
        written = _written(args)
        name = task if isinstance(task, str) else task.name
        if not isinstance(task, str):
            task.arguments(written)  # Invalid if they do not fit
        options = dict(self._options)
        when, after = options.pop("when", None), options.pop("after", [])
        explicit = [after] if isinstance(after, StepOf) else list(after)  # type: ignore[call-overload]
        node: Node = {"id": options.pop("id", self._free(name)), "task": name, **options}
        if written:
            node["args"] = written
        if when is not None:
            node["when"] = when if isinstance(when, str) else when.text  # type: ignore[attr-defined]
        before = dict.fromkeys([*(step.id for step in explicit), *self._referred(node)])
        if before:
            node["after"] = list(before)
        self._nodes.append(node)
        return StepOf(node["id"])

    def _referred(self, node: Node) -> Iterator[str]:
        """Find the steps that a node refers to."""
        text = json.dumps([node.get("args"), node.get("when")])
        for other in self._nodes:
            if re.search(rf"(?<![\w.-]){re.escape(other['id'])}\.result\b", text):
                yield other["id"]

    def _free(self, task: str) -> str:
        taken = {node["id"] for node in self._nodes}
        name = re.sub(r"[^A-Za-z0-9_-]", "_", task)[:90]
        name = name if name[:1].isalpha() or name[:1] == "_" else f"_{name}"
        return next(each for n in range(1, len(taken) + 2) if (each := name if n == 1 else f"{name}_{n}") not in taken)


class _WorkflowApp(Protocol):
    """The app that declares a workflow: `Ostinato`, as far as a workflow needs it."""

    @property
    def scheduler(self) -> "Service": ...

    def handle(self, job_id: UUID, /) -> Handle: ...

    def schedule(self, call: Call, /, **options: Unpack[JobOptions]) -> None: ...


class AppWorkflow:
    """A workflow that an app declares in code."""

    def __init__(self, app: _WorkflowApp, name: str, nodes: list[Node], description: str) -> None:
        self._app, self.name, self.nodes, self.description = app, name, nodes, description

    def __repr__(self) -> str:
        return f"<Workflow {self.name}>"

    def run(self, **payload: Any) -> Handle:
        """Start the workflow now with this payload."""
        self.apply()
        return self._app.handle(self._workflows.run(self.name, payload).id)

    def apply(self) -> None:
        """Create or update the workflow in the database."""
        self._workflows.declare(self.name, self.nodes, self.description)

    @property
    def _workflows(self) -> "WorkflowService":
        from ostinato.features.workflows.service import WorkflowService

        return self._app.scheduler.part(WorkflowService)


def declare(
    app: _WorkflowApp,
    known: dict[str, AppWorkflow],
    function: Callable[[GraphBuilder], object],
    on: Sequence[str],
    options: JobOptions,
) -> AppWorkflow:
    """Declare the workflow that a function builds; with a schedule also declare a job that starts it."""
    made = drawn(app, function, on, options)
    if made.name in known:
        raise Invalid(f"Two workflows of this app have the name {made.name!r}. Give one of them another name=.")
    known[made.name] = made
    if has_schedule(options):
        keyed = cast(JobOptions, {"key": made.name, **options, "name": made.name})
        app.schedule(Call(WORKFLOW_TASK, encode({"workflow": made.name})), **keyed)
    return made


def drawn(
    app: _WorkflowApp, function: Callable[[GraphBuilder], object], on: Sequence[str], options: JobOptions
) -> AppWorkflow:
    """Build a workflow with a function; raise Invalid with the place of an error."""
    check_names(options, JOB_OPTIONS)
    name = options.get("name") or str(getattr(function, "__name__", ""))
    scheduled = has_schedule(options)
    if strange := next((option for option in options if option != "name" and not scheduled), None):
        raise Invalid(f"{strange}= needs a schedule. Add every= or cron=.")
    nodes: list[Node] = [{"id": f"on_{i}", "type": TriggerKind.EVENT.value, "event": kind} for i, kind in enumerate(on)]
    if on and scheduled:
        nodes.append({"id": "by_schedule", "type": TriggerKind.SCHEDULE.value})
    function(GraphBuilder(nodes))
    try:
        read_graph(nodes)
    except Invalid as error:
        raise Invalid(f"The workflow {name!r} is not valid: {error}") from None
    return AppWorkflow(app, name, nodes, (function.__doc__ or "").strip())


def _written(value: Any) -> Any:
    """Replace the references in a value by their stored form."""
    match value:
        case Reference():
            return {REF: value.text}
        case StepOf():
            return {REF: value.result.text}
        case dict():
            return {key: _written(each) for key, each in value.items()}
        case list() | tuple():
            return [_written(each) for each in value]
        case _:
            return value

"""A run as JSON for the process that runs it, and its outcome and account as the worker reads them."""

import json
import signal
import sys
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache, reduce
from typing import Any, Final, Self, get_args, get_type_hints
from uuid import UUID

from ostinato.core.account import Account, Stopped
from ostinato.core.addresses import Egress
from ostinato.core.builtin import Permits
from ostinato.core.encoding import policies_of, policies_text, schedule_of, schedule_text
from ostinato.core.errors import Invalid
from ostinato.core.model import Definition, Json, Live
from ostinato.core.outcome import Completed, Deferred, Error, Failed, Interrupted, Lost, Outcome
from ostinato.core.policy import Policies
from ostinato.isolation import limits, system
from ostinato.isolation.frames import Frame, Head
from ostinato.task import Task
from ostinato.task.around import AroundReference

CACHED_FUNCTIONS: Final = 256
PLAIN: Final = (
    "task",
    "app",
    "key",
    "name",
    "description",
    "queue",
    "priority",
    "metadata",
    "owner",
    "declared",
)


@dataclass(frozen=True, slots=True)
class FunctionReference:
    """The import path of a task's function, for another process."""

    name: str
    module: str
    path: str

    @classmethod
    def to(cls, task: Task[..., Any]) -> "FunctionReference":
        """Return the reference to a task's function; raise Invalid if it cannot be imported."""
        function: Any = task.function
        reference = cls(task.name, getattr(function, "__module__", ""), getattr(function, "__qualname__", "<?>"))
        if _plain_function(_at(sys.modules.get(reference.module), reference.path)) is not function:
            raise Invalid(
                f"The task {task.name!r} cannot run in a process of its own: another process cannot import "
                f"{task.where}. Make it a function of a module, under its own name."
            )
        return reference

    def resolve(self) -> Task[..., Any]:
        """Return the task, in a process that has imported the module."""
        found = _at(sys.modules.get(self.module), self.path)
        if found is None:
            raise Invalid(f"There is no {self.path} in the module {self.module}.")
        return Task(_plain_function(found), self.name)


@dataclass(frozen=True, slots=True)
class RunOrder:
    """The order of a run: its task, execution, arguments and clock."""

    reference: FunctionReference
    live: Live
    definition: Definition
    args: Json
    worker: str
    now: datetime
    permits: Permits = Permits()
    arounds: tuple[AroundReference, ...] = ()  # what runs around the task
    traceparent: str | None = None  # of the span of the run

    @property
    def key(self) -> str:
        """The execution's key."""
        return f"sched-{self.live.job_id}-n{self.live.number}-rc{self.live.attempt}"

    @property
    def modules(self) -> list[str]:
        """The modules that must be imported for the run."""
        return [self.reference.module, *(each.module for each in self.arounds)]

    def to_json(self) -> bytes:
        order = {
            "task": [self.reference.name, self.reference.module, self.reference.path],
            "live": [_plain(getattr(self.live, name)) for name in LIVE],
            "definition": _definition_text(self.definition),
            "args": self.args,
            "worker": self.worker,
            "now": self.now.isoformat(),
            "permits": asdict(self.permits),
            "arounds": self.arounds,
            "traceparent": self.traceparent,
        }
        return json.dumps(order, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, text: bytes) -> "RunOrder":
        raw = json.loads(text)
        live = Live(**{name: _read(kind, each) for (name, kind), each in zip(LIVE.items(), raw["live"], strict=True)})
        now = datetime.fromisoformat(raw["now"])
        definition = _definition_of(raw["definition"])
        return cls(
            FunctionReference(*raw["task"]),
            live,
            definition,
            raw["args"],
            raw["worker"],
            now,
            _permits(raw["permits"]),
            tuple(AroundReference(*each) for each in raw["arounds"]),
            raw["traceparent"],
        )


def outcome_text(outcome: Outcome) -> bytes:
    """Write an outcome as JSON."""
    fields: dict[str, Any]
    match outcome:
        case Completed(result):
            fields = {"is": "completed", "result": result}
        case Failed(error, retry_in, final):
            wait = None if retry_in is None else retry_in.total_seconds()
            parts = [error.kind, error.message, error.traceback]
            fields = {"is": "failed", "error": parts, "retry_in": wait, "final": final}
        case Deferred(until, budget):
            fields = {"is": "deferred", "until": until.isoformat(), "budget": budget}
        case _:
            raise AssertionError(f"No call of a task comes to {outcome}.")
    return json.dumps(fields).encode()


def outcome_of(text: bytes) -> Outcome:
    """Return the outcome from JSON."""
    raw = json.loads(text)
    match raw["is"]:
        case "completed":
            return Completed(raw["result"])
        case "failed":
            wait = None if raw["retry_in"] is None else timedelta(seconds=raw["retry_in"])
            return Failed(Error(*raw["error"]), wait, raw["final"])
        case _:
            return Deferred(datetime.fromisoformat(raw["until"]), raw["budget"])


def _permits(raw: dict[str, Any]) -> Permits:
    given: dict[str, Any] = {name: tuple(each) if isinstance(each, list) else each for name, each in raw.items()}
    return Permits(**given | {"egress": Egress(tuple(raw["egress"]["private"]))})


def _kind_of(hint: Any) -> type[UUID | datetime | StrEnum] | None:
    kinds = [kind for kind in (*get_args(hint), hint) if isinstance(kind, type)]
    return next((kind for kind in kinds if issubclass(kind, UUID | datetime | StrEnum)), None)


_HINTS = get_type_hints(Live)
LIVE: Final = {field.name: _kind_of(_HINTS[field.name]) for field in fields(Live)}


def _plain(value: Any) -> Any:
    match value:
        case UUID():
            return value.hex
        case datetime():
            return value.isoformat()
        case _:
            return value


def _read(kind: type[Any] | None, value: Any) -> Any:
    if value is None or kind is None:
        return value
    return datetime.fromisoformat(value) if kind is datetime else kind(value)


def _definition_text(definition: Definition) -> str:
    fields = {name: getattr(definition, name) for name in PLAIN}
    fields |= {"schedule": schedule_text(definition.schedule), "policies": policies_text(definition.policies)}
    return json.dumps(fields | {"args": definition.args, "tags": definition.tags})


@lru_cache(CACHED_FUNCTIONS)
def _definition_of(text: str) -> Definition:
    raw = json.loads(text)
    schedule, policies = schedule_of(raw.pop("schedule")), policies_of(raw.pop("policies"))
    return Definition(schedule=schedule, policies=policies, tags=tuple(raw.pop("tags")), **raw)


def _at(module: object, path: str) -> Any:
    return reduce(lambda found, name: getattr(found, name, None), path.split("."), module)


def _plain_function(found: Any) -> Any:
    return found.function if isinstance(found, Task) else found


# -- The supervisor's report about an ended run: an Outcome and an Account

SUPERVISOR_LOST: Final = Lost("the supervisor of its process died")
NOT_STARTED: Final = Interrupted()  # no process could be started: the run waits and uses no retry


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of a run, and its account."""

    outcome: Outcome
    account: Account = Account()

    @classmethod
    def of(cls, frame: Frame, policies: Policies) -> Self:
        head, stopped = frame.head, frame.head.get("stopped")
        cpu, peak = head.get("cpu"), head.get("peak")
        account = Account(
            None if cpu is None else round(cpu / 1000),
            None if not peak else round(peak / system.MB, 1),
            None if stopped is None else Stopped(stopped),
            head.get("exit"),
            raised=head.get("raised"),
        )
        return cls(_outcome(head, frame.body, policies), account)


def _outcome(head: Head, body: bytes, policies: Policies) -> Outcome:
    if head.get("limit") is not None:
        return limits.exceeded(head["limit"], policies)
    if body:
        return outcome_of(body)
    where = f" {head['why']}" if "why" in head else ""
    if head.get("signal") == signal.SIGXCPU and policies.cpu_limit is not None:
        return limits.exceeded("CpuLimit", policies)
    if "signal" in head:
        return Failed(Error("Killed", f"Killed by {_name(head['signal'])}{where}"))
    if "exit" in head:
        return Failed(Error("Exited", f"The process exited with code {head['exit']}{where}"))
    return NOT_STARTED


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"

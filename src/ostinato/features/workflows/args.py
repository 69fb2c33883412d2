"""`workflow`: run a workflow, from one of its triggers. The store knows the workflows, this module does not."""

from dataclasses import dataclass
from typing import Any, Final

from ostinato.core.arguments import FieldKind, Flaw, anything, arg, text
from ostinato.core.builtin import BuiltIn


def _reference(value: Any) -> int | str:
    if isinstance(value, bool) or not isinstance(value, int | str) or value == "":
        raise Flaw(f"must be the id or the name of a workflow, not {value!r}.")
    return value


WORKFLOW: Final = FieldKind({"anyOf": [{"type": "integer"}, {"type": "string"}]}, _reference)


@dataclass(frozen=True, slots=True, kw_only=True)
class _WorkflowArgs:
    """The arguments of the task `workflow`."""

    workflow: int | str = arg(WORKFLOW, "The id or the name of a workflow.")
    trigger: str | None = arg(text(200), "The trigger to begin with; default: the one that matches.", None)
    payload: Any = arg(anything(), "Payload for its steps.", None)
    event: str = arg(text(200), "What happened.", "schedule")


BUILT_INS: Final = (BuiltIn("workflow", "Run a workflow.", _WorkflowArgs, openable=("payload",)),)

"""`python`: call a function of a module that an administrator allows."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ostinato.core.arguments import FieldKind, Flaw, anything, arg, mapping, text
from ostinato.core.builtin import BuiltIn, Permits
from ostinato.core.errors import WrongArgument

OFF: Final = (
    "The task python is off here: name the modules whose functions it may call, "
    "such as OSTINATO_PYTHON_PREFIXES=myapp.jobs (python_prefixes in ostinato.toml)."
)


def _function(value: Any) -> str:
    written = text(500).read(value)
    module, _, name = written.partition(":")
    if not all(part.isidentifier() for part in module.split(".")) or not name.isidentifier():
        raise Flaw(f"must be written module:function, such as shop.reports:nightly, not {written[:100]!r}.")
    return written


FUNCTION: Final = FieldKind({"type": "string", "pattern": r"^[\w.]+:\w+$", "maxLength": 500}, _function)


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonArgs:
    """The arguments of the task `python`."""

    function: str = arg(FUNCTION, "Function to call, written module:function.")
    args: Mapping[str, Any] = arg(mapping(anything()), "Its arguments, by name.", {})

    @property
    def module(self) -> str:
        return self.function.partition(":")[0]

    @property
    def name(self) -> str:
        return self.function.partition(":")[2]


def is_below(module: str, prefixes: Collection[str]) -> bool:
    """Return True if a module is one of these, or inside one: `shop` has `shop.reports`, but not `shopping`."""
    return any(f"{module}.".startswith(f"{prefix}.") for prefix in prefixes)


def _off(permits: Permits) -> str | None:
    return None if permits.python else OFF


def _refuse(args: PythonArgs, permits: Permits) -> None:
    if not is_below(args.module, permits.python):
        raise WrongArgument(
            "args.function",
            f"args.function is not allowed here: {args.module} is in none of {', '.join(permits.python)}. "
            "OSTINATO_PYTHON_PREFIXES (python_prefixes in ostinato.toml) says which modules are.",
        )


BUILT_INS: Final = (
    BuiltIn(
        "python",
        "Call a Python function, in a process of its own.",
        PythonArgs,
        _off,
        _refuse,
        openable=("args",),
        subject=("function",),
    ),
)

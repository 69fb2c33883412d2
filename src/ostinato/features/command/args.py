"""`command`: run a program. Off unless an administrator allows it: it can do whatever the worker's user can."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ostinato.core.arguments import SECRET, FieldKind, Flaw, arg, many, mapping, switch, text, whole
from ostinato.core.builtin import BuiltIn, Permits
from ostinato.core.errors import WrongArgument

VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
LONGEST_STDIN: Final = 1_000_000
OURS: Final = "OSTINATO_RUN_"
OFF: Final = (
    "The task command is off here, because it runs programs with the rights of the worker: "
    "OSTINATO_ALLOW_COMMANDS=on (allow_commands in ostinato.toml) allows it."
)
NO_SHELL: Final = (
    "args.shell is not allowed here: OSTINATO_ALLOW_SHELL=on (allow_shell in ostinato.toml) allows it. "
    'Without a shell write args.argv, such as ["backup", "--all"].'
)


def _argv(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        raise Flaw('must be a list, such as ["ls", "-l"]; write a line for a shell as args.script, with shell: true.')
    found = many(text(100_000), 1000, 1).read(value)
    if not found[0]:
        raise Flaw("must begin with the program to run.")
    return found


ARGV: Final = FieldKind({"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 1000}, _argv)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandArgs:
    """The arguments of the task `command`."""

    argv: tuple[str, ...] | None = arg(ARGV, "The program and its arguments, as a list; no shell reads them.", None)
    script: str | None = arg(
        text(100_000, empty=False, lines=True),
        "Script for /bin/sh, instead of argv; needs shell: true.",
        None,
    )
    shell: bool = arg(switch(), "Let a shell read the script. An administrator must allow it.", False)
    cwd: str | None = arg(text(4096, empty=False), "The working directory; default: that of the worker.", None)
    env: Mapping[str, str] = arg(mapping(text(100_000), 1000), "Variables to set.", {})
    secrets: Mapping[str, str] = arg(
        mapping(SECRET, 100),
        "Variables to set from secrets: env:SECRET_NAME or file:/run/secrets/NAME.",
        {},
    )
    stdin: str | None = arg(text(LONGEST_STDIN, lines=True), "Text for its standard input.", None)
    exit_codes: tuple[int, ...] = arg(many(whole(0, 255), 256, 1), "Exit codes of success.", [0])

    def __post_init__(self) -> None:
        if self.script is not None and not self.shell:
            raise Flaw("needs shell: true; without a shell write the program and its arguments as argv.", "script")
        if self.shell and self.script is None:
            raise Flaw("needs script: the text that the shell runs.", "shell")
        if self.argv is None and self.script is None:
            raise Flaw('is required: the program and its arguments, such as ["backup", "--all"].', "argv")
        if self.argv is not None and self.script is not None:
            raise Flaw("and script exclude each other: use one.", "argv")
        for field in ("env", "secrets"):
            for name in getattr(self, field):
                _check_variable(field, name)
        for name in self.env.keys() & self.secrets.keys():
            raise Flaw("is also in secrets: name it once.", f"env.{name}")


def _check_variable(field: str, name: str) -> None:
    if not VARIABLE.fullmatch(name):
        raise Flaw("is not the name of a variable: letters, digits and _.", f"{field}.{name[:100]}")
    if name.startswith(OURS):
        raise Flaw("is set by Ostinato: leave it out.", f"{field}.{name}")


def _off(permits: Permits) -> str | None:
    return None if permits.commands else OFF


def _refuse(args: CommandArgs, permits: Permits) -> None:
    if args.shell and not permits.shell:
        raise WrongArgument("args.shell", NO_SHELL)


BUILT_INS: Final = (
    BuiltIn(
        "command",
        "Run a program; its output is the log of the execution.",
        CommandArgs,
        _off,
        _refuse,
        subject=("argv", "script"),
    ),
)

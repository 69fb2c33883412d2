"""`BuiltIn`, the description of a built-in task, and the permits of an administrator.

The code that reads args is imported late: every process has Permits, but few use built-in tasks.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ostinato.core.addresses import PUBLIC_ONLY, Egress, check_url
from ostinato.core.errors import Invalid, WrongArgument

USUAL_ENVIRONMENT: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "USER", "LOGNAME", "SHELL", "TMPDIR")

USUAL_SECRETS: Final = ("env:SECRET_*", "file:/run/secrets/*")


@dataclass(frozen=True, slots=True)
class Permits:
    """Permissions of built-in tasks by the administrator: a part of the settings that travels with a run."""

    egress: Egress = PUBLIC_ONLY
    commands: bool = False
    shell: bool = False
    environment: tuple[str, ...] = USUAL_ENVIRONMENT
    python: tuple[str, ...] = ()
    secrets: tuple[str, ...] = USUAL_SECRETS  # config.Grants reads these two
    ours: tuple[str, ...] = ()


NOTHING_ALLOWED: Final = Permits()


def always(_permits: Permits) -> str | None:
    """Allow a task under all permits."""
    return None


def anything_goes(_args: Any, _by: Any) -> None:
    """Allow all args."""


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """The description of a built-in task: its help, its arguments and its permissions.

    `off` returns a sentence if these permits do not allow the task, else None. `refuse` raises Invalid for args that
    these permits do not allow. `openable` are the args that `run_args` may name, whole or in part. `refuse_open` raises
    Invalid for args in which one of these names would give an operator too much power. `subject` are args that name a
    job without a name; the first that is given counts.
    """

    name: str
    help: str
    args: type[Any]
    off: Callable[[Permits], str | None] = always
    refuse: Callable[[Any, Permits], None] = anything_goes
    openable: tuple[str, ...] = ()
    refuse_open: Callable[[Any, Sequence[str]], None] = anything_goes
    subject: tuple[str, ...] = ()

    @property
    def schema(self) -> dict[str, Any]:
        """Describe its args as JSON schema."""
        from ostinato.core.arguments import schema

        return schema(self.args)

    def check(self, given: Any, permits: Permits) -> None:
        """Raise Invalid unless these permits allow these args; the message names the field, or the setting."""
        from ostinato.core.arguments import read

        if (sentence := self.off(permits)) is not None:
            raise WrongArgument("task", sentence)
        self.refuse(read(self.args, given), permits)

    def check_open(self, given: Any, names: Sequence[str]) -> None:
        """Raise WrongArgument if these `run_args` would let an operator decide what only an admin may."""
        from ostinato.core.arguments import read

        for name in names:
            if name.partition(".")[0] not in self.openable:
                allowed = " and ".join(self.openable) or "nothing"
                raise WrongArgument(
                    "run_args",
                    f"run_args cannot name {name}: the task {self.name} lets operators set {allowed}.",
                )
        if names:
            self.refuse_open(read(self.args, given), names)


def refuse_private(url: str, where: str, permits: Permits) -> None:
    """Raise WrongArgument for a URL that names a private address, unless these are allowed."""
    try:
        check_url(url, where, permits.egress)
    except Invalid as error:
        raise WrongArgument(where, str(error)) from None

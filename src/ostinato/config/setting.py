"""One setting: a field of `Settings`, and how its value is read."""

from dataclasses import dataclass, field
from typing import Any, TypeVar

from ostinato.config.kinds import Kind, masked
from ostinato.core.errors import Invalid, InvalidSetting

T = TypeVar("T")


def setting(default: T, env: str, kind: Kind[T], help: str) -> T:
    return field(default=default, metadata={"env": env, "kind": kind, "help": help})


@dataclass(frozen=True, slots=True)
class Setting:
    """Name, default, allowed values and help of a setting."""

    name: str
    env: str
    default: object
    kind: Kind[Any]
    help: str

    def read(self, value: object, origin: str) -> Any:
        """Read a value; InvalidSetting if it cannot be used."""
        try:
            return self.kind.parse(value)
        except Invalid as error:
            raise self._refused(value, origin, str(error)) from None
        except ValueError:
            raise self._refused(value, origin, f"Allowed is {self.kind.allowed}.") from None

    def _refused(self, value: object, origin: str, why: str) -> InvalidSetting:
        given = "what it is" if self.kind.secret else _quoted(value)
        return InvalidSetting(f"{self.name} cannot be {given} ({origin}). {why}")


def _quoted(value: object) -> str:
    safe = repr(masked(value)) if isinstance(value, str) else str(value)
    return safe if len(safe) <= 100 else safe[:100] + "…"

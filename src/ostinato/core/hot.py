"""Dataclasses for the values of the hot path.

For the type checker `@hot_dataclass(frozen=True, slots=True)` is a frozen dataclass: mypy refuses an assignment to a
field. At run time the guard is left out: it costs 1 µs for each ten fields, and an execution passes through a hundred
fields on its way.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as hot_dataclass
else:
    from dataclasses import dataclass

    def hot_dataclass(*, frozen, slots):
        return dataclass(slots=slots, unsafe_hash=frozen)


__all__ = ["hot_dataclass"]

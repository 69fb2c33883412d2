"""Dataclasses for the values of the hot path.

`@dataclass(frozen=True, slots=True)` of this module is what the type checker takes it for: frozen, and mypy refuses
whoever changes one. At run time the guard is left out: it costs 1 µs for each ten fields, and an execution passes
through a hundred fields on its way.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    from dataclasses import dataclass as _dataclass

    def dataclass(*, frozen, slots):
        return _dataclass(slots=slots, unsafe_hash=frozen)


__all__ = ["dataclass"]

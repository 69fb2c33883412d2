"""Differences of an edit: the values before and after, line by line."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ostinato.dashboard.forms.fields import written

UNSET: Final = "nothing"


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One value that would change."""

    name: str
    before: str
    after: str


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[DiffLine]:
    """List the differences between two answers, down to nested fields."""
    return [line for name in after for line in _lines(name, before.get(name), after[name])]


def _lines(name: str, before: Any, after: Any) -> Iterator[DiffLine]:
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict) and name != "schedule":
        for inner in dict.fromkeys([*before, *after]):
            yield from _lines(f"{name}.{inner}", before.get(inner), after.get(inner))
    else:
        yield DiffLine(name, _shown(before), _shown(after))


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}: {written(each)}" for name, each in value.items()) or UNSET
    return written(value) or UNSET


def digest(lines: list[DiffLine]) -> str:
    """Return a hash of the lines, to check that a saved edit is the reviewed one."""
    text = json.dumps([[line.name, line.before, line.after] for line in lines])
    return hashlib.sha256(text.encode()).hexdigest()[:32]

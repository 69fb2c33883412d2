"""The reader of an object from a user: each field is read once, and fields that no code reads are refused by name."""

import difflib
import math
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from ostinato.core.errors import Invalid
from ostinato.core.payload import as_whole, is_storable
from ostinato.core.times import parse_duration

SIZE: Final = re.compile(r"\s*(\d{1,15}(?:\.\d{1,6})?)\s*([kmgt]?i?b?)\s*", re.IGNORECASE)
UNITS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
ALIKE: Final = 0.65  # of 1: similarity of a misspelt name
LONGEST_TEXT: Final = 10_000
LONGEST_NAME: Final = 500
LARGEST: Final = 2**53 - 1


class ObjectReader:
    """An object that is read field by field, and its own name."""

    def __init__(self, given: object, where: str = "") -> None:
        if not isinstance(given, Mapping):
            raise Invalid(f"{where or 'A source'} must be an object with names, not {shown(given)}.")
        self._given: Mapping[Any, Any] = given
        self._where = where
        self._known: list[str] = []

    def path(self, name: str) -> str:
        return f"{self._where}.{name}" if self._where else name

    def has(self, name: str) -> bool:
        return self._take(name) is not None

    @property
    def says_something(self) -> bool:
        return bool(self._given)

    def any(self, name: str) -> Any:
        return self._take(name)

    def needed(self, name: str) -> Any:
        found = self._take(name)
        if found is None:
            raise self.missing(name)
        return found

    def missing(self, name: str, why: str = "") -> Invalid:
        """Return the error about a missing name; it first names a probable misspelling."""
        others = [str(other)[:100] for other in self._given if other not in self._known]
        close = difflib.get_close_matches(name, others, n=1, cutoff=ALIKE)
        slip = f"{self.path(close[0])} is not known; did you mean {name}? " if close else ""
        return Invalid(f"{slip}{self.path(name)} is missing{f': {why}' if why else ''}.")

    def text(self, name: str, default: str = "", longest: int = LONGEST_TEXT) -> str:
        found = self._take(name)
        return default if found is None else text_of(found, self.path(name), longest)

    def needed_text(self, name: str, longest: int = LONGEST_TEXT) -> str:
        found = text_of(self.needed(name), self.path(name), longest)
        if not found:
            raise Invalid(f"{self.path(name)} is empty.")
        return found

    def name(self, name: str, default: str = "") -> str:
        """Read a name: text, or a whole number, since YAML reads 2026 as one."""
        found = as_whole(self._take(name))
        if found is None:
            return default
        if not isinstance(found, str) and (type(found) is not int or not 0 <= found <= LARGEST):
            raise Invalid(f"{self.path(name)} must be text, not {shown(found)}.")
        return text_of(found, self.path(name), LONGEST_NAME)

    def whole(self, name: str, default: int, least: int, most: int) -> int:
        found = as_whole(self._take(name))
        if found is None:
            return default
        if isinstance(found, bool) or not isinstance(found, int) or not least <= found <= most:
            raise Invalid(f"{self.path(name)} must be a whole number from {least} to {most}, not {shown(found)}.")
        return found

    def share(self, name: str, default: float) -> float:
        """Read a share: `0.1`, or `10%`."""
        found = self._take(name)
        if found is None:
            return default
        if isinstance(found, str) and re.fullmatch(r"\s*\d{1,3}(\.\d{1,6})?\s*%\s*", found):
            found = float(found.strip().rstrip("%")) / 100
        if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found <= 1:
            raise Invalid(f"{self.path(name)} must be a share from 0 to 1, or 0% to 100%, not {shown(found)}.")
        return float(found)

    def switch(self, name: str, default: bool = False) -> bool:
        found = self._take(name)
        if found is None:
            return default
        if not isinstance(found, bool):
            raise Invalid(f"{self.path(name)} must be true or false, not {shown(found)}.")
        return found

    def span(self, name: str, default: timedelta) -> timedelta:
        found = self._take(name)
        return default if found is None else span_of(found, self.path(name))

    def size(self, name: str, default: int, most: int) -> int:
        """Read a size: `50MB`, `1GiB`, or a number of bytes."""
        found = self._take(name)
        if found is None:
            return default
        found = as_whole(found)
        match = SIZE.fullmatch(str(found)) if type(found) in (str, int) else None
        if match is None:
            raise Invalid(f"{self.path(name)} must be a size such as 500KB or 50MB, not {shown(found)}.")
        unit = match[2].lower()
        size = int(float(match[1]) * (1024 if "i" in unit else 1000) ** UNITS[unit.rstrip("b").rstrip("i")])
        if not 1 <= size <= most:
            raise Invalid(f"{self.path(name)} must be between 1 byte and {most:,} bytes.")
        return size

    def choice(self, name: str, choices: Sequence[str], default: str) -> str:
        found = self._take(name)
        if found is None:
            return default
        if found not in choices:
            raise Invalid(f"{self.path(name)} must be one of {', '.join(choices)}, not {shown(found)}.")
        return str(found)

    def inner(self, name: str) -> "ObjectReader":
        """Return the reader of an inner object; it is empty if the field is missing."""
        found = self._take(name)
        return ObjectReader({} if found is None else found, self.path(name))

    def items(self, name: str, most: int) -> list[tuple[str, Any]]:
        """Read the members of a list, each with its path."""
        found = self._take(name)
        if found is None:
            return []
        if not isinstance(found, list | tuple) or len(found) > most:
            raise Invalid(f"{self.path(name)} must be a list of at most {most}, not {shown(found)}.")
        return [(f"{self.path(name)}[{index}]", each) for index, each in enumerate(found)]

    def no_more(self) -> None:
        """Refuse fields that were not read."""
        for name in self._given:
            if name not in self._known:
                close = difflib.get_close_matches(str(name)[:100], self._known, n=1)
                hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(self._known)}."
                raise Invalid(f"{self.path(str(name)[:100])} is not known; {hint}")

    def _take(self, name: str) -> Any:
        if name not in self._known:
            self._known.append(name)
        return self._given.get(name)


def text_of(value: object, what: str, longest: int = LONGEST_TEXT) -> str:
    """Read a text; numbers and switches are read as they are written."""
    if isinstance(value, bool):
        value = "true" if value else "false"
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        value = str(value)
    if not isinstance(value, str) or len(value) > longest or not is_storable(value):
        raise Invalid(f"{what} must be text of at most {longest} characters, not {shown(value)}.")
    return value


def span_of(value: object, what: str) -> timedelta:
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        try:
            return parse_duration(value)
        except Invalid as error:
            raise Invalid(f"{what}: {error}") from None
    raise Invalid(f"{what} must be a duration such as 30s, 6h or 1d, not {shown(value)}.")


def shown(value: object) -> str:
    """Shorten a value for a sentence."""
    text = repr(value)
    return text if len(text) <= 60 else text[:60] + "…"

"""Paths into JSON: dotted (`data.items`, `prices.0.amount`), and JMESPath where that is not enough.

A path with a bracket, a quote, a pipe or another sign that only JMESPath knows is a JMESPath; every other one is
dotted, and its parts are names of members or places in a list. `.` is the whole. A name may begin with @, and the dot
of `@odata.nextLink` belongs to the name.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final

from ostinato.config.extras import need
from ostinato.core.errors import Invalid

ROOT: Final = "."
HARD: Final = re.compile(r"[\[\](){}|&*'\"`?!<>=,]|@(?![A-Za-z_])")
BETWEEN: Final = re.compile(r"(?<!@odata)\.")
PLACE: Final = re.compile(r"\d{1,9}")
UNQUOTED: Final = re.compile(r"(?<![\w\"])@[A-Za-z_]\w*(?:\.\w+)*(?!\")")
MISSING: Final = object()  # the path has no value, not even null

Get = Callable[[Any], Any]


def is_dotted(path: str) -> bool:
    """Return True if a path only goes from member to member."""
    return not HARD.search(path)


def parts_of(path: str) -> tuple[str, ...]:
    """Split a dotted path into its parts."""
    return () if path in ("", ROOT) else tuple(BETWEEN.split(path.removeprefix("$.").strip(ROOT)))


def check_path(path: str, what: str) -> str:
    """Check that a path can be followed."""
    if is_dotted(path):
        if path not in ("", ROOT) and not all(part.strip() for part in parts_of(path)):
            raise Invalid(f"{what} has an empty part: {path[:100]!r}.")
        return path
    need("sources", "jmespath", f"{what}, a JMESPath,")
    from jmespath.exceptions import JMESPathError

    try:
        getter(path)
    except JMESPathError as error:
        sentence = " ".join(str(error).split("\n")[0].split())
        quote = f" Put a name with @ into double quotes: {_quoted(path)}" if _quoted(path) != path else ""
        raise Invalid(f"{what} is no JMESPath expression: {sentence}{quote}") from None
    return path


def _quoted(path: str) -> str:
    return UNQUOTED.sub(r'"\g<0>"', path)


def find(path: str, value: Any) -> Any:
    """Follow a path; MISSING where it leads nowhere. A JMESPath does not tell null from missing."""
    found = getter(path)(value)
    if found is not None or not is_dotted(path):
        return MISSING if found is None else found
    *way, last = parts_of(path) or ("",)
    parent = _follow(value, tuple(way))
    return None if value is None or (type(parent) is dict and last in parent) else MISSING


@lru_cache(4096)
def getter(path: str) -> Get:
    """Return a function that follows a path into a value; it returns None where the path leads nowhere."""
    if not is_dotted(path):
        import jmespath

        return jmespath.compile(path).search
    parts = parts_of(path)
    if not parts:
        return lambda value: value
    if len(parts) == 1 and not PLACE.fullmatch(parts[0]):
        name = parts[0]
        return lambda value: value.get(name) if type(value) is dict else None
    return lambda value: _follow(value, parts)


@lru_cache(4096)
def column_getter(path: str) -> Callable[[list[Any]], list[Any]]:
    """Return a function that follows a path into many values; a plain name needs no call for each."""
    get, parts = getter(path), parts_of(path)
    if not is_dotted(path) or len(parts) != 1 or PLACE.fullmatch(parts[0]):
        return lambda values: [get(value) for value in values]
    pick = itemgetter(parts[0])

    def all_of(values: list[Any]) -> list[Any]:
        try:
            return list(map(pick, values))
        except (KeyError, TypeError):  # a value lacks the name, or is no object
            return [get(value) for value in values]

    return all_of


def _follow(value: Any, parts: tuple[str, ...]) -> Any:
    for part in parts:
        if type(value) is dict:
            value = value.get(part)
        elif type(value) is list and PLACE.fullmatch(part) and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return value

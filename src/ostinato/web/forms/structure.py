"""Larger things that people write as JSON or YAML: read as plain values, and the line in which a place stands.

What is wrong is told with a place (`nodes[2].after[0]: …`); here that place is found again in what was typed.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

import yaml

from ostinato.core.errors import Invalid
from ostinato.core.payload import check_json
from ostinato.web.forms.fields import read_json

LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
LONGEST: Final = 300_000  # characters; what is kept is bounded by the desk
DEEPEST: Final = 80
PLACE: Final = re.compile(r"^([A-Za-z_][\w-]*(?:\.[\w$-]+|\[\d+\])*)(?=[:. ]|$)")
PART: Final = re.compile(r"[\w$-]+")


def read(text: str) -> Any:
    """JSON, if it begins like it; else YAML, without anchors. Invalid, with the line."""
    if text.lstrip()[:1] in ("[", "{"):
        return read_json(text)
    try:
        _check_shape(text)
        value = yaml.load(text, Loader=LOADER)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = "" if mark is None else f" in line {mark.line + 1}, column {mark.column + 1}"
        raise Invalid(f"This is neither JSON nor YAML: {error.problem}{where}.") from None
    except (yaml.YAMLError, ValueError) as error:
        raise Invalid(f"This is neither JSON nor YAML: {error}.") from None
    check_json(value, "This")
    return value


def _check_shape(text: str) -> None:
    """Anchors could make a page of text into gigabytes, and depth could exhaust us."""
    if len(text) > LONGEST:
        raise Invalid(f"This is longer than {LONGEST:,} characters.")
    depth = 0
    for event in yaml.parse(text, Loader=LOADER):
        if isinstance(event, yaml.AliasEvent):
            raise Invalid("Anchors and aliases (&x, *x) are not read here: write it out.")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise Invalid("This is nested too deep.")


def line_of(text: str, sentence: str, root: str) -> int | None:
    """The line of the place that a sentence begins with, as near as it can be found; `root` is what the text is of."""
    found = PLACE.match(sentence)
    if found is None:
        return None
    parts = PART.findall(found[1])
    try:
        _check_shape(text)
        node = yaml.compose(text, Loader=LOADER)
    except (yaml.YAMLError, Invalid, ValueError):
        return None
    return _line(node, parts[1:] if parts[0] == root and not _has(node, root) else parts)


def _line(node: Any, parts: Sequence[str]) -> int | None:
    if node is None:
        return None
    for part in parts:
        inner = _inside(node, part)
        if inner is None:
            break
        node = inner
    return int(node.start_mark.line) + 1


def _inside(node: Any, part: str) -> Any:
    if isinstance(node, yaml.MappingNode):
        return next((value for key, value in node.value if getattr(key, "value", None) == part), None)
    if isinstance(node, yaml.SequenceNode) and part.isdecimal() and int(part) < len(node.value):
        return node.value[int(part)]
    return None


def _has(node: Any, name: str) -> bool:
    return _inside(node, name) is not None

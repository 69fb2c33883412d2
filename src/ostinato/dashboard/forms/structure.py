"""Reading of larger values in JSON or YAML, and the line numbers of their errors.

An error names a place (`nodes[2].after[0]: …`); `line_of` finds this place in the typed text.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

import yaml

from ostinato.core.errors import Invalid
from ostinato.shapes.documents import check_shape, read_json, read_yaml

LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
PLACE: Final = re.compile(r"^([A-Za-z_][\w-]*(?:\.[\w$-]+|\[\d+\])*)(?=[:. ]|$)")
PART: Final = re.compile(r"[\w$-]+")


def read(text: str) -> Any:
    """Read JSON if the text begins like JSON, else YAML without anchors; raise Invalid with the line."""
    if text.lstrip()[:1] in ("[", "{"):
        return read_json(text, "This")
    documents = read_yaml(text, "This")
    if len(documents) > 1:
        raise Invalid("This has several documents (---): write one.")
    return documents[0] if documents else None


def line_of(text: str, sentence: str, root: str) -> int | None:
    """Find the line of the place that an error names, or the nearest one; `root` names the whole text."""
    found = PLACE.match(sentence)
    if found is None:
        return None
    parts = PART.findall(found[1])
    try:
        check_shape(text, "This")
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

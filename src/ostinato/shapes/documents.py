"""Reading of JSON and YAML documents, for requests, forms, files and the command line.

A short text can describe a huge value: YAML aliases repeat values, and brackets nest. So the events of YAML are counted
before a value is built. A reader returns plain JSON values, or raises Invalid with the line. Dates stay text, and
duplicate names in an object are refused.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ostinato.config.extras import need
from ostinato.core.errors import Invalid
from ostinato.core.payload import DEEPEST, MIB, check_json

# A comment outside strings; the possessive quantifier avoids slow backtracking.
COMMENT: Final = re.compile(r'("(?:[^"\\]|\\.)*+"?)|//[^\n]*')
# PyYAML raises these for `!!int ''`, `!!bool x` and the like.
BADLY_BUILT: Final = (ValueError, LookupError, AttributeError, TypeError, RecursionError)


@dataclass(frozen=True, slots=True)
class Allowance:
    """Limits of a document: its bytes, its aliases, and its values when all aliases are expanded."""

    bytes: int
    aliases: int = 0
    values: int = 0


OVER_HTTP: Final = Allowance(MIB)  # requests and forms
FROM_FILES: Final = Allowance(16 * MIB, aliases=1000, values=100_000)


def json_of(text: str, what: str) -> str:
    """Check a JSON text, and return it without `// …` comments, which the examples of the seeds have."""
    try:
        read_json(text, what)
    except Invalid:
        bare = COMMENT.sub(lambda found: found[1] or "", text)
        if bare == text:
            raise
        read_json(bare, what)
        return bare
    return text


def read_json(text: str, what: str = "This") -> Any:
    """Read one JSON value."""
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        place = f"in line {error.lineno}, column {error.colno}"
        raise Invalid(f"{what} is not JSON: {error.msg} {place}.") from None
    except RecursionError:
        raise _too_deep(what) from None
    except ValueError as error:
        raise Invalid(f"{what} is not JSON: {error}.") from None
    check_json(value, what)
    return value


def json_or_text(text: str) -> Any:
    """Read a text as JSON; if it is not JSON, return the text."""
    try:
        return read_json(text)
    except Invalid:
        return text


def read_yaml(text: str, what: str, allowance: Allowance = OVER_HTTP) -> list[Any]:
    """Read all YAML documents of a text, except empty ones."""
    need("cli", "yaml", "YAML")
    import yaml

    try:
        check_shape(text, what, allowance)
        documents = [each for each in yaml.load_all(text, _loader()) if each is not None]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = "" if mark is None else f" in line {mark.line + 1}, column {mark.column + 1}"
        raise Invalid(f"{what} is not YAML: {error.problem or error.context}{where}.") from None
    except Invalid:
        raise
    except (yaml.YAMLError, *BADLY_BUILT) as error:
        raise Invalid(f"{what} is not YAML: {' '.join(str(error).split())[:200]}.") from None
    for document in documents:
        check_json(document, what)
    return documents


def read_file(file: Path) -> list[Any]:
    """Read all documents of a file: JSON if its suffix is .json, else YAML (which includes JSON)."""
    text = read_text(file, FROM_FILES.bytes)
    if file.suffix == ".json":
        return [read_json(text, str(file))] if text.strip() else []
    return read_yaml(text, str(file), FROM_FILES)


def listed(document: Any, under: str = "") -> list[Any]:
    """List the objects of a document: one object, a list, or an object that holds a list under one name."""
    if isinstance(document, dict) and list(document) == [under]:
        document = document[under]
    return document if isinstance(document, list) else [document]


def read_text(file: Path, most: int) -> str:
    """Read a UTF-8 file of at most `most` bytes."""
    try:
        with file.open("rb") as opened:
            data = opened.read(most + 1)
    except OSError as error:
        raise Invalid(f"{_named(file)} cannot be read: {error.strerror}.") from None
    except ValueError:
        raise Invalid(f"{_named(file)} is not the name of a file.") from None
    if len(data) > most:
        raise Invalid(f"{_named(file)} is larger than {most:,} bytes: split it.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Invalid(f"{_named(file)} is not text in UTF-8.") from None


def check_shape(text: str, what: str, allowance: Allowance = OVER_HTTP) -> None:
    """Refuse YAML that is too long, too deep, or too large when its aliases are expanded."""
    import yaml

    if len(text) > allowance.bytes or len(text.encode("utf-8", "replace")) > allowance.bytes:
        raise Invalid(f"{what} is larger than {allowance.bytes:,} bytes: send less at once.")
    shape = _Shape(what, allowance)
    for event in yaml.parse(text, _loader()):
        shape.take(event)


@dataclass(slots=True)
class _Size:
    """Number of values in a part of a document."""

    anchor: str | None = None
    values: int = 1


@dataclass(slots=True)
class _Shape:
    """Counter of a document's values, event by event; an alias counts as many values as it repeats."""

    what: str
    allowance: Allowance
    open: list[_Size] = field(default_factory=lambda: [_Size()])  # the stream, and its open collections
    anchors: dict[str, _Size] = field(default_factory=dict)
    aliases: int = 0

    def take(self, event: Any) -> None:
        import yaml

        match event:
            case yaml.AliasEvent():
                self._close(self._repeated(str(event.anchor)))
            case yaml.ScalarEvent():
                self._close(_Size(event.anchor))
            case yaml.CollectionStartEvent():
                self.open.append(_Size(event.anchor))
            case yaml.CollectionEndEvent():
                self._close(self.open.pop())
        if len(self.open) - 1 > DEEPEST:
            raise _too_deep(self.what)

    def _repeated(self, anchor: str) -> _Size:
        self.aliases += 1
        if self.aliases > self.allowance.aliases:
            raise Invalid(
                f"{self.what} has more than {self.allowance.aliases} aliases (*{anchor[:20]}): write them out."
                if self.allowance.aliases
                else f"{self.what} has anchors and aliases (&x, *x), which are not read here: write them out."
            )
        known = self.anchors.get(anchor)
        if known is None:
            raise Invalid(f"{self.what}: *{anchor[:20]} names nothing that is complete before it.")
        return _Size(None, known.values)

    def _close(self, part: _Size) -> None:
        if part.anchor is not None:
            self.anchors[part.anchor] = part
        around = self.open[-1]
        around.values += part.values
        if self.aliases and around.values > self.allowance.values:
            raise Invalid(f"{self.what} has over {self.allowance.values:,} values once its aliases are written out.")


def _loader() -> Any:
    """Return the YAML loader, written in C if that is installed."""
    global _LOADER
    if _LOADER is None:
        import yaml

        base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        _LOADER = type("Loader", (base,), {})
        _LOADER.yaml_implicit_resolvers = {
            first: [(tag, pattern) for tag, pattern in found if tag != "tag:yaml.org,2002:timestamp"]
            for first, found in base.yaml_implicit_resolvers.items()
        }
        _LOADER.add_constructor("tag:yaml.org,2002:map", _mapping)
    return _LOADER


_LOADER: Any = None


def _mapping(loader: Any, node: Any) -> Iterator[dict[Any, Any]]:
    from yaml.constructor import ConstructorError

    seen = set[str]()
    for key, _ in node.value:
        if isinstance(key.value, str) and key.value != "<<":
            if key.value in seen:
                raise ConstructorError(None, None, f"{key.value[:60]} is a duplicate name", key.start_mark)
            seen.add(key.value)
    made: dict[Any, Any] = {}
    yield made
    made.update(loader.construct_mapping(node))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has a duplicate name")
    return found


def _no_number(constant: str) -> None:
    raise ValueError(f"{constant} is no number of JSON")


def _too_deep(what: str) -> Invalid:
    return Invalid(f"{what} is nested more than {DEEPEST} deep; flatten it, or pass it as text.")


def _named(file: Path) -> str:
    return str(file)[:200].encode("utf-8", "backslashreplace").decode()


_DECODER: Final = json.JSONDecoder(parse_constant=_no_number, object_pairs_hook=_object)

"""References to values of other steps, and conditions: `when: "extract.result.count > 0"`.

condition   = both { "or" both }
    both        = one { "and" one }
    one         = "not" one | "(" condition ")" | operand [ ("==" | "!=" | "<" | "<=" | ">" | ">=" | "in") operand ]
    operand     = reference | number | "text" | 'text' | true | false | null

A reference alone is true as in Python: it is false for null, false, 0, "" and empty values. A missing value is null,
and null is neither less nor greater than anything.
"""

import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ostinato.core.errors import Invalid

# -- References: `{"$ref": "extract.result.count"}` stands for a value of another step or of the trigger.
#
#     extract.result.count    `count` in the result of the step `extract`; numbers are places in a list
#     payload.region          a value of the trigger's payload
#     trigger.timestamp       a fact about the trigger itself
#
# They are resolved when the step is queued.

REF: Final = "$ref"
PAYLOAD: Final = "payload"
TRIGGER: Final = "trigger"
RESULT: Final = "result"
NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,99}")
PART: Final = re.compile(r"[^.\s]{1,200}")


class Unresolved(Invalid):
    """A reference to something that is not there."""


@dataclass(frozen=True, slots=True)
class StepReference:
    """The source of a value: a step, the payload or the trigger, and the path from there."""

    root: str
    path: tuple[str, ...]

    @property
    def text(self) -> str:
        return ".".join((self.root, *self.path))


def read_reference(text: object, place: str) -> StepReference:
    """Read a reference from its text; `place` names its field for errors."""
    if not isinstance(text, str):
        raise Invalid(f"{place}: a reference is text like 'extract.result.count'.")
    root, *path = text.split(".")
    if not NAME.fullmatch(root) or not all(PART.fullmatch(part) for part in path):
        raise Invalid(f"{place}: {text[:100]!r} is not a reference; write it like 'extract.result.count'.")
    return StepReference(root, tuple(path))


def references_in(value: Any, place: str) -> Iterator[tuple[str, StepReference]]:
    """Yield every reference in a JSON value, with its place."""
    match value:
        case {"$ref": text, **others} if not others:
            yield place, read_reference(text, place)
        case dict():
            for name, each in value.items():
                yield from references_in(each, f"{place}.{name}")
        case list():
            for index, each in enumerate(value):
                yield from references_in(each, f"{place}[{index}]")


def resolved(value: Any, values: Mapping[str, Any]) -> Any:
    """Replace the references in a JSON value; `values` holds their values by the text of the reference."""
    match value:
        case {"$ref": str(text), **others} if not others:
            if text not in values:
                raise Unresolved(f"There is nothing at {text!r}.")
            return values[text]
        case dict():
            return {name: resolved(each, values) for name, each in value.items()}
        case list():
            return [resolved(each, values) for each in value]
        case _:
            return value


def look_up(value: Any, path: tuple[str, ...]) -> Any:
    """Return the value at the end of a path; raise Unresolved if the path ends before."""
    for part in path:
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            raise Unresolved(f"There is no {part!r}.")
    return value


# -- Conditions: `when: "extract.result.count > 0 and payload.region == 'eu'"`

TOKEN: Final = re.compile(
    r"""\s*(?:(?P<text>"(?:[^"\\]|\\.)*"|'[^'\\]*')"""
    r"""|(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"""
    r"""|(?P<sign>==|!=|<=|>=|<|>|\(|\))"""
    r"""|(?P<word>[A-Za-z_][\w-]*(?:\.[\w-]+)*))"""
)
LITERALS: Final[Mapping[str, Any]] = {"true": True, "false": False, "null": None}
COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "in": lambda left, right: left in right,
}  # fmt: skip
ORDERED: Final = ("<", "<=", ">", ">=", "in")
DEEPEST: Final = 20
LONGEST_CONDITION: Final = 1000

Values = Mapping[str, Any]  # by the text of the reference


@dataclass(frozen=True, slots=True)
class Literal:
    value: Any

    def of(self, values: Values) -> Any:
        return self.value


@dataclass(frozen=True, slots=True)
class _Referred:
    reference: StepReference

    def of(self, values: Values) -> Any:
        return values.get(self.reference.text)


@dataclass(frozen=True, slots=True)
class _Comparison:
    sign: str
    left: "Condition"
    right: "Condition"

    def of(self, values: Values) -> Any:
        left, right = self.left.of(values), self.right.of(values)
        if self.sign in ORDERED and (left is None or right is None):
            return False
        try:
            return COMPARISONS[self.sign](left, right)
        except TypeError:
            raise Invalid(f"{left!r:.60} and {right!r:.60} cannot be compared by {self.sign}.") from None


@dataclass(frozen=True, slots=True)
class Not:
    inner: "Condition"

    def of(self, values: Values) -> Any:
        return not self.inner.of(values)


@dataclass(frozen=True, slots=True)
class _Joined:
    word: str
    parts: tuple["Condition", ...]

    def of(self, values: Values) -> Any:
        decided = any if self.word == "or" else all
        return decided(part.of(values) for part in self.parts)


Condition = Literal | _Referred | _Comparison | Not | _Joined


def read_condition(text: object, place: str) -> Condition:
    """Read a condition from its text; `place` names its field for errors."""
    if not isinstance(text, str) or not text.strip() or len(text) > LONGEST_CONDITION:
        raise Invalid(f'{place}: a condition is text like "extract.result.count > 0".')
    return _Reader(text, place).whole()


def references_of(condition: Condition) -> Iterator[StepReference]:
    match condition:
        case _Referred(reference):
            yield reference
        case _Comparison(_, left, right):
            yield from references_of(left)
            yield from references_of(right)
        case Not(inner):
            yield from references_of(inner)
        case _Joined(_, parts):
            for part in parts:
                yield from references_of(part)


class _Reader:
    """One pass from left to right."""

    def __init__(self, text: str, place: str) -> None:
        self._text, self._place = text, place
        self._tokens = list(self._read())
        self._at = 0

    def _read(self) -> Iterator[tuple[str, str]]:
        at, text = 0, self._text.rstrip()
        while at < len(text):
            found = TOKEN.match(text, at)
            if found is None or found.lastgroup is None:
                raise self._flaw(text[at:].strip())
            yield found.lastgroup, found[found.lastgroup]
            at = found.end()

    def whole(self) -> Condition:
        made = self._joined("or", 0)
        if self._at < len(self._tokens):
            raise self._flaw(self._tokens[self._at][1])
        return made

    def _joined(self, word: str, depth: int) -> Condition:
        parts = [self._part(word, depth)]
        while self._next_is(word):
            self._at += 1
            parts.append(self._part(word, depth))
        return parts[0] if len(parts) == 1 else _Joined(word, tuple(parts))

    def _part(self, word: str, depth: int) -> Condition:
        return self._joined("and", depth) if word == "or" else self._one(depth + 1)

    def _one(self, depth: int) -> Condition:
        if depth > DEEPEST:
            raise Invalid(f"{self._place}: the condition is nested more than {DEEPEST} deep.")
        if self._next_is("not"):
            self._at += 1
            return Not(self._one(depth + 1))
        if self._next_is("("):
            self._at += 1
            inner = self._joined("or", depth)
            self._take(")")
            return inner
        left = self._operand()
        if self._at < len(self._tokens) and self._tokens[self._at][1] in COMPARISONS:
            sign = self._tokens[self._at][1]
            self._at += 1
            return _Comparison(sign, left, self._operand())
        return left

    def _operand(self) -> Condition:
        if self._at >= len(self._tokens):
            raise self._flaw("its end")
        kind, token = self._tokens[self._at]
        self._at += 1
        match kind:
            case "text":
                return Literal(self._text_of(token) if token[0] == '"' else token[1:-1])
            case "number":
                return Literal(json.loads(token))
            case "word" if token in LITERALS:
                return Literal(LITERALS[token])
            case "word" if token not in ("and", "or", "not", "in"):
                return _Referred(read_reference(token, self._place))
            case _:
                raise self._flaw(token)

    def _text_of(self, token: str) -> str:
        try:
            return str(json.loads(token))
        except ValueError:
            raise self._flaw(token) from None

    def _next_is(self, token: str) -> bool:
        return self._at < len(self._tokens) and self._tokens[self._at][1] == token

    def _take(self, token: str) -> None:
        if not self._next_is(token):
            raise Invalid(f"{self._place}: the condition {self._text[:100]!r} lacks a {token}.")
        self._at += 1

    def _flaw(self, at: str) -> Invalid:
        return Invalid(f"{self._place}: the condition {self._text[:100]!r} cannot be read at {at[:40]!r}.")

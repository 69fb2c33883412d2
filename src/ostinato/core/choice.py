"""Words of policies: each field and each value is declared with the text that forms, help and documents show."""

from dataclasses import field, fields
from enum import StrEnum
from typing import Any, Final, NamedTuple, Self, TypeVar

T = TypeVar("T")
WORDS: Final = "words"


class Choice(StrEnum):
    """Base class of the values of a policy: `SKIP = "skip", "skip the due time"`."""

    words: str

    def __new__(cls, value: str, words: str = "") -> Self:
        if not words:
            raise TypeError(f'{cls.__name__} {value!r} needs words: write NAME = "{value}", "what it does".')
        member = str.__new__(cls, value)
        member._value_ = value
        member.words = words
        return member


class FieldWords(NamedTuple):
    """Words of a field: label, one sentence of help, what applies where it is not set, name outside, and values."""

    label: str
    help: str
    unset: str
    outside: str  # empty: the name of the field
    choices: tuple[Choice, ...]


def worded(default: T, label: str, help: str, unset: str = "", outside: str = "") -> T:
    """Declare the default and the words of a field of a dataclass."""
    choices = tuple(type(default)) if isinstance(default, Choice) else ()
    return field(default=default, metadata={WORDS: FieldWords(label, help, unset, outside, choices)})


def words_of(kind: Any) -> dict[str, FieldWords]:
    """Return the words of the fields of a dataclass, by their names outside."""
    worded = ((each.name, each.metadata[WORDS]) for each in fields(kind) if WORDS in each.metadata)
    return {words.outside or name: words for name, words in worded}

"""Text in and out: args and results as JSON, messages, log lines and their levels; bounds of texts and times.

Nothing is ever pickled. Input must be standard JSON; other input is refused, with its place and a way out. The
result of a run is always kept: if it is not JSON, as text, cut visibly, with a warning.
"""

import json
import math
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from json.encoder import c_make_encoder, encode_basestring  # type: ignore[attr-defined]
from json.scanner import make_scanner
from typing import Any, Final, Literal, NamedTuple

from ostinato.core.errors import Invalid

MIB = 1024 * 1024
LIMIT = 256 * 1024  # bytes of UTF-8
DEEPEST = 50  # lists and objects in each other
FIELD_LIMIT = 1000  # characters of one field in a log line
BARE = re.compile(r"[!#-<>-\[\]-~]+")  # printable ASCII but for space, quote, equals sign and backslash


def _writer(*, sort_keys: bool) -> Callable[[object], str]:
    """Make a writer of compact JSON. `JSONEncoder.encode` makes its C half for each text: 1.7 instead of 0.7 µs."""
    encoder = json.JSONEncoder(
        ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":"), sort_keys=sort_keys
    )
    if c_make_encoder is None:  # not CPython
        return encoder.encode
    pieces = c_make_encoder(
        None, encoder.default, encode_basestring, None, encoder.key_separator, encoder.item_separator,
        encoder.sort_keys, encoder.skipkeys, encoder.allow_nan,
    )  # fmt: skip
    return lambda value: "".join(pieces(value, 0))


AS_GIVEN = _writer(sort_keys=False)
CANONICAL = _writer(sort_keys=True)

PLAIN = frozenset({int, bool, type(None)})

INSTEAD = {  # by the name of a class anywhere among a value's bases
    "datetime": "its ISO text, .isoformat()",
    "date": "its ISO text, .isoformat()",
    "time": "its ISO text, .isoformat()",
    "timedelta": "seconds, or text like 30s",
    "UUID": "its text, str(…)",
    "Decimal": "its text, str(…), or a float",
    "PurePath": "its text, str(…)",
    "Enum": "its .value",
    "BaseModel": "its .model_dump(mode='json')",
    "Set": "a list",
    "set": "a list",
    "frozenset": "a list",
    "bytes": "text, for example base64",
    "bytearray": "text, for example base64",
}


def encode(value: object, what: str = "args", limit: int = LIMIT) -> str:
    """Write a value as JSON: compact, keys in order. Invalid if it is not JSON; `what` names it in the message."""
    check_json(value, what)
    text = _dump(value, what, CANONICAL)
    size = len(text.encode())
    if size > limit:
        raise Invalid(
            f"{what} is {size:,} bytes of JSON, and {limit:,} are allowed; keep the data elsewhere and pass "
            "where it is."
        )
    return text


def check_json(value: object, what: str) -> None:
    """Raise Invalid for a value that is not JSON as Ostinato stores it; `what` names it in the message."""
    if type(value) is dict and all(map(_is_plain, value, value.values())):
        return
    flaw = next(_flaws(value, what, DEEPEST), None)
    if flaw is not None:
        raise Invalid(flaw)


def _is_plain(key: object, value: object) -> bool:
    """Return True for a number or a short text: most args are these, and this check costs a tenth."""
    if type(key) is not str or not key.isascii() or "\0" in key:
        return False
    return type(value) in PLAIN or (type(value) is str and value.isascii() and "\0" not in value)


def as_whole(value: object) -> object:
    """Return 2 for 2.0: JSON has one kind of number. All else is returned as it is."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def decode(text: str, what: str = "args") -> Any:
    """Read a value from its JSON text."""
    if text == "{}":
        return {}
    try:
        value, end = _SCAN(text, 0)  # `decode` looks for spaces first, twice, which costs as much again
        return value if end == len(text) else _DECODER.decode(text)
    except StopIteration:
        raise Invalid(f"{what} cannot be read as JSON.") from None
    except (ValueError, RecursionError) as error:
        raise Invalid(f"{what} cannot be read as JSON: {error}.") from None


class KeptResult(NamedTuple):
    """A result as it is stored, and a warning about it."""

    text: str | None
    warning: str | None = None


NO_RESULT = KeptResult(None)


def encode_result(value: object, limit: int = LIMIT) -> KeptResult:
    """Write a run's result as JSON text; no result is refused."""
    if value is None:
        return NO_RESULT
    flaw = next(_flaws(value, "result", DEEPEST), None)
    if flaw is not None:
        return KeptResult(_text_within(_shown(value), limit), f"The result is kept as text: {flaw}")
    try:
        text = _dump(value, "result", AS_GIVEN)
    except Invalid as error:
        return KeptResult(_text_within(_shown(value), limit), f"The result is kept as text: {error}")
    size = len(text.encode())
    if size > limit:
        return KeptResult(
            _text_within(text, limit), f"The result is {size:,} bytes of JSON: cut to the {limit:,} allowed."
        )
    return KeptResult(text)


def cut(text: str, limit: int) -> str:
    """Shorten a text to `limit` characters: keep beginning and end, drop characters that a database refuses."""
    if "\0" in text or not _is_unicode(text):
        text = text.replace("\0", "␀").encode("utf-8", "backslashreplace").decode()
    if len(text) <= limit:
        return text
    room = max(limit - len(_gap(len(text))), 0)
    tail = room // 3
    head = room - tail
    return (text[:head] + _gap(len(text) - room) + text[len(text) - tail :])[:limit]


def member(text: str, name: str) -> Any:
    """Read one member of a JSON object; parse nothing where the name does not occur."""
    return decode(text).get(name) if f'"{name}"' in text else None


class LogMessage:
    """A log line: an event and its fields. Its text is made only when a handler writes it.

    No value can begin a new line or hide the rest: characters that cannot be printed are escaped.
    """

    __slots__ = ("event", "fields")

    def __init__(self, event: str, fields: dict[str, object]) -> None:
        self.event = event
        self.fields = fields

    def __str__(self) -> str:
        event = self.event if self.event.isprintable() else _escaped(self.event)[1:-1]
        fields = " ".join(f"{_word(name)}={_word(value)}" for name, value in self.fields.items())
        return f"{event}  {fields}" if fields else event


def _word(value: object) -> str:
    text = value if isinstance(value, str) else _shown(value, str)
    return text if len(text) <= FIELD_LIMIT and BARE.fullmatch(text) else _escaped(cut(text, FIELD_LIMIT))


def _escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=not text.isprintable()).replace("\x7f", "\\u007f")


def _dump(value: object, what: str, write: Callable[[object], str]) -> str:
    try:
        return write(value)
    except (ValueError, TypeError) as error:  # an integer of more digits than Python will write
        raise Invalid(f"{what} cannot be written as JSON: {error}.") from None


def _flaws(value: object, path: str, depth: int) -> Iterator[str]:
    """Yield sentences that say why a value is not JSON. The most frequent cases come first."""
    match value:
        case str():
            yield from _text_flaws(value, path)
        case None | bool() | int():
            pass
        case float():
            if not math.isfinite(value):
                yield f"{path} is {value}, which JSON cannot say; leave it out, or pass null."
        case dict() | list() | tuple() if not depth:
            yield f"{path} is nested more than {DEEPEST} deep; flatten it, or pass it as text."
        case dict():
            for key, each in value.items():
                if not isinstance(key, str):
                    yield f"{path} has the key {_shown(key)}, which is not text; JSON keys are text."
                elif next(_text_flaws(key, path), None):
                    yield from _text_flaws(key, f"A key of {path}")
                else:
                    yield from _flaws(each, _member(path, key), depth - 1)
        case list() | tuple():
            for index, each in enumerate(value):
                yield from _flaws(each, f"{path}[{index}]", depth - 1)
        case _:
            yield f"{path} is {_a(value)}, which is not JSON; pass {_instead(value)}."


def _text_flaws(text: str, path: str) -> Iterator[str]:
    if "\0" in text:
        yield f"{path} contains a NUL character, which databases refuse; remove it."
    elif not _is_unicode(text):
        yield f"{path} contains half of a character (a lone surrogate); decode the text properly."


def _is_unicode(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _member(path: str, key: str) -> str:
    return f"{path}.{key}" if key.isidentifier() else f"{path}[{json.dumps(cut(key, 60))}]"


def _a(value: object) -> str:
    name = type(value).__name__
    return f"an {name}" if name[:1] in "aeiouAEIO" else f"a {name}"


def _instead(value: object) -> str:
    if hasattr(type(value), "__dataclass_fields__"):
        return "its fields, dataclasses.asdict(…)"
    names = (base.__name__ for base in type(value).__mro__)
    return next((INSTEAD[name] for name in names if name in INSTEAD), "text, numbers, lists or objects")


def _shown(value: object, show: Any = repr) -> str:
    try:
        return str(show(value))
    except Exception as error:  # noqa: BLE001  a __repr__ may raise anything
        return f"<{type(value).__name__} that cannot be shown: {type(error).__name__}>"


def _text_within(text: str, limit: int) -> str:
    """Write a JSON text of at most `limit` bytes; quotes and wide characters make it longer than the text."""
    keep = limit
    while True:
        encoded = json.dumps(cut(text, keep), ensure_ascii=False)
        if len(encoded.encode()) <= limit:
            return encoded
        keep = keep * 3 // 4


def _gap(characters: int) -> str:
    return f"… [{characters:,} characters cut] …"


def _no_number(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_no_number)  # `json.loads` would make one for each call
_SCAN = make_scanner(_DECODER)  # type: ignore[arg-type]  # the stubs are wrong here


# -- Bounds of the texts and times that people write

QUEUE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,99}")
BAD_QUEUE_NAME: Final = "The queue name {name!r} cannot be used: use letters, digits and . _ : -, at most 100."
LONGEST_BY_FIELD: Final = {
    "task": 200,
    "key": 200,
    "name": 200,
    "owner": 200,
    "app": 100,
    "description": 10_000,
}
MOST_TAGS: Final = 50
LONGEST_TAG: Final = 100
LONGEST_WAIT: Final = timedelta(days=3660)
# An earlier time could push a wall time off the calendar.
EARLIEST: Final = datetime(1900, 1, 1, tzinfo=UTC)


def check_queue_name(name: str) -> None:
    if not QUEUE_NAME.fullmatch(name):
        raise Invalid(BAD_QUEUE_NAME.format(name=name))


def is_storable(text: str) -> bool:
    """Return True if both databases can store a text."""
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


# -- Names of log levels

Word = Literal["debug", "info", "warning", "error", "critical"]

LEVELS: Final[dict[Word, int]] = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}
MOST_LINES: Final = 5_000  # of one page


def level_of(word: str | None) -> int:
    """Return the lowest level of a word; None: all levels."""
    if word is None:
        return 0
    for known, level in LEVELS.items():
        if word.lower() == known:
            return level
    raise Invalid(f"There is no level {word[:60]!r}; there are {', '.join(LEVELS)}.")


def level_word(level: int) -> Word:
    """Return the highest word that a level reaches; programs may use levels of their own."""
    return next((word for word, least in reversed(LEVELS.items()) if level >= least), "debug")

"""What crosses the border as text."""

import json
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, StrEnum
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.core.errors import Invalid
from ostinato.core.payload import LIMIT, KeptResult, LogMessage, cut, decode, encode, encode_result

JSON_TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | JSON_TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(JSON_TEXT, inner),
)
ANY_TEXT = st.text(st.characters())  # NULs and lone surrogates too


class Colour(Enum):
    RED = 1


class Size(StrEnum):
    BIG = "big"


@dataclass
class Person:
    name: str


class Sulky:
    def __repr__(self) -> str:
        raise RuntimeError("leave me alone")


@given(JSON)
def test_what_is_json_comes_back_as_it_was(value):
    assert decode(encode(value)) == value


@given(st.dictionaries(JSON_TEXT, st.integers()))
def test_equal_args_have_one_text(args):
    backwards = dict(reversed(args.items()))
    assert encode(args) == encode(backwards)


def test_the_text_is_compact_and_readable():
    assert encode({"b": [1, 2.5, None], "a": "Zoë"}) == '{"a":"Zoë","b":[1,2.5,null]}'


def test_what_python_calls_by_other_names_is_json_too():
    point = namedtuple("point", "x y")
    assert encode([(1, 2), point(3, 4), OrderedDict(a=1), Size.BIG, True]) == '[[1,2],[3,4],{"a":1},"big",true]'


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ({"items": [1, 2, 3, {4}]}, "args.items[3] is a set, which is not JSON; pass a list."),
        ({"a b": {1: 2}}, 'args["a b"] has the key 1, which is not text; JSON keys are text.'),
        (
            {"at": datetime(2026, 1, 1, tzinfo=UTC)},
            "args.at is a datetime, which is not JSON; pass its ISO text",
        ),
        ({"at": date(2026, 1, 1)}, "pass its ISO text, .isoformat()."),
        ({"wait": timedelta(1)}, "pass seconds, or text like 30s."),
        ({"id": UUID(int=1)}, "args.id is a UUID, which is not JSON; pass its text, str(…)."),
        ({"price": Decimal(1)}, "pass its text, str(…), or a float."),
        ({"file": Path("x")}, "pass its text, str(…)."),
        (
            {"who": Person("Ada")},
            "args.who is a Person, which is not JSON; pass its fields, dataclasses.asdict(…).",
        ),
        ({"colour": Colour.RED}, "pass its .value."),
        ({"raw": b""}, "pass text, for example base64."),
        (
            {"what": object()},
            "args.what is an object, which is not JSON; pass text, numbers, lists or objects.",
        ),
        ({"x": float("nan")}, "args.x is nan, which JSON cannot say"),
        ({"x": [float("-inf")]}, "args.x[0] is -inf, which JSON cannot say"),
        ({"x": "a\0b"}, "args.x contains a NUL character"),
        ({"a\0": 1}, "A key of args contains a NUL character"),
        ({"x": "\ud800"}, "args.x contains half of a character"),
        ({"x": 10**5000}, "args cannot be written as JSON"),
        ({"x": "é" * LIMIT}, "args is 524,296 bytes of JSON, and 262,144 are allowed"),
    ],
)
def test_what_is_not_json_is_refused_with_its_place_and_a_way_out(value, sentence):
    with pytest.raises(Invalid) as refused:
        encode(value)
    assert sentence in str(refused.value)


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


def test_deep_nesting_is_refused_and_so_is_what_contains_itself():
    loop: list[object] = []
    loop.append(loop)
    assert encode(nested(50))
    for value in (nested(51), loop):
        with pytest.raises(Invalid, match="nested more than 50 deep"):
            encode(value)


@pytest.mark.parametrize("text", ["{", "NaN", "[" * 100_000, ""])
def test_text_that_is_not_json_is_refused(text):
    with pytest.raises(Invalid, match="checkpoint cannot be read as JSON"):
        decode(text, "checkpoint")


def test_a_result_keeps_its_order_and_none_is_no_text():
    assert encode_result({"b": 1, "a": 2}) == KeptResult('{"b":1,"a":2}', None)
    assert encode_result(None) == KeptResult(None, None)
    assert encode_result(False) == KeptResult("false", None)


def test_a_result_that_is_not_json_is_kept_as_text_with_a_warning():
    text, warning = encode_result({"at": {1}})
    assert decode(text) == "{'at': {1}}"
    assert warning == "The result is kept as text: result.at is a set, which is not JSON; pass a list."


def test_a_result_that_cannot_even_be_shown_is_kept_by_its_kind():
    text, warning = encode_result(Sulky())
    assert decode(text) == "<Sulky that cannot be shown: RuntimeError>"
    assert warning


def test_an_oversized_result_is_cut_visibly():
    text, warning = encode_result(["x" * 100] * 5000)
    assert len(text.encode()) <= LIMIT
    assert "characters cut] …" in decode(text)
    assert warning == "The result is 515,001 bytes of JSON: cut to the 262,144 allowed."


@given(ANY_TEXT | st.lists(ANY_TEXT) | st.sets(st.integers()), st.integers(2, 60))
def test_a_kept_result_is_always_json_within_the_limit(value, limit):
    text, _ = encode_result(value, limit)
    assert len(text.encode()) <= limit
    json.loads(text)


@given(ANY_TEXT, st.integers(0, 100))
def test_a_cut_text_is_within_its_limit_and_fit_for_a_database(text, limit):
    short = cut(text, limit)
    assert len(short) <= limit
    assert "\0" not in short
    short.encode()


def test_a_cut_keeps_the_beginning_and_the_end_and_says_how_much_is_missing():
    assert cut("a" * 50_000 + "b" * 50_000, 90) == "a" * 42 + "… [99,938 characters cut] …" + "b" * 20
    assert cut("short", 90) == "short"
    assert cut("a\0b", 90) == "a␀b"


def test_a_log_line_reads_like_this():
    line = LogMessage("Executing job", {"job_id": UUID(int=1), "error": 'connection "timeout"', "n": 0, "to": ""})
    assert str(line) == (
        'Executing job  job_id=00000000-0000-0000-0000-000000000001 error="connection \\"timeout\\"" n=0 to=""'
    )
    assert str(LogMessage("Stopping", {})) == "Stopping"


@given(ANY_TEXT, ANY_TEXT, ANY_TEXT | st.binary())
def test_nothing_in_a_log_line_can_begin_another(event, name, value):
    line = str(LogMessage(event, {name: value}))
    assert line.isprintable()
    assert len(line.splitlines()) <= 1


def test_a_value_cannot_pose_as_a_field():
    assert str(LogMessage("x", {"user": "ada admin=yes"})) == 'x  user="ada admin=yes"'


def test_a_value_that_cannot_be_shown_harms_no_log():
    class Mute:
        def __str__(self) -> str:
            raise ValueError

    assert str(LogMessage("x", {"v": Mute()})) == 'x  v="<Mute that cannot be shown: ValueError>"'

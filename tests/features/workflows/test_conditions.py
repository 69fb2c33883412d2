"""Conditions and references: what they come to."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.core.errors import Invalid
from ostinato.features.workflows.rules.condition import (
    Unresolved,
    look_up,
    read_condition,
    references_in,
    references_of,
    resolved,
)

VALUES = {"a.result.n": 5, "a.result.s": "eu", "payload.x": None, "payload.l": [1, 2], "b-1.result": {}}


@pytest.mark.parametrize(
    ("text", "comes_to"),
    [
        ("a.result.n", True),
        ("not a.result.n", False),
        ("b-1.result", False),
        ("payload.missing", False),
        ("a.result.n > 4", True),
        ("a.result.n >= 5 and a.result.n <= 5", True),
        ("a.result.n < 5 or a.result.s == 'eu'", True),
        ('a.result.s != "eu"', False),
        ("a.result.n == 5.0", True),
        ("payload.x == null", True),
        ("payload.x > 1", False),
        ("payload.x < 1", False),
        ("1 in payload.l", True),
        ("a.result.n in payload.l", False),
        ("not (a.result.n == 5 and payload.x)", True),
        ("true and not false", True),
        ("a.result.n > -1", True),
        ("a.result.n == 1 or a.result.n == 2 or a.result.n == 5", True),
    ],
)
def test_a_condition_comes_to(text, comes_to):
    assert bool(read_condition(text, "when").of(VALUES)) is comes_to


@pytest.mark.parametrize(
    "text",
    ["", "  ", None, 3, "a >", "> a", "a b", "(a", "a)", "a = 1", "a ; b", "__import__('os')", 'a == "\\x"',
     "a and", "in a"],
)  # fmt: skip
def test_what_is_no_condition_is_refused_with_the_place(text):
    with pytest.raises(Invalid, match=r"nodes\[1\]\.when"):
        read_condition(text, "nodes[1].when")


def test_what_cannot_be_compared_is_said_so():
    with pytest.raises(Invalid, match="cannot be compared"):
        read_condition("a.result.n > a.result.s", "when").of(VALUES)


def test_the_references_of_a_condition():
    condition = read_condition("not (a.result.n > 1 or b.result) and payload.x", "when")
    assert [each.text for each in references_of(condition)] == ["a.result.n", "b.result", "payload.x"]


@given(st.text(max_size=40))
def test_no_text_breaks_the_reader(text):
    with suppress(Invalid):
        read_condition(text, "when").of({})


def test_references_are_found_and_resolved_wherever_they_stand():
    args = {
        "a": {"$ref": "x.result"},
        "b": [1, {"c": {"$ref": "payload.y"}}],
        "d": {"$ref": "x.result", "e": 1},
    }
    found = dict(references_in(args, "args"))
    assert {place: each.text for place, each in found.items()} == {
        "args.a": "x.result",
        "args.b[1].c": "payload.y",
    }
    assert resolved(args, {"x.result": {"n": 1}, "payload.y": None}) == {
        "a": {"n": 1},
        "b": [1, {"c": None}],
        "d": {"$ref": "x.result", "e": 1},
    }


def test_a_reference_to_nothing_is_unresolved():
    with pytest.raises(Unresolved, match=r"x\.result"):
        resolved({"a": {"$ref": "x.result"}}, {})


@pytest.mark.parametrize(("path", "found"), [((), {"a": [1, {"b": 2}]}), (("a", "1", "b"), 2), (("a", "0"), 1)])
def test_looking_up(path, found):
    assert look_up({"a": [1, {"b": 2}]}, path) == found


@pytest.mark.parametrize("path", [("b",), ("a", "2"), ("a", "x"), ("a", "0", "y"), ("a", "-1")])
def test_a_way_that_ends_before(path):
    with pytest.raises(Unresolved):
        look_up({"a": [1, {"b": 2}]}, path)

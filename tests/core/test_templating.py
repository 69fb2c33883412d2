"""Texts with placeholders: filled with values, and never with more than values."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.core.arguments import Flaw, fill, fill_text, placeholders

NAMES = {
    "a": "one",
    "n": 17,
    "deep": {"er": {"x-y": None}},
    "list": ["first", {"k": True}],
    "odd": 'q"}, {{ a }}',
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("plain", "plain"),
        ("{{ a }}", "one"),
        ("{{a}}-{{ n }}", "one-17"),
        ("{{ deep.er.x-y }}", "null"),
        ("{{ list.0 }} {{ list.1.k }}", "first true"),
        (r"\{{ a }}", "{{ a }}"),
        ("{ a } }}", "{ a } }}"),
        ("{{ odd }}", 'q"}, {{ a }}'),
    ],
)
def test_holes_in_a_text(text, filled):
    assert fill_text(text, NAMES) == filled


def test_a_hole_alone_becomes_the_value_itself():
    assert fill({"n": "{{ n }}", "t": "no. {{ n }}", "l": ["{{ list }}"], "{{ a }}": 1}, NAMES) == {
        "n": 17, "t": "no. 17", "l": [["first", {"k": True}]], "{{ a }}": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    "name",
    ["b", "a.b", "list.9", "list.x", "deep.", "a + n", "a()", "__class__", "deep.__class__", "a | b", "a.0", "n.real"],
)  # fmt: skip
def test_a_name_that_means_nothing_is_refused(name):
    with pytest.raises(Flaw):
        fill_text(f"{{{{ {name} }}}}", NAMES)


def test_names_between_braces_are_found_anywhere():
    assert list(placeholders({"x": ["{{ a }} {{ b.c }}", {"y": "{{ d }}"}], "z": r"\{{ e }}", "w": 3})) == [
        "a",
        "b.c",
        "d",
    ]


@given(value=JSON)
def test_filled_values_never_change_the_shape_around_them(value):
    filled = fill({"before": 1, "it": "{{ v }}", "after": ["{{ v }}", "x{{ v }}y"]}, {"v": value})
    assert filled["it"] == value
    assert filled["after"][0] == value
    assert set(filled) == {"before", "it", "after"}
    assert isinstance(filled["after"][1], str)


@given(text=st.text())
def test_any_text_is_filled_or_refused(text):
    with suppress(Flaw):
        assert isinstance(fill_text(text, NAMES), str)

"""The one reader of JSON and YAML: what it takes, and what it refuses before a value is built."""

import json
from datetime import timedelta
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.core.errors import Invalid
from ostinato.shapes.documents import (
    FROM_FILES,
    OVER_HTTP,
    Allowance,
    json_of,
    json_or_text,
    listed,
    read_file,
    read_json,
    read_yaml,
)

# 359 bytes that are a thousand million values.
BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


def nested(depth: int, opening: str = "[", closing: str = "]") -> str:
    return opening * depth + closing * depth


def test_values_come_as_they_are():
    text = '{"a": [1, 2.5, true, null, "é"], "b": {"c": "2026-11-18"}}'
    assert read_json(text) == read_yaml(text, "x")[0] == json.loads(text)


def test_dates_stay_text_and_empty_documents_are_left_out():
    assert read_yaml("day: 2026-11-18\n---\n---\nat: 2026-11-18T10:00:00Z", "x") == [
        {"day": "2026-11-18"},
        {"at": "2026-11-18T10:00:00Z"},
    ]


def test_an_alias_bomb_is_refused_at_once():
    before = process_time()
    for allowance in (OVER_HTTP, FROM_FILES):
        with pytest.raises(Invalid, match="aliases"):
            read_yaml(BOMB, "x", allowance)
    assert process_time() - before < timedelta(seconds=2).total_seconds()


def test_a_file_may_have_aliases_and_a_request_may_not():
    text = "usual: &usual {a: 1}\nother: {<<: *usual, b: 2}\nsame: *usual"
    assert read_yaml(text, "x", FROM_FILES)[0]["other"] == {"a": 1, "b": 2}
    with pytest.raises(Invalid, match="write them out"):
        read_yaml(text, "x", OVER_HTTP)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: &a [1]\nb: [" + "*a," * 1001 + "]", "more than 1000 aliases"),
        ("a: &a [" + "1," * 1000 + "]\nb: [" + "*a," * 100 + "]", "over 100,000 values"),
        ("a: &a [*a]", "complete before it"),
        ("a: *b", "complete before it"),
        (nested(51), "nested more than 50"),
        (nested(100_000), "nested more than 50"),
        (nested(100_000, "{a: ", "}"), "nested more than 50"),
        ("&a " + nested(30) + "\n---\n1", None),
        ("a: &a " + nested(30) + "\nb: &b [[[[[[[[[[[[[[[[[[[[*a]]]]]]]]]]]]]]]]]]]]", "nested more than 50"),
        ("a: 1\na: 2", "a is a duplicate name in line 2"),
        ("a: {b: 1, b: 1}", "b is a duplicate name in line 1"),
        ("1: a", "JSON keys are text"),
        ("? [a]\n: b", "x is not YAML"),
        ("- {source", "in line "),
        ("a: .nan", "JSON cannot say"),
        ("!!int ''", "x is not YAML"),
        ("!!bool x", "x is not YAML"),
        ("!!timestamp x", "x is not YAML"),
        ("!!python/object/apply:os.system ['true']", "could not determine a constructor"),
        ("!!binary aGk=", "is not JSON"),
        ("a\0b", "x is not YAML"),
        ("%YAML 9.9\n---\na", "x is not YAML"),
    ],
)
def test_a_document_that_cannot_be_kept_is_refused_with_a_sentence(text, says):
    if says is None:
        assert read_yaml(text, "x", FROM_FILES)
        return
    with pytest.raises(Invalid, match=says) as refused:
        read_yaml(text, "x", FROM_FILES)
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "Expecting value in line 1, column 1"),
        ("{", "in line 1"),
        ('{"a": 1, "a": 1}', "an object has a duplicate name"),
        ("[NaN]", "no number of JSON"),
        (nested(51), "nested more than 50"),
        (nested(100_000), "nested more than 50"),
        (nested(100_000, '{"a":'), "nested more than 50|not JSON"),
        ("1" * 5000, "is not JSON"),
        ('"\\ud800"', "half of a character"),
        ('"\\u0000"', "NUL"),
    ],
)
def test_json_that_cannot_be_kept_is_refused_with_a_sentence(text, says):
    with pytest.raises(Invalid, match=says):
        read_json(text)
    assert json_or_text(text) == text


def test_comments_are_taken_out_of_requests():
    assert json.loads(json_of('{"a": "http://x", // why\n "b": 1}', "x")) == {"a": "http://x", "b": 1}
    with pytest.raises(Invalid):
        json_of("// nothing else", "x")


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("x.yaml", b"\xff\xfe", "not text in UTF-8"),
        ("x.yaml", b"a" * (FROM_FILES.bytes + 1), "larger than 16,777,216 bytes"),
        ("x.json", b"{", "is not JSON"),
        ("x.yaml", b"{", "is not YAML"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_by_its_name(tmp_path, name, content, says):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(Invalid, match=rf"{name}.*{says}"):
        read_file(tmp_path / name)


@pytest.mark.parametrize("name", ["missing.yaml", ".", "a" * 5000, "a\0b", "\udcff.yaml"])
def test_a_file_that_cannot_be_opened_is_refused_by_its_name(tmp_path, name):
    with pytest.raises(Invalid) as refused:
        read_file(tmp_path / name)
    str(refused.value).encode()
    assert len(str(refused.value)) < 400


def test_a_large_file_without_aliases_has_no_limit_of_values():
    assert len(read_yaml("[" + "1," * 150_000 + "]", "x", FROM_FILES)[0]) == 150_000


def test_a_document_is_one_object_or_a_list_or_a_list_under_a_name():
    assert listed({"a": 1}) == [{"a": 1}]
    assert listed([{"a": 1}]) == listed({"sources": [{"a": 1}]}, "sources") == [{"a": 1}]


def _values(value) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    keys = len(value) if isinstance(value, dict) else 0
    return 1 + keys + sum(map(_values, inner))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(st.integers(0, 4), max_size=4), min_size=1, max_size=5), st.integers(1, 400))
def test_what_is_read_never_has_more_values_than_allowed(lists, most):
    """Each list repeats some of those before it."""
    lines = [
        f"k{n}: &n{n} [{', '.join(f'*n{each}' if each < n else 'x' for each in line)}]" for n, line in enumerate(lists)
    ]
    text = "\n".join(lines)
    try:
        (value,) = read_yaml(text, "x", Allowance(10_000, 1000, most))
    except Invalid:
        return
    if "*" in text:
        assert _values(value) <= most + 1

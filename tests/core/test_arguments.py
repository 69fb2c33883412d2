"""What a task takes: read from JSON, refused with the name of the field, described as a schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import pytest

from ostinato.core.arguments import (
    URL,
    Flaw,
    anything,
    arg,
    choice,
    many,
    mapping,
    number,
    of,
    read,
    schema,
    span,
    switch,
    text,
    whole,
)
from ostinato.core.errors import Invalid, WrongArgument


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    depth: int = arg(whole(0, 9), "How deep.", 1)
    name: str = arg(text(5, empty=False), "Its name.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    url: str = arg(URL, "URL to call.")
    times: int = arg(whole(1, 10), "How often.", 1)
    share: float = arg(number(0, 1), "How much.", 0.5)
    loud: bool = arg(switch(), "Whether.", False)
    mood: str = arg(choice("good", "bad"), "How.", "good")
    wait: timedelta = arg(span("1s", "1h"), "How long.", "30s")
    words: tuple[str, ...] = arg(many(text(), 3), "Which.", [])
    headers: Mapping[str, str] = arg(mapping(text()), "More.", {})
    data: object = arg(anything(), "Anything.", None)
    inner: Inner | None = arg(of(Inner), "Inside.", None)
    inners: tuple[Inner, ...] = arg(many(of(Inner)), "Many inside.", [])

    def __post_init__(self) -> None:
        if self.loud and self.mood == "bad":
            raise Flaw("cannot be loud.", "mood")


def test_what_is_left_out_has_its_default():
    args = read(Args, {"url": "https://example.org"})
    assert (args.times, args.wait, args.words, args.headers, args.inner) == (
        1,
        timedelta(seconds=30),
        (),
        {},
        None,
    )


def test_what_is_given_is_read():
    args = read(Args, {"url": "https://a.example", "wait": 5, "words": ["a"], "inner": {"name": "x"}, "data": [1]})
    assert args.wait == timedelta(seconds=5)
    assert args.words == ("a",)
    assert args.inner == Inner(depth=1, name="x")
    assert args.data == [1]


def test_null_is_as_good_as_left_out():
    assert read(Args, {"url": "https://a.example", "times": None}).times == 1


@pytest.mark.parametrize(
    ("given", "field", "sentence"),
    [
        ({}, "args.url", "args.url is required: URL to call."),
        ({"url": None}, "args.url", "args.url is required"),
        ({"url": 3}, "args.url", "args.url must be text, not 3."),
        ({"url": "ftp://x"}, "args.url", "args.url must be an http or https URL with a host."),
        ({"tmes": 2}, "args.tmes", "args.tmes does not exist; did you mean times?"),
        ({"times": 11}, "args.times", "from 1 to 10, not 11."),
        ({"times": True}, "args.times", "not True."),
        ({"share": "much"}, "args.share", "must be a number"),
        ({"loud": 1}, "args.loud", "args.loud must be true or false, not 1."),
        ({"mood": "fair"}, "args.mood", "one of good, bad, not 'fair'."),
        ({"wait": "soon"}, "args.wait", "args.wait cannot be read"),
        ({"wait": "2h"}, "args.wait", "args.wait must be from 1s to 1h, not 2h."),
        ({"words": "abc"}, "args.words", "args.words must be a list, not 'abc'."),
        ({"words": ["a", 2]}, "args.words[1]", "args.words[1] must be text, not 2."),
        ({"words": list("abcd")}, "args.words", "0 to 3 entries, not 4."),
        ({"headers": {"x": 1}}, "args.headers.x", "args.headers.x must be text"),
        ({"headers": []}, "args.headers", "must be a JSON object"),
        ({"inner": {}}, "args.inner.name", "args.inner.name is required: Its name."),
        ({"inners": [{"name": "a"}, {"name": ""}]}, "args.inners[1].name", "args.inners[1].name cannot be empty."),
        ({"inner": {"name": "toolong"}}, "args.inner.name", "longer than 5"),
        ({"inner": {"name": "a\0"}}, "args.inner.name", "NUL"),
        ({"loud": True, "mood": "bad"}, "args.mood", "args.mood cannot be loud."),
    ],
)  # fmt: skip
def test_a_refusal_names_the_field(given, field, sentence):
    given = given if "url" in given or not given else {"url": "https://example.org", **given}
    with pytest.raises(WrongArgument) as refused:
        read(Args, given)
    assert refused.value.field == field
    assert sentence in str(refused.value)
    assert isinstance(refused.value, Invalid)


def test_args_that_are_no_object():
    with pytest.raises(WrongArgument, match="args must be a JSON object"):
        read(Args, [])


def test_the_schema_says_what_people_and_forms_need():
    described = schema(Args)
    assert described["required"] == ["url"]
    assert described["additionalProperties"] is False
    fields = described["properties"]
    assert fields["url"] == {
        "type": "string",
        "format": "uri",
        "maxLength": 2048,
        "description": "URL to call.",
    }
    assert fields["times"] == {
        "type": "integer", "minimum": 1, "maximum": 10, "description": "How often.", "default": 1,
    }  # fmt: skip
    assert fields["wait"]["default"] == "30s"
    assert fields["mood"]["enum"] == ["good", "bad"]
    assert fields["inner"]["properties"]["name"]["description"] == "Its name."


def test_a_default_that_could_be_changed_is_made_anew():
    one, other = read(Args, {"url": "https://a.example"}), read(Args, {"url": "https://a.example"})
    assert one.headers is not other.headers

"""Job templates: parameters are checked, and filled in as values."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.core.errors import WrongArgument
from ostinato.features.templates.rules import KINDS, parameters_json, read_template, shipped

JOB = {
    "task": "http",
    "args": {"url": "{{ params.url }}", "body": "{{ due_at }} {{ params.n }}", "n": "{{ params.n }}"},
}
GOOD = {
    "name": "mine",
    "parameters": [{"name": "url", "type": "url"}, {"name": "n", "type": "integer", "default": 3}],
    "job": JOB,
}  # fmt: skip


def changed(**fields):
    return {**copy.deepcopy(GOOD), **fields}


def test_parameters_are_filled_in_and_other_holes_are_left_for_the_run():
    body = read_template(GOOD).body({"url": "https://a.example"}, {"key": "k"})
    assert body == {
        "task": "http", "args": {"url": "https://a.example", "body": "{{ due_at }} 3", "n": 3}, "key": "k",
    }  # fmt: skip
    assert read_template(GOOD).job == JOB


@pytest.mark.parametrize(
    ("params", "field", "sentence"),
    [
        ({}, "params.url", "params.url is required"),
        ({"url": "nowhere"}, "params.url", "http or https"),
        ({"url": "https://a.example", "n": "many"}, "params.n", "whole number"),
        ({"url": "https://a.example", "m": 1}, "params.m", "does not exist; there are url, n."),
    ],
)
def test_a_wrong_parameter_is_named(params, field, sentence):
    with pytest.raises(WrongArgument) as refused:
        read_template(GOOD).body(params)
    assert refused.value.field == field
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("template", "field"),
    [
        ({}, "template.name"),
        (changed(name="No good"), "template.name"),
        (changed(parameters=[{"name": "Url"}]), "template.parameters[0].name"),
        (changed(parameters=[{"name": "url", "type": "uri"}]), "template.parameters[0].type"),
        (changed(parameters=[{"name": "url"}, {"name": "url"}]), "template.parameters"),
        (
            changed(parameters=[{"name": "url", "type": "integer", "default": "x"}]),
            "template.parameters[0].default",
        ),
        (
            changed(parameters=[{"name": "url", "type": "integer", "choices": ["1"]}]),
            "template.parameters[0].choices",
        ),
        (
            changed(parameters=[{"name": "url", "choices": ["1"], "default": "2"}]),
            "template.parameters[0].default",
        ),
        (changed(parameters=[]), "template.job"),
        (changed(job=[]), "template.job"),
        (changed(jobs={}), "template.jobs"),
    ],
)
def test_a_wrong_template_names_the_field(template, field):
    with pytest.raises(WrongArgument) as refused:
        read_template(template)
    assert refused.value.field == field


def test_the_schema_is_like_that_of_a_task():
    described = read_template(GOOD).schema
    assert described["required"] == ["url"]
    assert described["properties"]["n"]["default"] == 3


def test_it_is_written_as_it_was_read():
    assert parameters_json(read_template(GOOD)) == GOOD["parameters"]


def test_those_that_we_bring():
    assert list(shipped()) == ["crawl-a-site", "ping-a-url", "nightly-backup"]
    ping = shipped()["ping-a-url"].body({"url": "https://a.example"})
    assert ping["args"] == {"url": "https://a.example", "expect": ["2xx"], "timeout": "10s", "keep": 0}
    assert ping["schedule"] == {"every": "5m"}


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(value=ANY, text=st.text())
def test_no_value_changes_the_shape_of_a_job(value, text):
    template = read_template(
        {
            "name": "any",
            "parameters": [{"name": "it", "type": "json", "default": 0}, {"name": "t", "default": "x"}],
            "job": {
                "task": "http",
                "args": {"a": "{{ params.it }}", "b": ["x {{ params.t }} y"]},
                "name": "n",
            },
        }
    )
    try:
        body = template.body({"it": value, "t": text})
    except WrongArgument:
        assert "\0" in text
        return
    assert body["task"] == "http"
    assert set(body) == {"task", "args", "name"}
    assert body["args"] == {"a": 0 if value is None else value, "b": [f"x {text} y"]}


@pytest.mark.parametrize("kind", KINDS)
def test_every_type_is_described(kind):
    assert isinstance(KINDS[kind].schema, dict)

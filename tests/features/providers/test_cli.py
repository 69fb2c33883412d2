"""`ostinato provider …`: from files, and as a table."""

import pytest

from tests.cli.places import the_json

PLACES = ("direct-sqlite", "server-postgres")
TWO = """
providers:
  - domain: api.example.org
    limit: 60
    period: 1m
    key: {type: header, name: X-Api-Key, value: env:SECRET_EXAMPLE_KEY}
  - {domain: example.net, limit: 10, period: 1s}
"""


@pytest.fixture
def file(tmp_path):
    file = tmp_path / "providers.yaml"
    file.write_text(TWO)
    return file


def test_providers_are_applied_from_a_file_and_listed(ostinato, place, file):
    first = ostinato("provider", "apply", str(file), *place.flags)
    assert first.out.splitlines() == [
        "created: api.example.org 60/60 left, per 1m",
        "created: example.net 10/10 left, per 1s",
    ]
    file.write_text(TWO.replace("limit: 10", "limit: 20"))
    again = ostinato("provider", "apply", str(file.parent), *place.flags)
    assert [line.split(":")[0] for line in again.out.splitlines()] == ["unchanged", "changed"]
    listed = ostinato("provider", "list", *place.flags).out.splitlines()
    assert listed[0].split() == ["Domain", "Left", "Per", "Waiting", "Key"]
    assert listed[1].split() == [
        "api.example.org",
        "60/60",
        "1m",
        "0",
        "header",
        "X-Api-Key:",
        "env:SECRET_EXAMPLE_KEY",
    ]
    assert listed[2].split() == ["example.net", "20/20", "1s", "0"]
    shown = ostinato("provider", "show", "api.example.org", *place.flags).out
    assert "60 per 1m" in shown
    assert the_json(ostinato("provider", "show", "example.net", "--json", *place.flags))["limit"] == 20


def test_a_provider_is_deleted_when_it_is_meant(ostinato, place, file):
    ostinato("provider", "apply", str(file), *place.flags)
    refused = ostinato("provider", "delete", "example.net", *place.flags)
    assert (refused.code, "confirm with --yes" in refused.err) == (2, True)
    assert ostinato("provider", "delete", "example.net", "--yes", *place.flags).code == 0
    assert ostinato("provider", "show", "example.net", *place.flags).code == 3


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "contains no provider"),
        (
            "- {domain: a.org, limit: 1, period: 1s}\n- {domain: a.org, limit: none, period: 1s}",
            "provider 2: limit must be",
        ),
        ("providers: {domain: a.org}", "provider 1: limit must be"),
        ("a: [", "is not YAML"),
        ("just text", "must be an object"),
        (
            "domain: a.org\nlimit: 1\nperiod: 1s\nkey: {type: query, name: k, value: hunter2}",
            "key.value must say where",
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_said_and_nothing_is_saved(ostinato, place, tmp_path, text, says):
    file = tmp_path / "wrong.yaml"
    file.write_text(text)
    before = ostinato("provider", "list", *place.flags).out
    answer = ostinato("provider", "apply", str(file), *place.flags)
    assert (answer.code, answer.out) == (2, "")
    assert says in answer.err
    assert "hunter2" not in answer.err
    assert ostinato("provider", "list", *place.flags).out == before


def test_a_file_that_is_not_there(ostinato, place, tmp_path):
    answer = ostinato("provider", "apply", str(tmp_path / "nowhere.yaml"), *place.flags)
    assert (answer.code, "cannot be read" in answer.err) == (2, True)
    assert ostinato("provider", "apply", str(tmp_path), *place.flags).code == 2

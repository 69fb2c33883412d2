"""`ostinato source …`: the plan, the first run, the state, and the permission to delete."""

import json

import pytest

from tests.features.sources.played_runs import a_definition_of

PLACES = ("direct-sqlite", "server-postgres")


@pytest.fixture
def source(ostinato, place, tmp_path):
    """Apply the file of a source that remembers how far it has read, and call a command of `source` for it."""
    definition = a_definition_of("upsert", incremental={"cursor": "k", "startParam": "since"}, schedule="6h")
    file = tmp_path / "played.json"
    file.write_text(json.dumps(definition))
    applied = ostinato("source", "apply", str(file), "--first-run", "next", *place.flags)
    assert applied.code == 0  # the server of several tests may have it already
    return lambda *words: ostinato("source", *words, *place.flags)


def test_the_first_run_of_a_new_source_is_that_of_the_flag(source):
    assert "scheduled" in source("show", "played").out


def test_a_state_is_shown_set_and_reset(source):
    assert "This source has no state yet." in source("state", "get", "played").out
    assert "played asks for records from 17 on." in source("state", "set", "played", "cursor=17").out
    assert "17" in source("state", "get", "played").out
    assert "begins anew with its next run" in source("state", "reset", "played", "--yes").out
    assert "This source has no state yet." in source("state", "get", "played").out


def test_a_run_may_be_allowed_to_delete(source):
    assert "played was asked to run" in source("run", "played", "--allow-deletions").out

"""`ostinato job redeclare`, directly and by a server, on both databases."""

from uuid import uuid4

import pytest

from ostinato import Ostinato
from tests.cli.places import the_json


def fine(n: int = 1) -> int:
    return n


@pytest.fixture
def key(at) -> str:
    """The key of a declared job that a command has deleted."""
    key = f"job-{uuid4().hex[:8]}"
    assert declare(key).created == (key,)
    told = at("job", "delete", key, "--yes")
    assert told.out.endswith(f"until you run: ostinato job redeclare {key}\n")
    assert declare(key).declined == (key,)
    return key


def declare(key: str):
    """Declare a job as a process does that starts to work on the database of the test."""
    app = Ostinato("bank")
    app.schedule(app.task(fine), every="1h", key=key)
    try:
        return app.apply_declarations()
    finally:
        app.close()


def test_a_deleted_job_comes_back_when_it_is_asked_for(at, key):
    told = at("job", "redeclare", key)
    assert (told.code, told.out) == (0, f"{key} is created again when a process of the app bank starts.\n")
    assert declare(key).created == (key,)


def test_without_a_key_the_deleted_ones_are_listed(at, key):
    listed = the_json(at("job", "redeclare", "--json"))["declined"]
    assert [row["app"] for row in listed if row["key"] == key] == ["bank"]
    assert key in at("job", "redeclare").out


def test_what_was_not_deleted_is_told_in_a_sentence(at, key):
    told = at("job", "redeclare", key, "nothing", "--of-app", "bank")
    assert told.code == 3
    assert "nothing: 'nothing' of the app 'bank' is not among the declared jobs that were deleted." in told.err
    assert declare(key).created == (key,)

"""Deleted jobs that the code declares, over HTTP, on both databases."""

from __future__ import annotations

import pytest

from ostinato import Ostinato
from ostinato.core.access import Role
from tests.rest.conftest import Client


@pytest.fixture
def deleted(app: Ostinato, api: Client) -> str:
    """The key of a declared job that was deleted; what the answer said."""
    app.schedule(app.registry.get("fine"), every="1h", key="night/ly")
    app.apply_declarations()
    job = api.get("/jobs")["jobs"][0]
    return str(api.told(200, "DELETE", f"/jobs/{job['id']}")["message"])


def test_the_delete_says_that_it_stays(deleted: str, api: Client):
    assert deleted.endswith("until you run: ostinato job redeclare night/ly")
    made = api.make(task="fine", schedule={"every": "1h"})
    assert api.told(200, "DELETE", f"/jobs/{made['id']}")["message"] == f"Job {made['id']} is deleted."


def test_they_are_listed_and_brought_back(deleted: str, app: Ostinato, api: Client):
    answer = api.get("/declined")
    (row,) = answer["declined"]
    assert (row["app"], row["key"], row["deleted_by"], answer["total"]) == ("shop", "night/ly", "ann", 1)
    told = api.post("/declined/redeclare", {"key": "night/ly"})
    assert told["message"] == "night/ly is created again when a process of the app shop starts."
    assert api.get("/declined") == {"declined": [], "total": 0}
    assert app.apply_declarations().created == ("night/ly",)


@pytest.mark.parametrize("body", [{"key": "other"}, {"key": "night/ly", "app": "bank"}])
def test_another_key_is_not_found(deleted: str, api: Client, body: dict[str, str]):
    assert "is not among the declared jobs that were deleted" in api.refused("POST", "/declined/redeclare", body, 404)


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR])
def test_only_admins_bring_them_back(deleted: str, app: Ostinato, role: Role):
    client = Client(app, role)
    assert client.get("/declined")["total"] == 1
    client.refused("POST", "/declined/redeclare", {"key": "night/ly"}, 403)

"""Providers over HTTP: made, replaced, seen with what is left, deleted; on both databases."""

import pytest

from ostinato.core.outcome import Deferred
from ostinato.features.providers.rows import BudgetSpending, Providers
from tests.build import MINUTE, SECOND

API = "/api/v1/providers"
GIVEN = {"limit": 60, "period": "1m"}
KEY = {"type": "header", "name": "X-Api-Key", "value": "env:SECRET_EXAMPLE_KEY"}


def test_a_provider_is_made_seen_replaced_and_deleted(client):
    made = client.post(API, json=GIVEN | {"domain": "API.Example.org", "key": KEY})
    assert made.status_code == 201, made.text
    answer = made.json()
    assert (answer["domain"], answer["limit"], answer["period"]) == ("api.example.org", 60, "1m")
    assert (answer["left"], answer["waiting"], answer["saved_by"]) == (60, 0, "anonymous")
    assert answer["key"] == KEY
    assert client.get(API).json() == {"providers": [answer]}
    assert client.get(f"{API}/api.example.org").json() == answer
    assert client.post(API, json=GIVEN | {"domain": "api.example.org"}).status_code == 409
    changed = client.put(f"{API}/api.example.org", json={"limit": 5, "period": 1})
    assert (changed.status_code, changed.json()["limit"], changed.json()["period"]) == (200, 5, "1s")
    assert changed.json()["key"] is None
    assert client.put(f"{API}/other.org", json=GIVEN).status_code == 201
    assert client.delete(f"{API}/api.example.org").status_code == 200
    for ask in (client.get, client.delete):
        assert ask(f"{API}/api.example.org").status_code == 404


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "domain"),
        (GIVEN | {"domain": "https://a.org"}, "domain must be the name of a host"),
        (GIVEN | {"domain": "a.org", "limit": 0}, "limit"),
        (GIVEN | {"domain": "a.org", "limit": "60"}, "limit"),
        (GIVEN | {"domain": "a.org", "period": "often"}, "period"),
        (GIVEN | {"domain": "a.org", "period": "1y"}, "period"),
        (GIVEN | {"domain": "a.org", "limits": 1}, "did you mean limit"),
        (GIVEN | {"domain": "a.org", "key": "env:SECRET_KEY"}, "key"),
        (GIVEN | {"domain": "a.org", "key": {"type": "header", "name": "X"}}, "key.value is missing"),
        (
            GIVEN | {"domain": "a.org", "key": KEY | {"value": "s3cret"}},
            "key.value must say where the secret is",
        ),
        (
            GIVEN | {"domain": "a.org", "key": KEY | {"value": "env:OSTINATO_AUTH_SECRET"}},
            "of Ostinato's own",
        ),
    ],
)
def test_what_is_wrong_is_named_and_no_secret_is_repeated(client, body, says):
    answer = client.post(API, json=body)
    assert answer.status_code == 422
    assert says in answer.text
    assert "s3cret" not in answer.text
    assert client.get(API).json() == {"providers": []}


def test_what_is_left_and_who_waits_is_shown_and_why_says_so(new_client):
    client = new_client()
    service, store = client.service, client.service.store
    client.post(API, json=GIVEN | {"domain": "api.example.org"})
    now = service.now()
    taken = store.part(Providers).take("api.example.org", 23, now, 30 * SECOND)
    store.part(Providers).answer([BudgetSpending(taken.id, "api.example.org", 23, now)])
    body = {
        "task": "http",
        "args": {"url": "https://api.example.org/"},
        "key": "fetches",
        "schedule": "manual",
    }
    made = client.post("/api/v1/jobs", json=body)
    assert made.status_code == 201, made.text
    assert client.post("/api/v1/jobs/fetches/run").status_code < 300
    _deferred(store, now + MINUTE)
    answer = client.get(f"{API}/api.example.org").json()
    assert (answer["left"], answer["limit"], answer["waiting"]) == (37, 60, 1)
    why = client.get("/api/v1/jobs/fetches/why").json()
    assert any("It waits for api.example.org's budget until" in each for each in why["sentences"])
    assert [cause["because"] for cause in why["causes"]][-1] == "provider"


def _deferred(store, until) -> None:
    """A worker claims what there is, and finds the budget spent."""
    from ostinato.chance import RandomChance
    from ostinato.core.model import Finished
    from ostinato.store.workers import NewWorker

    now = until - MINUTE
    worker = RandomChance(3).id(now)
    store.workers.join(NewWorker(worker, "", "here", 1, "0", ("http",), (), 5), now, MINUTE)
    claimed = store.queue.claim(worker, ("http",), (), lambda: now + SECOND, 10).claimed
    assert len(claimed) == 1
    store.queue.settle([Finished(each.live, Deferred(until, "api.example.org"), now + SECOND) for each in claimed])

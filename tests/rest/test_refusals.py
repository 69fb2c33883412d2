"""Refused credentials: a counter, and one log line and event per address and minute; on both databases."""

import json
import logging

import pytest
from starlette.datastructures import Headers
from starlette.testclient import TestClient

from ostinato.access.credentials import recogniser
from ostinato.access.refusals import MOST_ADDRESSES, OTHERS, Refusal, RefusalLog, RefusalTable
from ostinato.core.errors import StoreUnavailable
from ostinato.rest.app import create_app
from ostinato.service.access import Refused
from ostinato.telemetry.reports import Counts

SECRET = "0123456789abcdef0123456789abcdef"
WRONG = {"Authorization": "Bearer a.b.c"}
KEY = "ost_aaaaaaaaaa." + "A" * 43


class Watched:
    """The API with auth, behind a log of refusals whose clock a test cranks."""

    def __init__(self, app) -> None:
        self.service, self.counts, self.now = app.scheduler, Counts(), 0.0
        api = create_app(self.service, app.settings, recognise=recogniser(app.settings, self.service))
        self.log = RefusalLog(api, self.service, self.counts, lambda: self.now)

    def client(self, address: str = "198.51.100.7") -> TestClient:
        return TestClient(self.log, base_url="http://127.0.0.1:8060", client=(address, 1))

    def told(self) -> list[tuple[str, int]]:
        return [(each["address"], each["count"]) for each in told(self.service)]


def told(service) -> list[dict]:
    """The events of refusals, the oldest first."""
    return [json.loads(event.data) for event in reversed(service.events(None, ["access.refused"], 500))]


@pytest.fixture
def watched(new_app) -> Watched:
    return Watched(new_app(auth_secret=SECRET))


def test_1300_refusals_are_one_event_a_minute(watched, caplog):
    client = watched.client()
    with caplog.at_level(logging.WARNING, "ostinato.access"):
        for _ in range(1300):
            assert client.get("/api/v1/jobs", headers=WRONG).status_code == 401
        assert watched.told() == [("198.51.100.7", 1)]
        watched.now = 59.9
        client.get("/healthz")
        assert watched.told() == [("198.51.100.7", 1)]
        watched.now = 60.0
        client.get("/healthz")
    assert watched.told() == [("198.51.100.7", 1), ("198.51.100.7", 1299)]
    assert [record.msg.event for record in caplog.records] == ["Credential refused"] * 2
    assert watched.counts.snapshot() == {("access_refused", "token"): 1300}


def test_many_addresses_are_told_apart_up_to_a_hundred(watched):
    for n in range(MOST_ADDRESSES + 50):
        watched.client(f"198.51.100.{n}").get("/api/v1/jobs", headers=WRONG)
    assert len(watched.told()) == MOST_ADDRESSES + 1
    assert watched.told()[-1] == (OTHERS, 1)
    watched.now = 60.0
    watched.client().get("/healthz")
    assert watched.told()[-1] == (OTHERS, 49)


def test_a_missing_credential_and_an_old_session_are_counted_and_no_event(watched):
    client = watched.client()
    assert client.get("/api/v1/jobs").status_code == 401
    assert client.get("/api/v1/jobs", headers={"Cookie": f"ostinato_8060={'A' * 43}"}).status_code == 401
    assert client.get("/api/v1/jobs", headers={"X-API-Key": KEY}).status_code == 401
    counted = {kind: count for (_, kind), count in watched.counts.snapshot().items()}
    assert counted == {"none": 1, "session": 1, "key": 1}
    assert watched.told() == [("198.51.100.7", 1)]


def test_wrong_keys_are_counted_and_lock_out_nobody(watched):
    client, good = watched.client(), watched.service.keys.create("ci", "viewer").text
    answers = [client.get("/api/v1/jobs", headers={"X-API-Key": KEY}) for _ in range(60)]
    assert {answer.status_code for answer in answers} == {401}
    assert watched.counts.snapshot() == {("access_refused", "key"): 60}
    assert client.get("/api/v1/jobs", headers={"X-API-Key": good}).status_code == 200


def test_what_is_told_quotes_nothing_of_the_credential(watched, caplog):
    with caplog.at_level(logging.DEBUG):
        watched.client().get("/api/v1/jobs", headers={"Authorization": "Bearer hidden.hidden.hidden"})
        watched.client().get("/api/v1/jobs", headers={"X-API-Key": KEY})
    assert "hidden" not in caplog.text + json.dumps(told(watched.service))
    assert KEY not in caplog.text


def test_a_database_that_is_away_keeps_the_refusal_in_the_log(watched, caplog, monkeypatch):
    def away(*_):
        raise StoreUnavailable("away")

    monkeypatch.setattr(watched.service.access, "tell_refused", away)
    with caplog.at_level(logging.WARNING, "ostinato.access"):
        assert watched.client().get("/api/v1/jobs", headers=WRONG).status_code == 401
    assert [record.msg.event for record in caplog.records] == ["Credential refused"]


def test_a_refused_log_in_is_told_and_is_in_the_metrics(new_client):
    client = new_client(auth_secret=SECRET)
    page = client.get("/login").text
    form = {"form_token": page.partition('name="form_token" value="')[2][:64], "credential": KEY}
    assert client.post("/login", data=form).status_code == 401
    (event,) = told(client.service)
    assert event == {"address": "testclient", "reason": "The API key is invalid.", "count": 1}
    key = client.service.keys.create("monitor", "viewer").text
    metrics = client.get("/metrics", headers={"X-API-Key": key}).text
    assert 'ostinato_refused_credentials_total{credential="key"} 1.0' in metrics


@pytest.mark.parametrize(
    ("headers", "kind"),
    [
        ({}, "none"),
        ({"cookie": "a=b"}, "session"),
        ({"authorization": "Bearer a.b"}, "key"),
        ({"authorization": "Bearer a.b.c"}, "token"),
        ({"authorization": "Basic abc"}, "token"),
        ({"x-api-key": "a.b"}, "key"),
        ({"x-api-key": ""}, "none"),
        ({"x-api-key": "a.b", "cookie": "a=b"}, "key"),
    ],
)
def test_the_kind_of_a_refused_credential(headers, kind):
    assert Refusal.of(Headers(headers), "no").kind == kind


def test_an_address_that_was_silent_for_a_minute_is_forgotten():
    table = RefusalTable()
    for n in range(MOST_ADDRESSES):
        table.add(str(n), "no")
    assert len(table.take_due(0.0)) == MOST_ADDRESSES
    assert table.take_due(60.0) == []
    assert table.due_at == float("inf")
    table.add("new", "why")
    table.add("new", "another")
    assert table.take_due(61.0) == [Refused("new", "why", 2)]

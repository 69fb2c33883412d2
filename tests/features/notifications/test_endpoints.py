"""Hooks over HTTP: made, seen, tried and deleted; on both databases."""

from uuid import uuid4

import pytest

from ostinato.features.notifications.service import HookService

URL = "https://hooks.example.org/T0/1"
PRIVATE = {"url": "http://127.0.0.1:9/hook", "kinds": ["failure"]}


def a_hook(client, **given) -> dict:
    made = client.post("/api/v1/hooks", json={"url": URL, "kinds": ["failure"]} | given)
    assert made.status_code == 201, made.text
    return made.json()


def test_a_hook_is_made_seen_and_deleted(client):
    made = a_hook(
        client, kinds=["failure", "recovery", "failure"], secret="env:SECRET_HOOK", late_after="5m", description="ops",
        thresholds=[{"measure": "success_rate", "limit": 80, "window": "1h"}],
    )  # fmt: skip
    assert made["kinds"] == ["failure", "recovery"]
    assert made["secret"] == "env:SECRET_HOOK"
    assert (made["late_after"], made["created_by"]) == ("5m", "anonymous")
    assert made["thresholds"] == [{"measure": "success_rate", "limit": 80.0, "window": "1h", "least": 10}]
    assert client.get(f"/api/v1/hooks/{made['id']}").json() == made
    assert client.get("/api/v1/hooks").json() == {"hooks": [made]}
    assert client.delete(f"/api/v1/hooks/{made['id']}").status_code == 200
    assert client.get("/api/v1/hooks").json() == {"hooks": []}
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/deliveries"), ("POST", "/test")):
        assert client.request(method, f"/api/v1/hooks/{made['id']}{path}").status_code == 404


def test_a_hook_of_one_job_names_it(client):
    body = {"source_id": "1", "source_name": "one", "url": "https://example.org", "interval_minutes": 6}
    job = client.post("/api/v1/jobs", json=body).json()["id"]
    assert a_hook(client, job=job)["job_id"] == job
    assert client.post("/api/v1/hooks", json={"url": URL, "kinds": ["skip"], "job": "no such"}).status_code == 404


def test_a_test_can_be_seen_on_its_way(client):
    hook = a_hook(client)
    sent = client.post(f"/api/v1/hooks/{hook['id']}/test")
    assert sent.status_code == 202
    path = f"/api/v1/hooks/{hook['id']}/deliveries"
    (delivery,) = client.get(path).json()["deliveries"]
    assert delivery["id"] == sent.json()["delivery_id"]
    assert (delivery["kind"], delivery["state"], delivery["attempts"]) == ("test", "pending", 0)
    assert delivery["body"]["text"] == "This is a test, requested by anonymous."
    assert client.get(path, params={"state": "pending"}).json()["deliveries"] == [delivery]
    assert client.get(path, params={"state": "given_up"}).json()["deliveries"] == []
    assert client.get(path, params={"before": delivery["id"]}).json()["deliveries"] == []
    assert client.get(f"/api/v1/hooks/{hook['id']}").json()["pending"] == 1


HOUR_OF_LOSSES = {"measure": "losses", "limit": 3, "window": "1h"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"url": "ftp://example.org"},
        {"url": "https://ann:pw@example.org/"},
        {"url": "https://example.org/ /"},
        {"url": ""},
        {"url": "x" * 5000},
        {"url": "https://10.0.0.1/"},
        {"url": "http://localhost/"},
        {"url": "http://169.254.169.254/latest"},
        {"url": 7},
        {"kinds": []},
        {"kinds": ["failures"]},
        {"kinds": "failure"},
        {"secret": "what it is"},
        {"secret": "env:"},
        {"secret": "env:OSTINATO_AUTH_SECRET"},
        {"late_after": "0s"},
        {"late_after": "30d"},
        {"late_after": "soon"},
        {"description": "x" * 501},
        {"description": "a\0b"},
        {"thresholds": [HOUR_OF_LOSSES] * 11},
        {"thresholds": [HOUR_OF_LOSSES | {"measure": "speed"}]},
        {"thresholds": [HOUR_OF_LOSSES | {"limit": 0}]},
        {"thresholds": [HOUR_OF_LOSSES | {"limit": "3"}]},
        {"thresholds": [HOUR_OF_LOSSES | {"window": "1s"}]},
        {"thresholds": [HOUR_OF_LOSSES | {"window": "8d"}]},
        {"thresholds": [HOUR_OF_LOSSES | {"least": 0}]},
        {"thresholds": [{"measure": "success_rate", "limit": 101, "window": "1h"}]},
        {"thresholds": [{"measure": "duration", "limit": 1, "window": "1h"}]},
        {"adress": "https://example.org"},
    ],
)
def test_a_hook_that_makes_no_sense_is_422(client, wrong):
    answer = client.post("/api/v1/hooks", json={"url": URL, "kinds": ["failure"]} | wrong)
    assert answer.status_code == 422
    assert answer.json()["detail"]
    assert client.service.part(HookService).list() == []


def test_private_networks_need_leave(new_client):
    assert new_client().post("/api/v1/hooks", json=PRIVATE).status_code == 422
    assert new_client(allow_private_addresses=True).post("/api/v1/hooks", json=PRIVATE).status_code == 201


def test_there_is_an_end_to_hooks(client):
    for _ in range(100):
        a_hook(client)
    assert client.post("/api/v1/hooks", json={"url": URL, "kinds": ["skip"]}).status_code == 409


def test_what_is_not_an_id_is_422_and_what_is_unknown_404(client):
    assert client.get("/api/v1/hooks/nonsense").status_code == 422
    assert client.get(f"/api/v1/hooks/{uuid4()}").status_code == 404
    hook = a_hook(client)["id"]
    for params in ({"state": "lost"}, {"limit": 0}, {"limit": 251}, {"before": "x"}):
        assert client.get(f"/api/v1/hooks/{hook}/deliveries", params=params).status_code == 422


def test_an_answer_with_a_key_is_not_kept_for_repeats(client):
    """Idempotency-Key keeps answers in the database; a key must not be among them."""
    body, header = {"name": "ci", "role": "viewer"}, {"Idempotency-Key": "once"}
    first, second = (client.post("/api/v1/keys", json=body, headers=header).json()["key"] for _ in range(2))
    assert first != second

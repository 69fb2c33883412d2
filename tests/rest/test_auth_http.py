"""Auth over HTTP: answers 401 and 403, and secrets that are never shown; on both databases."""

import logging
from datetime import timedelta
from uuid import uuid4

import pytest

from ostinato.access.tokens import Tokens
from ostinato.core.access import Role

SECRET = "0123456789abcdef0123456789abcdef"
HOUR = timedelta(hours=1)
OPEN = {"/healthz", "/readyz"}


@pytest.fixture
def client(new_client):
    return new_client(auth_secret=SECRET)


@pytest.fixture
def bearer(client):
    tokens = Tokens.of(client.app.state.settings)

    def of(role: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {tokens.issue(f'{role}-ann', Role(role), client.service.now(), HOUR)}"}

    return of


DOCUMENTED: dict[str, dict[str, object]] = {}  # paths → methods; the same in every app, and half a second to make


def operations(client) -> list[tuple[str, str]]:
    """List every operation, with ids in its path."""
    if not DOCUMENTED:
        DOCUMENTED.update(client.app.openapi()["paths"])
    return [
        (method.upper(), path.format_map(AnyId()))
        for path, methods in DOCUMENTED.items()
        for method in methods
        if path not in OPEN
    ]


class AnyId(dict):
    def __missing__(self, name: str) -> str:
        return str(uuid4())


BEYOND = [
    ("GET", "/docs"), ("GET", "/openapi.json"), ("GET", "/metrics"), ("GET", "/nowhere"),
    ("POST", "/api/v1/nowhere"), ("OPTIONS", "/api/v1/jobs"), ("HEAD", "/api/v1/jobs"), ("TRACE", "/api/v1/jobs"),
    ("GET", "/healthz/"), ("GET", "/healthz/x"), ("GET", "/HEALTHZ"), ("GET", "/%2fhealthz"),
]  # fmt: skip


def test_nothing_but_health_is_answered_without_a_credential(client):
    for method, path in [*operations(client), *BEYOND]:
        answer = client.request(method, path)
        assert answer.status_code == 401, (method, path)
        assert answer.headers["www-authenticate"].startswith("Bearer")
        if method != "HEAD":
            assert answer.json()["detail"].endswith(".")


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer nonsense"},
        {"Authorization": "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIiwicm9sZSI6ImFkbWluIn0."},
        {"Authorization": "Basic YTpi"},
        {"X-API-Key": "ost_aaaaaaaaaa." + "A" * 43},
        {"Authorization": "Bearer " + "a" * 20_000},
    ],
)
def test_a_credential_that_is_not_good_opens_nothing(client, headers):
    for method, path in operations(client):
        answer = client.request(method, path, headers=headers)
        assert answer.status_code == 401, (method, path)


def test_health_asks_nobody(client):
    assert client.get("/healthz").status_code == 200
    assert client.get("/readyz").status_code == 200


def test_who_did_it_is_in_the_events(client, bearer):
    body = {"source_id": "1", "source_name": "one", "url": "https://example.org", "interval_minutes": 6}
    made = client.post("/api/v1/jobs", headers=bearer("admin"), json=body)
    assert made.status_code == 201, made.text
    job = made.json()["id"]
    made = client.service.keys.create("ci", Role.OPERATOR)
    key = made.text
    assert client.post(f"/api/v1/jobs/{job}/pause", headers={"X-API-Key": key}).status_code == 200
    told = {event.kind: event.by for event in client.service.jobs.events(job)}
    assert told == {"job.created": "admin-ann", "job.paused": f"key:ci~{made.row.prefix[4:8]}"}


# -- keys


def test_keys_are_made_listed_and_revoked_by_admins(client, bearer):
    body = {"name": "ci", "role": "viewer", "expires_in": "1h"}
    made = client.post("/api/v1/keys", headers=bearer("admin"), json=body)
    assert made.status_code == 201
    key = made.json()["key"]
    assert client.get("/api/v1/jobs", headers={"X-API-Key": key}).status_code == 200
    assert client.post("/api/v1/keys", headers={"X-API-Key": key}, json=body).status_code == 403
    (listed,) = client.get("/api/v1/keys", headers=bearer("admin")).json()["keys"]
    assert (listed["name"], listed["role"], listed["created_by"]) == ("ci", "viewer", "admin-ann")
    assert key.split(".")[1] not in str(listed)
    assert "hash" not in listed
    revoked = client.delete(f"/api/v1/keys/{listed['id']}", headers=bearer("admin"))
    assert revoked.json()["revoked_by"] == "admin-ann"
    again = client.get("/api/v1/jobs", headers={"X-API-Key": key})
    assert (again.status_code, again.json()["detail"]) == (401, "The API key was revoked.")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": "ci"},
        {"name": "", "role": "viewer"},
        {"name": " ", "role": "viewer"},
        {"name": "a\nb", "role": "viewer"},
        {"name": "x" * 101, "role": "viewer"},
        {"name": 7, "role": "viewer"},
        {"name": "ci", "role": "root"},
        {"name": "ci", "role": "viewer", "expires_in": "0s"},
        {"name": "ci", "role": "viewer", "expires_in": "-1h"},
        {"name": "ci", "role": "viewer", "expires_in": "soon"},
        {"name": "ci", "role": "viewer", "expires_in": 1e300},
        {"name": "ci", "role": "viewer", "expires_in": "9999y"},
        {"name": "ci", "role": "viewer", "expires_in": "2930000d"},
        {"name": "ci", "role": "viewer", "rolle": "admin"},
        [],
    ],
)
def test_a_key_that_makes_no_sense_is_422(client, bearer, body):
    answer = client.post("/api/v1/keys", headers=bearer("admin"), json=body)
    assert answer.status_code == 422
    assert client.service.keys.list() == []


def test_a_key_that_is_not_there_is_404(client, bearer):
    assert client.delete(f"/api/v1/keys/{uuid4()}", headers=bearer("admin")).status_code == 404
    assert client.delete("/api/v1/keys/nonsense", headers=bearer("admin")).status_code == 422


def test_no_secret_is_in_the_log_or_in_an_answer(client, bearer, caplog):
    caplog.set_level(logging.DEBUG)
    credential = bearer("admin")
    key = client.post("/api/v1/keys", headers=credential, json={"name": "ci", "role": "admin"}).json()["key"]
    seen = ""
    for headers in (
        credential,
        {"X-API-Key": key},
        {"Authorization": f"Bearer {key}x"},
        {"X-API-Key": "a.b"},
    ):
        for method, path in (
            ("GET", "/api/v1/keys"),
            ("GET", "/openapi.json"),
            ("POST", "/api/v1/keys"),
            ("GET", "/x"),
        ):
            seen += client.request(method, path, headers=headers).text
    for secret in (SECRET, key.split(".")[1], credential["Authorization"].split(".")[-1]):
        assert secret not in seen
        assert secret not in caplog.text


# -- without auth


def test_without_auth_this_host_may_do_everything_and_others_nothing(new_client):
    client = new_client()
    assert client.get("/api/v1/jobs").status_code == 200
    assert client.get("/api/v1/jobs", headers={"Host": "localhost:8060"}).status_code == 200
    for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
        answer = client.get("/api/v1/jobs", headers=headers)
        assert answer.status_code == 403
        assert "Without auth" in answer.json()["detail"]

"""Request bodies: limits of size, and strict JSON. Never a 5xx."""

import json

import pytest
from starlette.testclient import TestClient

from ostinato import Ostinato
from ostinato.access.requests import LARGEST_BODY as LARGEST
from ostinato.core.errors import Invalid, StoreUnavailable
from ostinato.rest.app import create_app
from ostinato.rest.middleware import plain

JSON = {"Content-Type": "application/json"}
JOBS = "/api/v1/jobs"


@pytest.fixture(scope="module")
def web(tmp_path_factory):
    app = Ostinato("shop", database_url=f"sqlite:///{tmp_path_factory.mktemp('reading')}/ostinato.db")
    app.register("fine", lambda **args: None)
    yield TestClient(create_app(app.scheduler, app.settings), raise_server_exceptions=False)
    app.close()


def nested(depth):
    return b'{"task":"fine","args":' + b'{"a":' * depth + b"1" + b"}" * depth + b"}"


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"{", "is not JSON"),
        (b'{"task": "fine"} trailing', "is not JSON"),
        (b'{"task": "fine", "args": {"a": NaN}}', "NaN"),
        (b'{"task": "fine", "args": {"a": -Infinity}}', "-Infinity"),
        (b'{"task": "fine", "args": {"a": 1e999}}', "inf"),
        (b'{"task": "fine", "args": {"a": ' + b"9" * 5000 + b"}}", "is not JSON"),
        (b'{"task": "fine", "name": "a\\u0000b"}', "NUL"),
        (b'{"task": "fine", "args": {"a\\u0000": 1}}', "NUL"),
        (b'{"task": "fine", "name": "\\ud800"}', "lone surrogate"),
        (b'{"task": "fine", "na\\ud800me": 1}', "lone surrogate"),
        (b'{"task": "fine", "name": "\xff"}', "UTF-8"),
        (b'{"task": "fine", "task": "other"}', "duplicate name"),
        (nested(50), "nested more than 50"),
        (b"[" * 200_000, "nested"),
        (b'"' + b'\\"' * 100_000, "is not JSON"),
        (b"", "body"),
        (b"null", "body"),
        (b"3", "JSON object"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_what_is_not_plain_json_is_422(web, body, sentence):
    answer = web.post(JOBS, content=body, headers=JSON)
    assert answer.status_code == 422, answer.text
    assert sentence in answer.json()["detail"]


def test_the_deepest_that_is_kept(web):
    answer = web.post(JOBS, content=nested(49), headers=JSON)
    assert answer.status_code == 201
    assert answer.json()["args"] == json.loads(nested(49))["args"]


def test_large_numbers_come_back_as_they_were(web):
    answer = web.post(JOBS, content=b'{"task": "fine", "args": {"a": 123456789012345678901234567890}}', headers=JSON)
    assert answer.json()["args"] == {"a": 123456789012345678901234567890}


def test_comments_as_in_the_examples_of_the_seed_are_taken_out():
    body = b'{\n  "url": "https://example.com", // NEW: where\n  // and when\n  "interval_minutes": 30\n}'
    assert json.loads(plain(body)) == {"url": "https://example.com", "interval_minutes": 30}
    with pytest.raises(Invalid):
        plain(b"// nothing else")


def test_other_types_are_415(web):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "x"):
        answer = web.post(JOBS, content=b'{"task": "fine"}', headers={"Content-Type": kind})
        assert answer.status_code == 415
        assert "application/json" in answer.json()["detail"]
    for kind in ("application/json; charset=utf-8", "application/merge-patch+json"):
        assert web.post(JOBS, content=b'{"task": "fine"}', headers={"Content-Type": kind}).status_code == 201
    assert "content-type" not in web.post(JOBS, content=b'{"task": "fine"}').request.headers
    assert web.post(JOBS, content=b'{"task": "fine"}').status_code == 201


def test_a_page_must_say_that_its_body_is_json(web):
    from_a_page = {"Origin": "http://127.0.0.1:8060"}
    assert web.post(JOBS, content=b'{"task": "fine"}', headers=from_a_page).status_code == 415
    assert web.post(JOBS, content=b'{"task": "fine"}', headers=JSON | from_a_page).status_code == 201


def test_too_much_is_413_with_and_without_a_length(web):
    body = b'{"task": "fine", "description": "' + b"x" * LARGEST + b'"}'
    assert web.post(JOBS, content=body, headers=JSON).status_code == 413

    def chunks():
        yield from (body[n : n + 65536] for n in range(0, len(body), 65536))

    answer = web.post(JOBS, content=chunks(), headers=JSON)
    assert "content-length" not in answer.request.headers
    assert answer.status_code == 413
    assert "1,048,576" in answer.json()["detail"]


def test_nearly_too_much_is_read(web):
    filler = b" " * (LARGEST - 100)
    assert web.post(JOBS, content=b'{"task": "fine"' + filler + b"}", headers=JSON).status_code == 201


@pytest.mark.parametrize("path", ["/api/v1/jobs/%00", "/api/v1/jobs?search=%00", "/api/v1/queues/%00/pause"])
def test_addresses_with_nul_are_422(web, path):
    assert web.request("POST" if "queues" in path else "GET", path).status_code == 422


def test_nothing_here_is_404_in_a_sentence(web):
    for method, path, code in [("GET", "/nothing", 404), ("GET", "/api/v1/jobs/", 404), ("PATCH", JOBS, 405)]:
        answer = web.request(method, path)
        assert answer.status_code == code
        assert answer.json()["detail"].endswith(".")


def test_a_failure_inside_tells_nothing_outside(web, monkeypatch, caplog):
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("the password is swordfish")

    monkeypatch.setattr("ostinato.service.jobs.JobService.search", broken)
    answer = web.get(JOBS)
    assert answer.status_code == 500
    assert "swordfish" not in answer.text
    assert "log of the server" in answer.json()["detail"]
    assert "swordfish" in caplog.text


def test_a_database_that_is_away_is_503_and_says_when_to_try_again(web, monkeypatch):
    def away(*_: object, **__: object) -> None:
        raise StoreUnavailable("The database does not answer.")

    monkeypatch.setattr("ostinato.store.search.Search.jobs", away)
    answer = web.get(JOBS)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert answer.json() == {"detail": "The database does not answer."}

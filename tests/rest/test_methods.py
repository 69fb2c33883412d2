"""Every address of the dashboard and the API with every method."""

import pytest
from starlette.testclient import TestClient

from ostinato.wiring import build_api
from tests.rest.conftest import NoEngine

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW")
SECRET = "a secret of at least 32 bytes, for tests"


def site_of(app):
    return build_api(app.parts, app.scheduler, NoEngine())


def client_of(site):
    return TestClient(site, base_url="http://127.0.0.1:8060", follow_redirects=False, raise_server_exceptions=False)


def addresses(site, **known):
    """Every path of the API, and of the dashboard in front of it, with known values for its parts."""
    (pages,) = [each.kwargs["site"] for each in site.user_middleware if "site" in each.kwargs]
    for path in dict.fromkeys(route.path for route in (*pages.routes, *site.routes)):
        yield "/".join(known.get(part.strip("{}"), "x") if "{" in part else part for part in path.split("/"))


@pytest.fixture
def app(new_app):
    app = new_app(allow_commands=True)
    app.register("fine", lambda: {"good": True})
    return app


def test_a_wrong_method_is_405_with_all_methods_of_its_address(app, caplog):
    site = site_of(app)
    client = client_of(site)
    made = client.post("/api/v1/jobs", json={"task": "fine", "schedule": {"every": "1h"}, "key": "fine"})
    assert made.status_code == 201
    asked = refused = 0
    for address in addresses(site, id=made.json()["id"], name="fine", kind="manual", domain="x.org"):
        answers = {method: client.request(method, address) for method in METHODS}
        has = sorted(method for method, answer in answers.items() if answer.status_code != 405)
        assert has, address
        for method, answer in answers.items():
            asked += 1
            assert answer.status_code < 500, (method, address, answer.text)
            assert answer.headers["x-content-type-options"] == "nosniff", (method, address)
            if answer.status_code == 405:
                refused += 1
                assert answer.headers["allow"].split(", ") == has, (method, address)
    assert asked > 100 * len(METHODS)
    assert refused > asked / 2
    assert "Traceback" not in caplog.text


def test_a_stranger_gets_no_500_with_any_method(new_app, caplog):
    site = site_of(new_app(auth_secret=SECRET))
    client = client_of(site)
    for address in addresses(site, id="0199a0a0-0000-7000-8000-000000000000"):
        for method in METHODS:
            answer = client.request(method, address)
            assert answer.status_code < 500, (method, address)
            assert answer.headers["x-content-type-options"] == "nosniff", (method, address)
    assert "Traceback" not in caplog.text


def test_an_answer_of_500_is_not_guessed_at_by_browsers(app, monkeypatch):
    monkeypatch.setattr(app.scheduler.jobs, "search", lambda *_, **__: 1 / 0)
    broken = client_of(site_of(app)).get("/api/v1/jobs")
    assert (broken.status_code, broken.headers["x-content-type-options"]) == (500, "nosniff")

"""`/openapi.json` and `/docs`: honest, and from this server alone."""

import re

import jsonschema_rs
import pytest
from starlette.testclient import TestClient

from ostinato import Ostinato
from ostinato.rest.app import create_app
from tests.docs.pages import ROOT
from tests.rest.schema_hooks import FORMATS

STANDARD = {"date-time", "uuid", "uri", "multiline", "binary", "float"}


@pytest.fixture(scope="module")
def web(tmp_path_factory):
    app = Ostinato("shop", database_url=f"sqlite:///{tmp_path_factory.mktemp('docs')}/ostinato.db")
    yield TestClient(create_app(app.scheduler, app.settings, version="1.2.3"))
    app.close()


def test_the_page_and_all_it_needs_come_from_here(web):
    page = web.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    wanted = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(wanted) == 4
    for address in wanted:
        assert address.startswith("/docs/")
        assert web.get(address).status_code == 200, address
    assert "<script>" not in page.text
    assert "style=" not in page.text


@pytest.mark.parametrize("name", ["../app.py", "index.html", "..%2F..%2F__init__.py", "oauth2-redirect.html"])
def test_no_other_file_is_served(web, name):
    assert web.get(f"/docs/{name}").status_code == 404


def test_the_page_gets_the_document_in_a_version_that_it_can_read(web):
    older = web.get("/docs/openapi.json")
    assert older.json()["openapi"] == "3.0.3"
    assert '"type":"null"' not in older.text
    assert '"const"' not in older.text
    assert older.json()["paths"].keys() == web.get("/openapi.json").json()["paths"].keys()
    assert 'data-document="/docs/openapi.json"' in web.get("/docs").text
    assert "dataset.document" in web.get("/docs/begin.js").text


def test_the_document_says_what_may_be_answered(web):
    document = web.get("/openapi.json").json()
    assert document["info"] == {"title": "Ostinato", "version": "1.2.3"}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert {"401", "403", "422", "503"} <= operation["responses"].keys(), (method, path)
            assert operation["description"], (method, path)
    assert "HTTPValidationError" not in document["components"]["schemas"]


def test_the_document_tells_of_credentials_and_repeats(web):
    document = web.get("/openapi.json").json()
    assert document["components"]["securitySchemes"].keys() == {"token", "key"}
    posts = [each["post"] for each in document["paths"].values() if "post" in each]
    for operation in posts:
        assert "Idempotency-Key" in [each["name"] for each in operation["parameters"]], operation["operationId"]


def test_every_format_of_a_request_is_documented_and_schemathesis_can_make_one(web):
    page = (ROOT / "docs" / "reference" / "rest.md").read_text()
    named = set(re.findall(r'"format":"([a-z-]+)"', web.get("/openapi.json").text)) - STANDARD
    assert named == FORMATS.keys()
    assert [each for each in named if f"`{each}`" not in page] == []


@pytest.mark.parametrize(
    ("body", "good"),
    [
        ({"task": "tick", "schedule": "0 9 * * *", "timezone": "Europe/Paris"}, True),
        ({"task": "tick", "schedule": {"cron": "0 9 * * *"}, "timezone": "Europe/Paris"}, True),
        ({"url": "https://example.org/", "interval_minutes": 5, "schedule_time": "0 9 * * *"}, True),
        ({"task": "tick", "backoff": ["1m", "5m"], "window": {"from": "09:00", "to": "17:00"}}, True),
        ({"task": None, "schedule": "30m"}, False),
        ({"task": "tick", "schedule": "30m", "interval_minutes": 5}, False),
        ({"task": "tick", "schedule": "30m", "timezone": "Europe/Paris"}, False),
        ({"task": "tick", "interval_minutes": 36_526, "interval_type": "days"}, False),
        ({"task": "tick", "interval_type": "days"}, False),
        ({"task": "tick", "fixed_delay": True}, False),
        ({"task": "tick", "concurrency_key": "shop"}, False),
        ({"task": "tick", "when_exhausted": "wait_reset"}, False),
        ({"task": "tick", "backoff": {"kind": "steps"}}, False),
        ({"task": "tick", "backoff": "1m", "retry_backoff_seconds": 5}, False),
    ],
)
def test_the_document_and_the_api_agree_about_fields_that_belong_together(web, body, good):
    document = web.get("/openapi.json").json()
    schema = {"$ref": "#/components/schemas/JobBody", "components": document["components"]}
    assert jsonschema_rs.is_valid(schema, body) is good
    answer = web.post("/api/v1/jobs?allow_unknown=true", json=body)
    assert answer.status_code == (201 if good else 422), answer.text


def test_every_route_is_documented_with_its_role_and_no_other(web):
    page = (ROOT / "docs" / "reference" / "rest.md").read_text()
    documented = set(re.findall(r"^\| `([A-Z]+ /[^`]+)` \| (?:viewer|operator|admin) \|", page, re.M))
    document = web.get("/openapi.json").json()
    served = {
        f"{method.upper()} {path}"
        for path, operations in document["paths"].items()
        for method in operations
        if path.startswith("/api/v1/")
    }
    assert documented == served

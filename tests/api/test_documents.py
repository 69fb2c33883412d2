"""`/openapi.json` and `/docs`: honest, and from this server alone."""

import re

import pytest
from starlette.testclient import TestClient

from ostinato import Ostinato
from ostinato.api.app import create_app
from tests.docs.pages import ROOT


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
    assert '"/docs/openapi.json"' in web.get("/docs/begin.js").text


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
        assert "Idempotency-Key" in [each["name"] for each in operation["parameters"]], operation[
            "operationId"
        ]


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

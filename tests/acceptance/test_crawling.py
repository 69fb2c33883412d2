"""Seed 003's literal `POST /api/v1/jobs` with a `url` crawls that site, and what it found can be searched."""

from __future__ import annotations

import json

import pytest

from ostinato.program import run
from tests.acceptance.server import Server
from tests.features.crawling.site import a_site
from tests.waiting import eventually

pytestmark = pytest.mark.system


def test_a_job_with_a_url_crawls_that_site_and_its_words_are_found(database_url, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")  # wide enough for whole URLs
    server = Server(tmp_path, database_url, OSTINATO_ALLOW_PRIVATE_ADDRESSES="true")
    try:
        with a_site() as site:
            site.robots = ""
            eventually(server.ready)
            body = '{"source_id": "news", "source_name": "example.com", "url": "%s/s/3", "schedule_enabled": false}'
            code, job = server("POST", "/api/v1/jobs", body % site.url)
            assert (code, job["task"]) == (201, "crawl")
            history = f"/api/v1/jobs/{job['id']}/executions"
            eventually(lambda: server("GET", history).body["executions"][0]["status"] == "completed")
            (execution,) = server("GET", history).body["executions"]
            assert (execution["items_crawled"], execution["items_indexed"]) == (1, 1)
            found = server("GET", "/api/v1/pages?q=sitemap+knows").body
            assert (found["total"], found["pages"][0]["url"]) == (1, f"{site.url}/s/3")
            assert "**knows**" in found["pages"][0]["snippet"]
            page = server("GET", f"/api/v1/pages/{found['pages'][0]['id']}").body
            assert (page["text"], page["links"]) == ("Sitemap page 3\nOnly a sitemap knows me", [])
            assert server("GET", "/api/v1/pages/zzz").code == 404
            assert server("GET", "/api/v1/pages?q=none").body["pages"] == []
            assert server("GET", f"/api/v1/pages?job={job['id']}&host=example.org").body["total"] == 0
            assert server("GET", "/api/v1/pages?word=x").code == 422
            code, refused = server("POST", "/api/v1/jobs", {"url": site.url, "args": {"max_page": 3}})
            assert (code, "did you mean max_pages" in refused["detail"]) == (422, True)
        _at_the_terminal(database_url, capsys, page)
        assert server("DELETE", f"/api/v1/jobs/{job['id']}").code == 200
        assert server("GET", "/api/v1/pages").body["total"] == 0
    finally:
        server.kill()


def _at_the_terminal(url: str, capsys, page) -> None:
    def said(*arguments: str) -> str:
        capsys.readouterr()
        assert run([*arguments, "--database", url]) == 0
        return capsys.readouterr().out

    assert page["url"] in said("page", "list")
    assert "Only a sitemap **knows**" in said("page", "search", "knows")
    assert "No pages match these words." in said("page", "search", "nothing")
    assert "No crawl has found a page yet" in said("page", "search", "nothing", "--host", "example.org")
    assert "Only a sitemap knows me" in said("page", "show", page["id"])
    assert json.loads(said("page", "show", page["id"], "--json")) == page

"""Providers in the dashboard: budgets and what is left of them, saved and deleted."""

from __future__ import annotations

from html import unescape

from ostinato.core.access import Role
from ostinato.features.providers.service import ProviderService
from tests.dashboard.conftest import Visitor

PAGE = "/providers"
GOOD = {"domain": "api.example.org", "limit": "10", "period": "1m"}


def test_a_budget_is_made_edited_and_deleted(visitor):
    assert "No providers yet" in visitor.see(PAGE)
    page = visitor.follow(visitor.send(PAGE, on=PAGE, **GOOD))
    assert "10 per 1m" in page
    assert "10 of 10" in page
    form = visitor.see(f"{PAGE}?edit=api.example.org")
    assert 'name="edits" value="api.example.org"' in form
    key = {"key.type": "header", "key.name": "X-Key", "key.value": "env:SECRET_API_KEY"}
    page = visitor.follow(visitor.send(PAGE, on=PAGE, **GOOD | {"limit": "20", "edits": "api.example.org"} | key))
    assert "20 per 1m" in page
    assert "X-Key: env:SECRET_API_KEY" in page
    visitor.send(f"{PAGE}/api.example.org/delete", on=PAGE)
    assert visitor.app.scheduler.part(ProviderService).list() == []


def test_mistakes_are_told_beside_their_field_and_nothing_typed_is_lost(visitor):
    visitor.send(PAGE, on=PAGE, **GOOD)
    for fields, place in (
        ({"domain": "not a domain"}, "domain"),
        ({"limit": "many"}, "limit"),
        ({"period": ""}, "period"),
        ({"period": "100d"}, "period"),
        ({"key.type": "header", "key.value": "secret"}, "key."),
        (GOOD, "domain"),
    ):
        page = unescape(visitor.send(PAGE, 422, on=PAGE, **GOOD | {"domain": "other.example.org"} | fields).text)
        assert f'id="w-{place}' in page, fields
        assert 'value="1m"' in page or "period" in fields
    assert len(visitor.app.scheduler.part(ProviderService).list()) == 1


def test_a_viewer_sees_budgets_and_no_form(stranger: Visitor):
    stranger.log_in(Role.VIEWER)
    assert "New provider" not in stranger.see(PAGE)
    form = {"form_token": stranger.token("/"), **GOOD}
    assert stranger.ask(PAGE, "POST", data=form).status_code == 403

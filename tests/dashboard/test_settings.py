"""The page of settings: values and origins, and API keys whose secret is shown once."""

from __future__ import annotations

import re
from html import unescape

from ostinato.core.access import Role
from ostinato.service.access import KEY
from tests.dashboard.conftest import SECRET, Visitor

PAGE = "/settings"


def test_settings_are_shown_with_where_they_come_from_and_without_secrets(new_app, monkeypatch):
    monkeypatch.setenv("OSTINATO_CONCURRENCY", "7")
    page = Visitor(new_app(auth_secret=SECRET)).log_in(Role.VIEWER).see(PAGE)
    assert re.search(r"<code>concurrency</code>.*?<code>7</code>.*?OSTINATO_CONCURRENCY", page, re.DOTALL)
    assert re.search(r"<code>poll_interval</code>.*?<code>1s</code>.*?argument", page, re.DOTALL)
    assert SECRET not in page


def test_the_check_up_and_the_versions_are_there(visitor):
    page = visitor.see(PAGE)
    assert "Schema" in page
    assert "no worker is running" in page
    assert "Start one: ostinato worker" in page
    assert "fastapi" in page


def test_the_secret_of_a_key_is_shown_once_and_lets_in(stranger):
    stranger.log_in(Role.ADMIN)
    made = stranger.send(f"{PAGE}/keys", 200, on=PAGE, name="build <b>", role="operator", expires_in="30d").text
    secret = KEY.search(made)[0]
    assert "build &lt;b&gt;" in made
    page = stranger.see(PAGE)
    assert secret not in page
    assert secret.partition(".")[0] in page
    other = Visitor(stranger.app)
    other.send("/login", on="/login", credential=secret)
    assert "key:build" in other.see("/")


def test_a_revoked_key_is_told_and_opens_nothing(stranger):
    stranger.log_in(Role.ADMIN)
    key = stranger.app.scheduler.keys.create("old", Role.VIEWER)
    answer = stranger.send(f"{PAGE}/keys/{key.row.id}/revoke", on=PAGE)
    assert "The key of old is revoked." in stranger.follow(answer)
    assert "revoked" in stranger.see(PAGE)
    assert Visitor(stranger.app).send("/login", 401, on="/login", credential=key.text)
    assert stranger.send(f"{PAGE}/keys/nonsense/revoke", 404, on=PAGE)


def test_what_is_wrong_with_a_new_key_is_told_beside_its_field(visitor):
    page = unescape(visitor.send(f"{PAGE}/keys", 422, on=PAGE, name="", role="admin", expires_in="long").text)
    assert re.search(r'id="w-name">\s*It is required', page)
    assert 'id="w-expires_in"' in page
    assert 'value="long"' in page
    assert visitor.app.scheduler.keys.list() == []


def test_only_an_admin_sees_and_makes_keys(stranger):
    stranger.log_in(Role.OPERATOR)
    assert "New key" not in stranger.see(PAGE)
    form = {"form_token": stranger.token("/"), "name": "x", "role": "admin"}
    assert stranger.ask(f"{PAGE}/keys", "POST", data=form).status_code == 403


def test_an_admin_ends_all_access_and_is_out(stranger):
    other = Visitor(stranger.app).log_in(Role.OPERATOR)
    stranger.log_in(Role.ADMIN)
    stranger.send(f"{PAGE}/access/end", on=PAGE)
    assert stranger.ask(PAGE).status_code == 303
    assert other.ask("/").status_code == 303
    assert all(key.revoked_at for key in stranger.app.scheduler.keys.list())
    assert "All access is ended: API keys revoked: 2, sessions ended: 2." in stranger.see("/login")

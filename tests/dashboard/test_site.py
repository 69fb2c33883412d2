"""Rules of every page: the policy of the site, forms, sessions, roles and error pages."""

import re
from datetime import timedelta

import pytest

from ostinato.access.requests import LARGEST_BODY
from ostinato.access.tokens import Tokens
from ostinato.core.access import Role
from ostinato.service.access import LONGEST_SESSION
from tests.dashboard.conftest import SECRET, Visitor

EVERYWHERE = ["/", "/login", "/static/style.css", "/nowhere", "/static/nothing.css"]


@pytest.mark.parametrize("path", EVERYWHERE)
def test_the_browser_is_told_to_refuse_what_is_not_ours(visitor, path):
    headers = visitor.ask(path, headers={"accept": "text/html"}).headers
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'self';")
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"


def test_nothing_in_a_page_is_inline(visitor):
    page = visitor.see("/")
    assert re.search(r"<style|style=|<script(?! src=)|\son[a-z]+=|javascript:", page) is None


def test_files_of_ours_may_be_kept_under_the_address_of_their_content(visitor):
    found = re.search(r'href="(/static/style\.css\?v=[0-9a-f]+)"', visitor.see("/"))
    assert "immutable" in visitor.ask(found[1]).headers["cache-control"]
    assert visitor.ask("/static/style.css").headers["cache-control"] == "no-cache"


def test_pages_are_kept_by_nobody(visitor):
    assert visitor.ask("/").headers["cache-control"] == "no-store"


def test_the_api_stays_where_it_was(visitor):
    assert visitor.ask("/api/v1/jobs").json()["total"] == 0
    assert visitor.ask("/healthz").status_code == 200
    assert visitor.ask("/docs").status_code == 200


def test_browsers_that_got_lost_see_a_page_and_programs_get_json(visitor):
    assert "There is no page at this address." in visitor.see("/nowhere", 404)
    assert visitor.ask("/nowhere", headers={"accept": "application/json"}).json()["detail"]
    assert visitor.ask("/api/v1/nowhere").json()["detail"]


# -- without auth: this host only


def test_without_auth_only_this_host_is_answered(app):
    page = Visitor(app, "http://evil.example").see("/", 403)
    assert "only requests to 127.0.0.1" in page


def test_without_auth_there_is_nobody_to_log_out(visitor):
    assert "Log out" not in visitor.see("/")
    assert visitor.ask("/login").headers["location"] == "/"


# -- sessions


def test_whoever_is_not_known_is_asked_and_comes_back_to_what_they_wanted(stranger):
    answer = stranger.ask("/?x=1")
    assert answer.status_code == 303
    asked = answer.headers["location"]
    assert asked == "/login?next=%2F%3Fx%3D1"
    key = stranger.app.scheduler.keys.create("ann", Role.VIEWER).text
    sent = stranger.send("/login", on=asked, credential=key, next="/?x=1")
    assert sent.headers["location"] == "/?x=1"
    assert "key:ann" in stranger.see("/")


@pytest.mark.parametrize("onward", ["//evil.example", "https://evil.example", "/\\evil.example", "evil", ""])
def test_nobody_is_led_away_by_logging_in(stranger, onward):
    key = stranger.app.scheduler.keys.create("ann", Role.VIEWER).text
    assert stranger.send("/login", on="/login", credential=key, next=onward).headers["location"] == "/"


def test_a_wrong_credential_is_told_beside_its_field_and_opens_nothing(stranger):
    page = stranger.send("/login", 401, on="/login", credential="ost_aaaaaaaaaa.wrong").text
    assert "The API key is invalid." in page
    assert 'aria-describedby="trouble-credential"' in page
    assert "ost_aaaaaaaaaa" not in page
    assert stranger.ask("/").status_code == 303


def test_the_cookie_of_a_session_is_for_the_browser_alone(stranger):
    key = stranger.app.scheduler.keys.create("ann", Role.VIEWER).text
    cookie = stranger.send("/login", on="/login", credential=key).headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "Secure" not in cookie
    assert key not in cookie


def test_behind_https_the_cookie_is_for_https_alone(new_app):
    cookie = Visitor(new_app(auth_secret=SECRET)).ask("/login", headers={"x-forwarded-proto": "https"})
    assert "Secure" in cookie.headers["set-cookie"]
    plain = Visitor(new_app(auth_secret=SECRET), "https://ostinato.example").ask("/login")
    assert "Secure" in plain.headers["set-cookie"]


def test_logging_in_gives_a_new_cookie(stranger):
    stranger.see("/login")
    before = dict(stranger.client.cookies)
    stranger.log_in(Role.VIEWER)
    assert dict(stranger.client.cookies) != before
    stranger.client.cookies.clear()
    stranger.client.cookies.update(before)
    assert stranger.ask("/").status_code == 303


def test_logging_out_ends_the_session_wherever_its_cookie_is(stranger):
    stranger.log_in(Role.VIEWER)
    kept = dict(stranger.client.cookies)
    stranger.send("/logout", on="/")
    stranger.client.cookies.update(kept)
    assert stranger.ask("/").status_code == 303


def test_a_session_ends_when_its_key_is_revoked(stranger):
    key = stranger.app.scheduler.keys.create("ann", Role.ADMIN)
    stranger.send("/login", on="/login", credential=key.text)
    assert stranger.ask("/").status_code == 200
    stranger.app.scheduler.keys.revoke(key.row.id)
    assert stranger.ask("/").status_code == 303


def test_a_session_lasts_half_a_day_and_no_longer_than_its_credential(stranger, monkeypatch):
    service, settings = stranger.app.scheduler, stranger.app.settings
    now, clock = service.now(), service.sessions._clock
    token = Tokens.of(settings).issue("ann", Role.VIEWER, now, timedelta(hours=1))
    for credential, lasts in (
        (token, timedelta(hours=1)),
        (service.keys.create("a", Role.VIEWER, timedelta(hours=2)).text, timedelta(hours=2)),
        (service.keys.create("b", Role.VIEWER).text, LONGEST_SESSION),
    ):
        cookie = stranger.send("/login", on="/login", credential=credential)
        session = cookie.headers["set-cookie"].split("=")[1].split(";")[0]
        minute = timedelta(minutes=1)
        monkeypatch.setattr(type(clock), "now", lambda _, at=now + lasts - minute: at)
        signer = Tokens.of(settings).signer
        assert service.sessions.recognise(session, signer).caller.role is Role.VIEWER
        monkeypatch.setattr(type(clock), "now", lambda _, at=now + lasts + minute: at)
        assert stranger.ask("/").status_code == 303
        monkeypatch.undo()
        stranger.client.cookies.clear()


def test_what_a_page_reads_by_itself_is_let_in_by_its_session_and_may_only_read(stranger):
    assert stranger.ask("/api/v1/jobs").status_code == 401
    stranger.log_in(Role.ADMIN)
    assert stranger.ask("/api/v1/jobs").status_code == 200
    assert stranger.ask("/api/v1/keys", "POST", json={"name": "x", "role": "admin"}).status_code == 401


# -- forms


def test_a_form_without_the_token_of_its_visitor_is_refused(stranger):
    key = stranger.app.scheduler.keys.create("ann", Role.VIEWER).text
    foreign = Visitor(stranger.app).token()
    stranger.see("/login")
    for form in ({}, {"form_token": ""}, {"form_token": "é"}, {"form_token": foreign}):
        answer = stranger.ask("/login", "POST", data={"credential": key, **form})
        assert answer.status_code == 403
    assert stranger.ask("/").status_code == 303


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "http://evil.example"},
        {"origin": "http://127.0.0.1:3000"},
        {"origin": "null"},
    ],
)
def test_a_form_from_elsewhere_is_refused_though_it_had_the_token(stranger, headers):
    form = {"form_token": stranger.token(), "credential": "x"}
    answer = stranger.ask("/login", "POST", data=form, headers=headers)
    assert answer.status_code == 403
    assert "another site" in answer.text


def test_a_form_of_ours_may_say_where_it_is_from(stranger):
    key = stranger.app.scheduler.keys.create("ann", Role.VIEWER).text
    form = {"form_token": stranger.token(), "credential": key}
    headers = {"origin": "http://127.0.0.1:8060", "sec-fetch-site": "same-origin"}
    assert stranger.ask("/login", "POST", data=form, headers=headers).status_code == 303


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"a=1" + b"0" * 2_000_000, "application/x-www-form-urlencoded"),
        (b"&".join(b"a=1" for _ in range(3000)), "application/x-www-form-urlencoded"),
        (b"a=\xff", "application/x-www-form-urlencoded"),
        (b"a=%ff", "application/x-www-form-urlencoded"),
        (b"{}", "application/json"),
        (b"--x", "multipart/form-data; boundary=x"),
    ],
)
def test_what_is_no_form_is_refused(visitor, body, kind):
    answer = visitor.ask("/login", "POST", content=body, headers={"content-type": kind})
    assert answer.status_code == (413 if len(body) > LARGEST_BODY else 422)
    assert "Internal error" not in answer.text


@pytest.mark.parametrize("cookie", ["", "ostinato_8060=short", "ostinato_8060=" + "a" * 43, "=;;==", "\x00"])
def test_a_cookie_that_is_not_ours_is_nobodys(stranger, cookie):
    assert stranger.ask("/", headers={"cookie": cookie}).status_code == 303

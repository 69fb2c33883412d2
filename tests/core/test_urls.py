"""Where redirects lead, and what goes along."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.core.addresses import Hop, follow, host_of, with_params

START = "https://api.example.org/v1/items?page=1"
SECRETS = {"Authorization": "Bearer s3cret", "Cookie": "a=b", "X-Token": "s3cret", "Accept": "text/csv"}


def hop(url: str = START, method: str = "GET", body: bytes = b"", headers=SECRETS) -> Hop:
    return Hop(method, url, headers, body, trusted=True)


@pytest.mark.parametrize(
    ("location", "url", "trusted"),
    [
        ("/v2/items", "https://api.example.org/v2/items", True),
        ("items?page=2", "https://api.example.org/v1/items?page=2", True),
        ("https://api.example.org:443/x", "https://api.example.org:443/x", True),
        ("https://API.example.org/x", "https://API.example.org/x", True),
        ("//evil.example.net/x", "https://evil.example.net/x", False),
        ("https://evil.example.net/x", "https://evil.example.net/x", False),
        ("https://sub.api.example.org/", "https://sub.api.example.org/", False),
        ("https://api.example.org:8443/", "https://api.example.org:8443/", False),
        ("http://api.example.org/", "http://api.example.org/", False),
        ("https://api.example.org/ä b#there", "https://api.example.org/%C3%A4%20b", True),
        ("http://127.0.0.1/", "http://127.0.0.1/", False),
    ],
)
def test_a_redirect_leads_somewhere_and_secrets_stay_with_their_origin(location, url, trusted):
    further = follow(hop(), 302, location)
    assert (further.url, further.trusted) == (url, trusted)
    assert dict(further.headers) == (SECRETS if trusted else {"Accept": "text/csv"})


def test_http_to_https_of_the_same_host_is_no_change_of_origin():
    assert follow(hop("http://api.example.org/"), 301, "https://api.example.org/").trusted
    assert not follow(hop("http://api.example.org:8080/"), 301, "https://api.example.org/").trusted


def test_who_was_left_is_not_trusted_again():
    away = follow(hop(), 302, "https://evil.example.net/")
    assert not follow(away, 302, START).trusted


@pytest.mark.parametrize(
    ("method", "status", "then"),
    [
        ("GET", 301, ("GET", b"")),
        ("HEAD", 303, ("HEAD", b"")),
        ("POST", 301, ("GET", b"")),
        ("POST", 302, ("GET", b"")),
        ("PUT", 302, ("PUT", b"{}")),
        ("PUT", 303, ("GET", b"")),
        ("POST", 307, ("POST", b"{}")),
        ("PUT", 308, ("PUT", b"{}")),
    ],
)
def test_what_is_sent_to_the_next_place_depends_on_the_status(method, status, then):
    body = b"{}" if method in ("POST", "PUT") else b""
    further = follow(hop(method=method, body=body, headers={"Content-Type": "application/json"}), status, "/x")
    assert (further.method, further.body) == then
    assert ("Content-Type" in further.headers) == (not body or bool(further.body))


@pytest.mark.parametrize(("status", "location"), [(302, None), (302, ""), (200, "/x"), (304, "/x"), (300, "/x")])
def test_other_answers_lead_nowhere(status, location):
    assert follow(hop(), status, location) is None


def test_parameters_stand_behind_what_is_there_in_their_order_and_encoded():
    assert with_params("https://a.org/x", []) == "https://a.org/x"
    assert with_params("https://a.org/x?k=v", [("b", "1 &ä"), ("a", "/")]) == (
        "https://a.org/x?k=v&b=1%20%26%C3%A4&a=%2F"
    )


def test_a_host_is_compared_in_small_letters_without_its_last_dot():
    assert host_of("https://API.Example.org.:8443/x") == "api.example.org"


@given(st.text(max_size=60))
def test_no_location_breaks_the_rule(location):
    try:
        further = follow(hop(), 302, location)
    except ValueError:
        return  # said to be no URL; the caller says so
    assert further is None or further.trusted or "Authorization" not in further.headers

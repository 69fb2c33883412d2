"""Budgets of providers: their domains, their text, and their next permit."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.core.auth import Bearer, InHeader, InQuery
from ostinato.core.errors import Invalid
from ostinato.features.providers.rules import (
    MARGIN,
    Passage,
    Provider,
    batch_of,
    counts_until,
    opening,
    parse_provider,
    provider_of,
)
from tests.build import HOUR, MINUTE, NOW, SECOND

GOOD = {"domain": "api.example.org", "limit": 60, "period": "1m"}


@pytest.mark.parametrize(
    ("given", "provider"),
    [
        (GOOD, Provider("api.example.org", 60, MINUTE)),
        (GOOD | {"domain": "API.Example.org."}, Provider("api.example.org", 60, MINUTE)),
        (GOOD | {"domain": "127.0.0.1", "period": 1}, Provider("127.0.0.1", 60, SECOND)),
        (GOOD | {"domain": "::1"}, Provider("::1", 60, MINUTE)),
        (
            GOOD | {"key": {"type": "header", "name": "X-Api-Key", "value": "env:SECRET_KEY"}},
            Provider("api.example.org", 60, MINUTE, InHeader("X-Api-Key", "env:SECRET_KEY")),
        ),
        (
            GOOD | {"key": {"type": "query", "name": "key", "value": "file:/run/key"}},
            Provider("api.example.org", 60, MINUTE, InQuery("key", "file:/run/key")),
        ),
        (
            GOOD | {"key": {"type": "bearer", "token": "env:SECRET_KEY"}},
            Provider("api.example.org", 60, MINUTE, Bearer("env:SECRET_KEY")),
        ),
    ],
)
def test_a_provider_is_read(given, provider):
    assert parse_provider(given) == provider


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("api.example.org", "must be an object with domain, limit and period"),
        (GOOD | {"limits": 7}, "no field 'limits'"),
        (GOOD | {"domain": "https://api.example.org"}, "domain must be the name of a host"),
        (GOOD | {"domain": "api.example.org:8080"}, "domain must be the name of a host"),
        (GOOD | {"domain": "a b"}, "domain must be the name of a host"),
        (GOOD | {"domain": None}, "domain must be the name of a host"),
        (GOOD | {"limit": 0}, "limit must be a whole number from 1 to 100000"),
        (GOOD | {"limit": "60"}, "limit must be a whole number"),
        (GOOD | {"limit": True}, "limit must be a whole number"),
        (GOOD | {"period": "often"}, "period: "),
        (GOOD | {"period": "0s"}, r"period"),
        (GOOD | {"period": "32d"}, r"period must be from 0\.1 s to 31 days"),
        ({"domain": "a.org", "limit": 1}, "period must be a duration"),
        (GOOD | {"key": "env:SECRET_KEY"}, "key must be an object with a type"),
        (
            GOOD | {"key": {"type": "header", "name": "X", "value": "s3cret"}},
            r"key\.value must say where the secret is",
        ),
        (
            GOOD | {"key": {"type": "basic", "username": "a", "password": "env:SECRET_P"}},
            r"key\.type must be header, query or bearer",
        ),
    ],
)
def test_what_is_wrong_is_named(given, says):
    with pytest.raises(Invalid, match=says):
        parse_provider(given)


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("example.org", "example.org"),
        ("www.example.org", "example.org"),
        ("api.example.org", "api.example.org"),
        ("eu.api.example.org", "api.example.org"),
        ("notexample.org", None),
        ("org", None),
        ("10.0.0.1", None),
        ("127.0.0.1", "127.0.0.1"),
        ("::1", None),
    ],
)
def test_a_domain_speaks_for_all_below_it_and_the_nearest_counts(host, domain):
    known = {name: Provider(name, 1, SECOND) for name in ("example.org", "api.example.org", "127.0.0.1", "0.0.1")}
    found = provider_of(host, known)
    assert (found.domain if found else None) == domain


def test_small_budgets_are_taken_one_by_one():
    assert [batch_of(limit) for limit in (1, 10, 60, 100, 500, 5_000, 100_000)] == [1, 1, 1, 2, 10, 20, 20]


def passage(count: int, until: float, answered: bool = True, taken: float = -1) -> Passage:
    return Passage(count, NOW + taken * SECOND, NOW + until * SECOND, answered)


@pytest.mark.parametrize(
    ("passages", "opens"),
    [
        ([passage(10, 3)], 3 * SECOND),
        ([passage(5, 7), passage(5, 3)], 3 * SECOND),
        ([passage(8, 3), passage(4, 7), passage(2, 9)], 3 * SECOND),
        ([passage(2, 3), passage(4, 7), passage(8, 9)], 7 * SECOND),  # the limit was lowered meanwhile
        ([passage(10, 40, answered=False, taken=-0.5)], 0.5 * SECOND + MARGIN),  # soon, probably
        ([passage(10, 40, answered=False, taken=-20)], 0.05 * SECOND),  # any moment
        ([passage(5, 40, answered=False, taken=-0.5), passage(5, 0.2)], 0.2 * SECOND),
    ],
)
def test_a_window_opens_when_enough_has_grown_old(passages, opens):
    assert opening(10, SECOND, passages, NOW) == NOW + opens


@given(
    st.lists(st.tuples(st.integers(1, 5), st.floats(-100, 0), st.floats(0.001, 3600), st.booleans())),
    st.integers(1, 20),
)
def test_a_window_never_opens_in_the_past_nor_later_than_all_is_over(found, limit):
    passages = [passage(count, until, answered, taken) for count, taken, until, answered in found]
    opens = opening(limit, MINUTE, passages, NOW)
    assert NOW < opens <= NOW + HOUR + SECOND


def test_an_answered_request_counts_for_one_period_more():
    assert counts_until(NOW, MINUTE) - NOW - MINUTE == MARGIN < timedelta(seconds=0.1)

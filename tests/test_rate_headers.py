"""The wait that answers ask for, in all spellings, within bounds."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.outgoing.reply import RateHeaders, asked_of
from tests.build import HOUR, MINUTE, NOW, SECOND

EPOCH = int(NOW.timestamp())


def http_date(seconds: int) -> str:
    return (NOW + timedelta(seconds=seconds)).strftime("%a, %d %b %Y %H:%M:%S GMT")


@pytest.mark.parametrize(
    ("status", "headers", "asked"),
    [
        (429, {}, RateHeaders()),
        (429, {"retry-after": "120"}, RateHeaders(2 * MINUTE)),
        (503, {"retry-after": "1.5"}, RateHeaders(1.5 * SECOND)),
        (503, {"retry-after": http_date(90)}, RateHeaders(90 * SECOND)),
        (503, {"retry-after": http_date(-90)}, RateHeaders(0 * SECOND)),
        (
            503,
            {"retry-after": http_date(90), "date": http_date(60)},
            RateHeaders(30 * SECOND),
        ),  # the server's clock is ahead
        (429, {"retry-after": "999999999999"}, RateHeaders(HOUR)),
        (429, {"retry-after": "soon"}, RateHeaders()),
        (429, {"retry-after": "-5"}, RateHeaders()),
        (200, {"retry-after": "120"}, RateHeaders()),  # the status is no refusal
        (200, {"ratelimit-remaining": "5", "ratelimit-reset": "30"}, RateHeaders(None, 5)),
        (200, {"ratelimit-remaining": "0", "ratelimit-reset": "30"}, RateHeaders(30 * SECOND, 0)),
        (429, {"ratelimit-remaining": "5", "ratelimit-reset": "30"}, RateHeaders(30 * SECOND, 5)),
        (429, {"retry-after": "10", "ratelimit-reset": "30"}, RateHeaders(10 * SECOND)),
        (200, {"ratelimit": "limit=100, remaining=0, reset=5"}, RateHeaders(5 * SECOND, 0)),
        (200, {"ratelimit": '"default";r=0;t=5'}, RateHeaders(5 * SECOND, 0)),
        (200, {"ratelimit": '"default";r=50;t=30'}, RateHeaders(None, 50)),
        (429, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(EPOCH + 60)}, RateHeaders(MINUTE, 0)),
        (
            403,
            {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(EPOCH * 1000 + 60_000)},
            RateHeaders(MINUTE, 0),
        ),
        (
            429,
            {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(EPOCH - 60)},
            RateHeaders(0 * SECOND, 0),
        ),
        (429, {"x-rate-limit-remaining": "0", "x-rate-limit-reset": "7"}, RateHeaders(7 * SECOND, 0)),
        (429, {"x-ratelimit-remaining": "many", "x-ratelimit-reset": "later"}, RateHeaders()),
    ],
)
def test_what_an_answer_asks_for(status, headers, asked):
    assert asked_of(status, headers, NOW) == asked


NAMES = ["date", "retry-after", "ratelimit", "ratelimit-reset", "x-ratelimit-remaining", "x-ratelimit-reset"]


@given(
    st.integers(100, 599),
    st.dictionaries(st.sampled_from(NAMES), st.text(max_size=30) | st.integers().map(str)),
)
def test_whatever_is_written_nobody_waits_longer_than_the_bound(status, headers):
    asked = asked_of(status, headers, NOW)
    assert asked.wait is None or timedelta(0) <= asked.wait <= HOUR

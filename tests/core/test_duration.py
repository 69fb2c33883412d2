"""Durations: what people write, what is refused, and back again."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.core.errors import Invalid
from ostinato.core.times import CALENDAR, format_duration, parse_duration


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("30s", timedelta(seconds=30)),
        ("5m", timedelta(minutes=5)),
        ("6h", timedelta(hours=6)),
        ("1d", timedelta(hours=24)),
        ("2w", timedelta(days=14)),
        ("1h30m", timedelta(minutes=90)),
        ("500ms", timedelta(milliseconds=500)),
        ("7us", timedelta(microseconds=7)),
        ("1.5h", timedelta(minutes=90)),
        (" 1H 30M ", timedelta(minutes=90)),
        ("1 hour 30 minutes", timedelta(minutes=90)),
        ("0s", timedelta()),
        ("20", timedelta(seconds=20)),
        ("0.25", timedelta(milliseconds=250)),
        (20, timedelta(seconds=20)),
        (0.25, timedelta(milliseconds=250)),
        (timedelta(hours=6), timedelta(hours=6)),
    ],
)
def test_what_people_write_is_read(written, meant):
    assert parse_duration(written) == meant


@pytest.mark.parametrize(
    "written",
    [
        "",
        " ",
        "abc",
        "5x",
        "m5",
        "1h-30m",
        "-5m",
        "1h30",
        "1e3s",
        "٣s",
        "inf",
        "nan",
        "1..5h",
        "5 m 3",
        True,
        None,
        float("nan"),
    ],
)
def test_what_is_no_duration_is_refused_with_an_example(written):
    with pytest.raises(Invalid, match="is not a duration; write it like 30s, 5m, 6h"):
        parse_duration(written)


@pytest.mark.parametrize("written", [-1, -0.5, timedelta(seconds=-1)])
def test_a_negative_duration_is_refused(written):
    with pytest.raises(Invalid, match="cannot be negative"):
        parse_duration(written)


@pytest.mark.parametrize(
    "written",
    ["999999999d", "9" * 18 + "w", "600000w", 10**400, 1e300, float("inf"), timedelta.max],
)
def test_a_duration_beyond_the_calendar_is_refused(written):
    with pytest.raises(Invalid, match="goes beyond the calendar") as refusal:
        parse_duration(written)
    assert len(str(refusal.value)) < 200


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (timedelta(hours=6), "6h"),
        (timedelta(minutes=90), "1h30m"),
        (timedelta(days=7), "1w"),
        (timedelta(days=10), "10d"),
        (timedelta(hours=25), "1d1h"),
        (timedelta(seconds=1, microseconds=500_001), "1s500ms1us"),
        (timedelta(), "0s"),
    ],
)
def test_a_duration_is_written_in_short(value, text):
    assert format_duration(value) == text


@given(st.timedeltas(timedelta(), CALENDAR))
def test_what_is_written_is_read_back_exactly(value):
    assert parse_duration(format_duration(value)) == value


@given(st.text(alphabet="0123456789.smhdwu -", max_size=12) | st.text(max_size=12))
def test_any_text_is_a_duration_or_is_refused(text):
    try:
        value = parse_duration(text)
    except Invalid:
        return
    assert timedelta() <= value <= CALENDAR

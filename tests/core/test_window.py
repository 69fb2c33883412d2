"""Windows: open by the clock on the wall, whatever the clock does."""

from datetime import datetime, time, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.core.errors import Invalid
from ostinato.core.times import EVERY_DAY, Window, zone
from tests.core.cron_oracle import utc

MICROSECOND, MINUTE = timedelta(microseconds=1), timedelta(minutes=1)

OFFICE = Window(days=frozenset(range(5)), start=time(9), end=time(17), timezone="Europe/Paris")
NIGHT = Window(days=frozenset({4}), start=time(22), end=time(6), timezone="UTC")  # of Friday
NEW_YORK_NIGHT = Window(start=time(0, 30), end=time(1, 30), timezone="America/New_York")


def test_the_start_is_inside_and_the_end_is_not():
    assert OFFICE.contains(utc("2026-11-16T08:00Z"))
    assert not OFFICE.contains(utc("2026-11-16T08:00Z") - MICROSECOND)
    assert OFFICE.contains(utc("2026-11-16T16:00Z") - MICROSECOND)
    assert not OFFICE.contains(utc("2026-11-16T16:00Z"))
    assert not OFFICE.contains(utc("2026-11-15T10:00Z"))  # a Sunday


def test_the_hours_after_midnight_belong_to_the_day_it_opened():
    assert not NIGHT.contains(utc("2026-11-20T03:00Z"))  # early on Friday: Thursday's night
    assert NIGHT.contains(utc("2026-11-20T22:00Z"))
    assert NIGHT.contains(utc("2026-11-21T05:59Z"))
    assert not NIGHT.contains(utc("2026-11-21T06:00Z"))
    assert not NIGHT.contains(utc("2026-11-21T22:00Z"))


def test_an_end_equal_to_the_start_is_a_whole_day():
    sunday = Window(days=frozenset({6}), start=time(0), end=time(0))
    assert sunday.next_opening(utc("2026-11-16T00:00Z")) == utc("2026-11-22T00:00Z")
    assert sunday.last_inside(utc("2026-11-24T00:00Z")) == utc("2026-11-23T00:00Z") - MICROSECOND


@pytest.mark.parametrize(
    ("window", "at", "opening"),
    [
        (OFFICE, "2026-11-16T07:00Z", "2026-11-16T08:00Z"),
        (OFFICE, "2026-11-16T10:30Z", "2026-11-16T10:30Z"),
        (OFFICE, "2026-11-20T16:00Z", "2026-11-23T08:00Z"),
        (OFFICE, "2026-03-27T17:00Z", "2026-03-30T07:00Z"),  # over a weekend on which clocks change
        (NIGHT, "2026-11-21T06:00Z", "2026-11-27T22:00Z"),
        # the hour from one to two comes twice: open until half past one, and again from one to half past
        (NEW_YORK_NIGHT, "2026-11-01T05:30Z", "2026-11-01T06:00Z"),
        (NEW_YORK_NIGHT, "2026-11-01T06:30Z", "2026-11-02T05:30Z"),
        # it would open inside the gap from two to three: it opens when that is over
        (
            Window(start=time(2, 30), end=time(4), timezone="America/New_York"),
            "2026-03-08T06:00Z",
            "2026-03-08T07:00Z",
        ),
        # it lies inside the gap: not on that day
        (
            Window(days=frozenset({6}), start=time(2), end=time(3), timezone="America/New_York"),
            "2026-03-08T00:00Z",
            "2026-03-15T06:00Z",
        ),
        # the Friday that Samoa did not have
        (
            Window(days=frozenset({4}), start=time(9), end=time(17), timezone="Pacific/Apia"),
            "2011-12-29T20:00Z",
            "2012-01-05T19:00Z",
        ),
    ],
)
def test_the_next_opening(window, at, opening):
    assert window.next_opening(utc(at)) == utc(opening)


@pytest.mark.parametrize(
    ("window", "at", "closing"),
    [
        (OFFICE, "2026-11-16T07:00Z", "2026-11-13T16:00Z"),
        (OFFICE, "2026-11-16T16:00Z", "2026-11-16T16:00Z"),
        (OFFICE, "2026-03-30T06:59Z", "2026-03-27T16:00Z"),
        (NIGHT, "2026-11-27T20:00Z", "2026-11-21T06:00Z"),
        (NEW_YORK_NIGHT, "2026-11-01T05:45Z", "2026-11-01T05:30Z"),
        (NEW_YORK_NIGHT, "2026-11-01T12:00Z", "2026-11-01T06:30Z"),
        # it would close inside the gap: it closes where that begins
        (
            Window(start=time(1), end=time(2, 30), timezone="America/New_York"),
            "2026-03-08T12:00Z",
            "2026-03-08T07:00Z",
        ),
    ],
)
def test_the_last_instant_inside(window, at, closing):
    assert window.last_inside(utc(at)) == utc(closing) - MICROSECOND


def test_inside_it_the_last_instant_inside_is_now():
    assert OFFICE.last_inside(utc("2026-11-16T10:30Z")) == utc("2026-11-16T10:30Z")


clocks = st.builds(time, st.integers(0, 23), st.sampled_from([0, 1, 15, 30, 59]))
windows = st.builds(
    Window,
    days=st.frozensets(st.integers(0, 6), min_size=1),
    start=clocks,
    end=clocks,
    timezone=st.sampled_from(
        [
            "UTC",
            "America/New_York",
            "Australia/Lord_Howe",
            "America/St_Johns",
            "Pacific/Apia",
            "America/Sao_Paulo",
        ]
    ),
)
CHANGES = [
    "2026-03-08",
    "2026-11-01",
    "2026-04-04",
    "2026-10-03",
    "2010-11-07",
    "2011-12-30",
    "2018-11-04",
    "2018-02-18",
]
instants = st.builds(
    lambda day, minutes: utc(f"{day}T00:00Z") + minutes * MINUTE,
    st.sampled_from(CHANGES),
    st.integers(-3 * 24 * 60, 3 * 24 * 60),
)


def is_open(window, at):
    """The definition once more, by the day on which the window opened."""
    wall = at.astimezone(zone(window.timezone)).replace(tzinfo=None)
    for opened in (wall.date(), wall.date() - timedelta(days=1)):
        start = datetime.combine(opened, window.start)
        end = datetime.combine(opened + timedelta(days=window.end <= window.start), window.end)
        if opened.weekday() in window.days and start <= wall < end:
            return True
    return False


@settings(max_examples=100)
@given(windows, instants)
def test_openings_and_closings_are_what_looking_every_minute_finds(window, at):
    opening = next(at + n * MINUTE for n in range(16 * 24 * 60) if is_open(window, at + n * MINUTE))
    assert window.contains(at) == (opening == at)
    assert window.next_opening(at) == opening
    inside = next(at - n * MINUTE for n in range(16 * 24 * 60) if is_open(window, at - n * MINUTE))
    assert window.last_inside(at) == (at if inside == at else inside + MINUTE - MICROSECOND)


@given(windows)
def test_json_is_read_back_exactly(window):
    assert Window.from_json(window.to_json()) == window


@pytest.mark.parametrize(
    ("value", "window"),
    [
        ({"days": ["mon", "fri"], "from": "09:00", "to": "17:00", "timezone": "Europe/Paris"},
         Window(days=frozenset({0, 4}), start=time(9), end=time(17), timezone="Europe/Paris")),
        ({"days": "mon-fri", "from": "09:00", "to": "17:00", "timezone": "Europe/Paris"}, OFFICE),
        ({"days": "Sat-Mon, wed", "from": "09:00", "to": "24:00"},
         Window(days=frozenset({5, 6, 0, 2}), start=time(9), end=time(0))),
        ({"from": "09:00:00.5", "to": "17:00"}, Window(days=EVERY_DAY, start=time(9, 0, 0, 500_000), end=time(17))),
    ],
)  # fmt: skip
def test_json_as_people_write_it(value, window):
    assert Window.from_json(value) == window
    assert Window.from_json(window.to_json()) == window


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ({"days": [], "from": "09:00", "to": "17:00"}, "A window without days is never open"),
        ({"days": "mon-fry", "from": "09:00", "to": "17:00"}, "'fry' is not a day; the days are mon, tue"),
        ({"days": 5, "from": "09:00", "to": "17:00"}, "The days of a window are a list"),
        ({"from": "25:00", "to": "17:00"}, "'25:00' is not a time of day"),
        ({"from": "09:00+02:00", "to": "17:00"}, "carry no offset of their own"),
        ({"from": "09:00", "to": "17:00", "timezone": "Mars"}, "There is no time zone 'Mars'"),
        ({"from": "09:00"}, "A window is "),
        ({"from": 9, "to": 17}, "A window is "),
        ({"from": "09:00", "to": "17:00", "day": "mon"}, "A window is "),
    ],
)
def test_a_bad_window_is_refused_with_a_sentence(value, sentence):
    with pytest.raises(Invalid) as refusal:
        Window.from_json(value)
    assert sentence in str(refusal.value)


def test_days_are_numbered_from_monday_to_sunday():
    with pytest.raises(Invalid, match=r"0 \(Monday\) to 6 \(Sunday\)"):
        Window(days=frozenset({7}), start=time(9), end=time(17))

"""Schedules in plain English."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.core.schedule import Cron, Every, Manual, Once, describe
from ostinato.core.times import DAY, HOUR, WEEK
from tests.core.cron_oracle import utc


@pytest.mark.parametrize(
    ("period", "text"),
    [
        ("6h", "every 6 hours"),
        ("30m", "every 30 minutes"),
        ("90m", "every 1 hour 30 minutes"),
        ("1h", "every hour"),
        ("1d", "every day"),
        ("2w", "every 2 weeks"),
        ("10d", "every 10 days"),
        ("1500ms", "every 1 second 500 milliseconds"),
    ],
)
def test_an_interval_in_words(period, text):
    assert describe(Every.of(period)) == text


@pytest.mark.parametrize(
    ("expression", "zone", "text"),
    [
        ("0 9 * * mon-fri", "Europe/Paris", "at 09:00 on weekdays, Europe/Paris"),
        ("0 9 * * *", "UTC", "at 09:00 every day, UTC"),
        ("@daily", "UTC", "at 00:00 every day, UTC"),
        ("0 9,17 * * 6,7", "UTC", "at 09:00 and 17:00 on weekends, UTC"),
        ("0 9 * * mon,wed,fri", "UTC", "at 09:00 on Monday, Wednesday and Friday, UTC"),
        ("0 */6 * * *", "UTC", "at 00:00, 06:00, 12:00 and 18:00 every day, UTC"),
        ("30 * * * *", "UTC", "at minute 30 of every hour"),
        ("30 * * * *", "Asia/Kolkata", "at minute 30 of every hour, Asia/Kolkata"),
        ("15,45 * * * *", "UTC", "at minutes 15 and 45 of every hour"),
        ("* * * * *", "UTC", "every minute"),
        ("*/15 * * * *", "UTC", "every 15 minutes"),
        ("*/15 * * * mon-fri", "UTC", "every 15 minutes on weekdays, UTC"),
        ("*/7 * * * *", "UTC", "every seventh minute of every hour"),
        ("@monthly", "UTC", "at 00:00 on the first day of every month, UTC"),
        ("0 9 22 * *", "UTC", "at 09:00 on the 22nd day of every month, UTC"),
        ("0 9 12 * *", "UTC", "at 09:00 on the 12th day of every month, UTC"),
        ("0 9 L * *", "UTC", "at 09:00 on the last day of every month, UTC"),
        ("0 9 * * fri#2", "UTC", "at 09:00 on the second Friday of the month, UTC"),
        ("0 9 * * 5L", "UTC", "at 09:00 on the last Friday of the month, UTC"),
        ("@yearly", "UTC", "at 00:00 on January 1, UTC"),
    ],
)
def test_a_cron_expression_in_words(expression, zone, text):
    assert describe(Cron(expression, zone)) == text


def test_once_and_manual_in_words():
    assert describe(Once(utc("2026-11-16T10:00:00+01:00"))) == "once, at 2026-11-16 09:00:00 UTC"
    assert describe(Manual()) == "only by hand"


fields = [
    st.sampled_from(["*", "0", "5", "*/5", "1,2", "0-10", "3/7", "5-5/2", "*,5"]),
    st.sampled_from(["*", "0", "9", "*/6", "9-17", "1/5"]),
    st.sampled_from(["*", "1", "L", "LW", "1,15", "*/2", "L,5"]),
    st.sampled_from(["*", "1", "jan-mar", "*/2"]),
    st.sampled_from(["*", "0", "7", "mon", "fri#2", "5L", "1-5", "*/2", "mon,5L"]),
]


@given(st.tuples(*fields).map(" ".join))
def test_every_expression_has_a_description(expression):
    text = describe(Cron(expression, "Europe/Paris"))
    assert text.endswith(", Europe/Paris")
    assert text[0].islower()


@pytest.mark.parametrize(
    ("period", "words"),
    [
        (6 * HOUR, "every 6 hours"),
        (DAY, "every day at 06:25 UTC"),
        (3 * DAY, "every 3 days at 06:25 UTC"),
        (WEEK, "every week on Monday at 06:25 UTC"),
        (25 * HOUR, "every 1 day 1 hour"),
    ],
)
def test_a_period_of_whole_days_is_told_with_its_hour(period, words):
    assert describe(Every(period), utc("2026-11-16T06:25:30")) == words

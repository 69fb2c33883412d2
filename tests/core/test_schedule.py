"""Schedules: construction, the grid of an interval, text and JSON, jitter."""

from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.core.errors import Invalid, InvalidSchedule
from ostinato.core.schedule import (
    LONGEST_PERIOD,
    Cron,
    Every,
    Manual,
    Once,
    count_between,
    from_json,
    is_recurring,
    jitter,
    latest_at_or_before,
    next_after,
    parse_schedule,
    preview,
    to_json,
)
from tests.core.cron_oracle import utc

ANCHOR = utc("2026-11-16T09:00Z")
MICROSECOND, SECOND, HOUR = timedelta(microseconds=1), timedelta(seconds=1), timedelta(hours=1)

instants = st.datetimes(datetime(2000, 1, 1), datetime(2050, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
intervals = st.timedeltas(SECOND, LONGEST_PERIOD).map(Every)
schedules = st.one_of(
    intervals,
    st.sampled_from([Cron("0 9 * * mon-fri", "Europe/Paris"), Cron("@daily"), Cron("*/5 * * 1 *", "Asia/Tokyo")]),
    instants.map(Once),
    st.just(Manual()),
)


@pytest.mark.parametrize(
    ("every", "period"),
    [
        (Every.of("6h"), 6 * HOUR),
        (Every.of(90), timedelta(seconds=90)),
        (Every.of(timedelta(days=1)), 24 * HOUR),
        (Every.of(30, "seconds"), 30 * SECOND),
        (Every.of(1, "minute"), 60 * SECOND),
        (Every.of(1.5, "hours"), timedelta(minutes=90)),
        (Every.of(1, "days"), 24 * HOUR),
        (Every.of(2, "weeks"), timedelta(days=14)),
    ],
)
def test_an_interval_is_written_in_many_ways(every, period):
    assert every.period == period


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (0, "The shortest interval is 1 second, not 0 seconds."),
        ("999ms", "The shortest interval is 1 second, not 0.999 seconds."),
        (-5, "A duration cannot be negative"),
        ("36526d", "The longest interval is 100 years"),
        (float("inf"), "goes beyond the calendar"),
    ],
)
def test_an_interval_out_of_bounds_is_refused(value, sentence):
    with pytest.raises(Invalid, match=sentence):
        Every.of(value)


def test_an_unknown_unit_is_refused():
    with pytest.raises(Invalid, match="'5 fortnights' is not a duration"):
        Every.of(5, "fortnights")


def test_a_cron_in_an_unknown_zone_is_refused():
    with pytest.raises(Invalid, match="There is no time zone 'Europe/Pari'"):
        Cron("0 9 * * *", "Europe/Pari")


def test_once_is_kept_in_utc_and_refuses_a_naive_time():
    berlin = timezone(HOUR)
    assert Once(datetime(2026, 11, 16, 10, tzinfo=berlin)).at.isoformat() == "2026-11-16T09:00:00+00:00"
    with pytest.raises(InvalidSchedule, match="is in no time zone; end it with Z"):
        Once(datetime(2026, 11, 16, 10))  # noqa: DTZ001
    with pytest.raises(InvalidSchedule, match="goes beyond the calendar"):
        Once(datetime(9999, 12, 31, 23, 30, tzinfo=timezone(-HOUR)))


def test_an_interval_is_due_one_period_after_its_anchor_and_then_on_the_grid():
    every = Every.of("6h")
    assert next_after(every, ANCHOR, ANCHOR) == ANCHOR + 6 * HOUR
    assert next_after(every, ANCHOR, ANCHOR - 100 * HOUR) == ANCHOR + 6 * HOUR
    assert next_after(every, ANCHOR, ANCHOR + 6 * HOUR - MICROSECOND) == ANCHOR + 6 * HOUR
    assert next_after(every, ANCHOR, ANCHOR + 6 * HOUR) == ANCHOR + 12 * HOUR
    assert latest_at_or_before(every, ANCHOR, ANCHOR + 5 * HOUR, floor=ANCHOR - HOUR) is None
    assert latest_at_or_before(every, ANCHOR, ANCHOR + 13 * HOUR, floor=ANCHOR) == ANCHOR + 12 * HOUR
    assert latest_at_or_before(every, ANCHOR, ANCHOR + 13 * HOUR, floor=ANCHOR + 12 * HOUR) is None
    assert count_between(every, ANCHOR, ANCHOR - HOUR, ANCHOR + 18 * HOUR) == 3
    assert count_between(every, ANCHOR, ANCHOR + 18 * HOUR, ANCHOR) == 0


def test_once_is_due_once():
    once = Once(ANCHOR)
    assert preview(once, ANCHOR, ANCHOR - HOUR, 5) == [ANCHOR]
    assert next_after(once, ANCHOR, ANCHOR) is None
    assert latest_at_or_before(once, ANCHOR, ANCHOR, floor=ANCHOR - HOUR) == ANCHOR
    assert latest_at_or_before(once, ANCHOR, ANCHOR + HOUR, floor=ANCHOR) is None
    assert count_between(once, ANCHOR, ANCHOR - HOUR, ANCHOR) == 1


def test_manual_is_never_due():
    assert preview(Manual(), ANCHOR, ANCHOR, 5) == []
    assert latest_at_or_before(Manual(), ANCHOR, ANCHOR, floor=ANCHOR - HOUR) is None
    assert count_between(Manual(), ANCHOR, ANCHOR - HOUR, ANCHOR) == 0


def test_intervals_and_crons_recur():
    assert [is_recurring(s) for s in (Every.of("1h"), Cron("@daily"), Once(ANCHOR), Manual())] == [
        True,
        True,
        False,
        False,
    ]


def test_an_interval_ends_with_the_calendar():
    last = utc("9999-12-31T23:59:59Z")
    assert next_after(Every(LONGEST_PERIOD), last - HOUR, last) is None
    newest = latest_at_or_before(Every.of("1h"), ANCHOR, last, floor=ANCHOR)
    assert next_after(Every.of("1h"), ANCHOR, newest) is None
    assert count_between(Every.of("1h"), ANCHOR, newest - HOUR, last) == 1


@given(intervals, instants, instants)
def test_the_grid_has_no_drift(every, anchor, after):
    due = next_after(every, anchor, after)
    assert due > max(after, anchor)
    assert (due - anchor) % every.period == timedelta()
    assert due - max(after, anchor) <= every.period
    assert latest_at_or_before(every, anchor, due, floor=max(after, anchor)) == due
    assert count_between(every, anchor, after, due) == 1
    assert count_between(every, anchor, after, due - MICROSECOND) == 0


@given(schedules, instants, instants)
def test_a_preview_rises_strictly(schedule, anchor, after):
    times = preview(schedule, anchor, after, 5)
    assert times == sorted(set(times))
    assert all(due > after for due in times)
    if times:
        assert count_between(schedule, anchor, after, times[-1]) == len(times)


@given(schedules)
def test_json_is_read_back_exactly(schedule):
    assert from_json(to_json(schedule)) == schedule


def test_json_has_these_shapes():
    assert to_json(Every.of("6h")) == {"every": "6h"}
    assert to_json(Cron("0  9 * * mon-fri", "Europe/Paris")) == {
        "cron": "0 9 * * mon-fri",
        "timezone": "Europe/Paris",
    }
    assert to_json(Once(ANCHOR)) == {"at": "2026-11-16T09:00:00Z"}
    assert to_json(Once(ANCHOR + MICROSECOND)) == {"at": "2026-11-16T09:00:00.000001Z"}
    assert to_json(Manual()) == {"manual": True}
    assert from_json({"every": 90}) == Every.of(90)
    kept = replace(Every.of("6h"), kept=Cron("0 9 * * *", "Europe/Paris"))
    assert to_json(kept) == {"every": "6h", "schedule_time": "0 9 * * *", "timezone": "Europe/Paris"}
    assert from_json(to_json(kept)).kept == kept.kept
    assert from_json({"cron": "@daily"}) == Cron("@daily", "UTC")


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"every": "6h", "cron": "@daily"},
        {"every": None},
        {"every": True},
        {"cron": "@daily", "tz": "UTC"},
        {"cron": 5},
        {"at": "tomorrow"},
        {"at": "2026-11-16T09:00:00"},
        {"manual": False},
    ],
)
def test_json_of_another_shape_is_refused(value):
    with pytest.raises(Invalid):
        from_json(value)


@pytest.mark.parametrize(
    ("text", "schedule"),
    [
        ("30m", Every.of("30m")),
        ("every 30m", Every.of("30m")),
        ("Every 1 hour 30 minutes", Every.of("90m")),
        ("1h 30m", Every.of("90m")),
        ("0 9 * * mon-fri", Cron("0 9 * * mon-fri", "Europe/Paris")),
        ("30 2 1 1 1", Cron("30 2 1 1 1", "Europe/Paris")),
        ("@daily", Cron("@daily", "Europe/Paris")),
        ("manual", Manual()),
        ("at 2026-11-16T09:00:00Z", Once(ANCHOR)),
        ("2026-11-16T10:00+01:00", Once(ANCHOR)),
        ("2026-11-16 09:00Z", Once(ANCHOR)),
    ],
)
def test_a_schedule_is_read_from_text(text, schedule):
    assert parse_schedule(text, "Europe/Paris") == schedule


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is not a schedule; write an interval"),
        ("soon", "'soon' is not a schedule; write an interval"),
        ("30x", "'30x' is not a duration"),
        ("every", "'' is not a duration"),
        ("0 0 30 2 *", "it can never fire"),
        ("at noon", "'noon' is not an instant"),
        ("2026-11-16T09:00", "is in no time zone; end it with Z"),
        ("2026-13-16T09:00Z", "is not an instant"),
        ("0s", "The shortest interval is 1 second"),
    ],
)
def test_text_that_is_no_schedule_is_refused_with_a_sentence(text, sentence):
    with pytest.raises(Invalid) as refusal:
        parse_schedule(text, "UTC")
    assert sentence in str(refusal.value)


@given(st.text(max_size=20), st.sampled_from(["UTC", "Nowhere/Land"]))
def test_any_text_is_a_schedule_or_is_refused(text, zone):
    with suppress(Invalid):
        parse_schedule(text, zone)


def test_jitter_is_the_same_on_every_machine():
    assert jitter(HOUR, "job-1", ANCHOR) == timedelta(seconds=1533, microseconds=168366)
    assert jitter(HOUR, "job-1", ANCHOR.astimezone(timezone(HOUR))) == jitter(HOUR, "job-1", ANCHOR)
    assert jitter(HOUR, "job-2", ANCHOR) != jitter(HOUR, "job-1", ANCHOR)
    assert jitter(HOUR, "job-1", ANCHOR + HOUR) != jitter(HOUR, "job-1", ANCHOR)
    assert jitter(timedelta(), "job-1", ANCHOR) == timedelta()


def test_jitter_is_spread_evenly():
    quarters = [0] * 4
    for n in range(4000):
        quarters[jitter(HOUR, f"job-{n}", ANCHOR) // timedelta(minutes=15)] += 1
    assert all(900 < count < 1100 for count in quarters)


@given(st.timedeltas(timedelta(), timedelta(days=365)), st.text(max_size=5), instants)
def test_jitter_stays_within_its_width(width, seed, due):
    assert timedelta() <= jitter(width, seed, due) <= max(width - MICROSECOND, timedelta())

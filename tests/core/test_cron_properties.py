"""Cron against brute force: our search must find what looking at the clock every minute finds."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from ostinato.core.errors import InvalidSchedule
from ostinato.core.schedule import Cron, count_between, latest_at_or_before, next_after, preview
from ostinato.core.times import offset_at, zone, zone_names
from tests.core.cron_oracle import due_times, utc

MICROSECOND, SECOND, HOUR = timedelta(microseconds=1), timedelta(seconds=1), timedelta(hours=1)

# A zone, and a year in which a change of its clock once revealed a bug.
RESTLESS = [
    ("America/New_York", 2026),
    ("Europe/Berlin", 2026),
    ("Europe/London", 2026),
    ("Europe/Dublin", 2026),  # winter is the exception there
    ("Australia/Lord_Howe", 2026),  # by half an hour
    ("Antarctica/Troll", 2026),  # by two hours
    ("Asia/Kathmandu", 1985),  # by a quarter of an hour
    ("America/Caracas", 2007),  # half an hour back, for good
    ("Asia/Pyongyang", 2018),  # half an hour forward, for good
    ("America/Havana", 2025),  # at midnight
    ("Asia/Beirut", 2026),
    ("America/Sao_Paulo", 2018),
    ("America/Scoresbysund", 2024),
    ("America/St_Johns", 2010),  # at one past midnight: the day before comes again
    ("Africa/Casablanca", 2026),  # back for Ramadan
    ("Pacific/Apia", 2011),  # without 30 December
    ("Pacific/Kwajalein", 1993),  # without 21 August
    ("Pacific/Kiritimati", 1994),  # without 31 December
]


def changes(name, year):
    """Instants at most six hours before the clock of a zone changes."""
    steps = [datetime(year, 1, 1, tzinfo=UTC) + n * 6 * HOUR for n in range(366 * 4)]
    return [at for at in steps if offset_at(at, zone(name)) != offset_at(at + 6 * HOUR, zone(name))]


CHANGES = [(name, at) for name, year in RESTLESS for at in changes(name, year)]


def numbers(low, high):
    number = st.integers(low, high)
    span = st.tuples(number, number).map(lambda ends: f"{min(ends)}-{max(ends)}")
    step = st.tuples(st.one_of(st.just("*"), span, number.map(str)), st.integers(1, 20)).map("{0[0]}/{0[1]}".format)
    term = st.one_of(number.map(str), number.map(str), span, step)
    return st.one_of(st.just("*"), term, st.lists(term, min_size=2, max_size=3).map(",".join))


star = st.just("*")
minutes = st.one_of(st.sampled_from(["0", "30", "15,45", "*/15", "*"]), numbers(0, 59))
hours = st.one_of(st.sampled_from(["*", "0", "1", "2", "0-3", "*/2", "23"]), numbers(0, 23))
days = st.one_of(star, star, st.just("L"), numbers(1, 31))
months = st.one_of(star, star, st.sampled_from(["mar-NOV", "1-12/2"]))
weekdays = st.one_of(star, star, st.sampled_from(["SUN", "5L", "sun#1", "mon-FRI", "7", "*/3"]), numbers(0, 7))
expressions = st.tuples(minutes, hours, days, months, weekdays).map(" ".join)


@st.composite
def near_changes(draw):
    """A zone and an instant within a day and a half of a change of its clock."""
    name, at = draw(st.sampled_from(CHANGES))
    return name, at + draw(st.integers(-36 * 60, 36 * 60)) * timedelta(minutes=1)


@st.composite
def anywhere(draw):
    """Any zone, any time since offsets are in whole minutes."""
    name = draw(st.sampled_from(sorted(zone_names())))
    return name, draw(st.datetimes(datetime(1975, 1, 1), datetime(2037, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001


def cron(expression, name):
    try:
        return Cron(expression, name)
    except InvalidSchedule as refusal:
        assume("it can never fire" not in str(refusal))
        raise


def assert_agrees_with_the_oracle(expression, name, after, until):
    schedule, expected = cron(expression, name), due_times(expression, zone(name), after, until)
    assert [due for due in preview(schedule, after, after, len(expected) + 1) if due <= until] == expected
    assert count_between(schedule, after, after, until) == len(expected)
    found, at = [], until
    while (due := latest_at_or_before(schedule, after, at, floor=after)) is not None:
        found, at = [due, *found], due - MICROSECOND
    assert found == expected


@settings(max_examples=250)
@given(expressions, near_changes(), st.sampled_from([HOUR, 5 * HOUR, 49 * HOUR]))
@example("30 1 * * *", ("America/New_York", utc("2026-11-01T06:00Z")), 49 * HOUR)  # cronsim went back in time here
@example("15 2 * * *", ("Australia/Lord_Howe", utc("2026-10-03T15:00Z")), 49 * HOUR)  # and missed one here
@example("0 0 * * *", ("Pacific/Apia", utc("2011-12-29T11:00Z")), 49 * HOUR)
def test_due_times_around_a_change_of_the_clock_are_those_of_the_oracle(expression, place, span):
    name, after = place
    assert_agrees_with_the_oracle(expression, name, after, after + span)


@settings(max_examples=80)
@given(expressions, anywhere())
def test_due_times_anywhere_are_those_of_the_oracle(expression, place):
    name, after = place
    assert_agrees_with_the_oracle(expression, name, after, after + 25 * HOUR)


@settings(max_examples=150)
@given(expressions, st.one_of(near_changes(), anywhere()))
def test_next_and_latest_are_each_others_inverse(expression, place):
    name, after = place
    schedule = cron(expression, name)
    due = next_after(schedule, after, after)
    assert due > after
    assert due.tzinfo is UTC
    assert latest_at_or_before(schedule, after, due, floor=after) == due
    assert latest_at_or_before(schedule, after, due - MICROSECOND, floor=after) is None
    before = latest_at_or_before(schedule, after, after, floor=after - timedelta(days=20_000))
    assume(before is not None)
    assert before <= after
    assert next_after(schedule, after, before) == due
    assert next_after(schedule, after, before - MICROSECOND) == before


@settings(max_examples=80)
@given(expressions, near_changes(), st.lists(st.integers(0, 400), min_size=1, max_size=3))
def test_counts_of_parts_add_up_to_the_count_of_the_whole(expression, place, hours):
    name, begin = place
    schedule = cron(expression, name)
    cuts = sorted(begin + n * HOUR for n in hours)
    parts = zip([begin, *cuts], cuts, strict=False)
    counted = sum(count_between(schedule, begin, after, until) for after, until in parts)
    assert counted == count_between(schedule, begin, begin, cuts[-1])


@settings(max_examples=60)
@given(st.integers(0, 59), st.integers(0, 23), near_changes())
def test_a_fixed_daily_time_is_due_once_for_each_day_on_the_calendar(minute, hour, place):
    name, at = place
    schedule = Cron(f"{minute} {hour} * * *", name)
    begin = at.replace(hour=0, minute=0) - timedelta(days=5)
    times = preview(schedule, begin, begin, 12)
    assert times == sorted(set(times))
    days = {due.astimezone(zone(name)).date() for due in times}
    assert len(days) >= len(times) - 1  # a day that does not exist gives its due time to the next


@pytest.mark.parametrize("expression", ["*/5 * * * *", "* * * * *"])
@pytest.mark.parametrize(("name", "year"), RESTLESS)
def test_what_follows_real_time_is_spaced_evenly_through_every_change(expression, name, year):
    at = changes(name, year)[0]
    times = preview(Cron(expression, name), at, at, 150)
    assert len({later - earlier for earlier, later in pairwise(times)}) == 1

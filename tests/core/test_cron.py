"""Cron: the table of cases, the sentences of refusal, and the corners of the calendar."""

from datetime import timedelta
from pathlib import Path

import pytest

from ostinato.core.errors import InvalidSchedule
from ostinato.core.schedule import Cron, count_between, latest_at_or_before, next_after, preview
from tests.core.cron_oracle import utc

DAY = timedelta(days=1)


def rows(table):
    """`id | expression | zone | after | due times`, one case a line."""
    cells = [line.split("|") for line in table.splitlines() if line and not line.startswith("#")]
    return [pytest.param(*(cell.strip() for cell in row[1:]), id=row[0].strip()) for row in cells]


CASES = rows(Path(__file__).with_name("time_cases.txt").read_text())


def due_after(expression, zone, after, n):
    return preview(Cron(expression, zone), utc(after), utc(after), n)


@pytest.mark.parametrize(("expression", "zone", "after", "due"), CASES)
def test_the_table_of_cases_holds(expression, zone, after, due):
    assert due_after(expression, zone, after, len(due.split())) == [utc(text) for text in due.split()]


@pytest.mark.parametrize(("expression", "zone", "after", "due"), CASES)
def test_the_table_holds_backwards_and_counted(expression, zone, after, due):
    schedule, begin, times = Cron(expression, zone), utc(after), [utc(text) for text in due.split()]
    assert count_between(schedule, begin, begin, times[-1]) == len(times)
    for earlier, later in zip([begin, *times], times, strict=False):
        assert latest_at_or_before(schedule, begin, later, floor=begin) == later
        just_before = latest_at_or_before(schedule, begin, later - timedelta(microseconds=1), floor=begin)
        assert just_before == (earlier if earlier > begin else None)


ODD_ZONES = """
# a whole day is left out: what it held is due at the first instant after it, together with what that has itself
skipped day, fixed    |0 9 * * *   |Pacific/Apia       |2011-12-29T00:00Z|2011-12-29T19:00Z 2011-12-30T10:00Z 2011-12-30T19:00Z
skipped day, midnight |0 0 * * *   |Pacific/Apia       |2011-12-29T00:00Z|2011-12-29T10:00Z 2011-12-30T10:00Z 2011-12-31T10:00Z
skipped day, real time|0 */12 * * *|Pacific/Apia       |2011-12-29T00:00Z|2011-12-29T10:00Z 2011-12-29T22:00Z 2011-12-30T10:00Z
# clocks change at midnight
skipped midnight      |0 0 * * *   |America/Havana     |2026-03-07T12:00Z|2026-03-08T05:00Z 2026-03-09T04:00Z
skipped half past     |30 0 * * *  |Asia/Beirut        |2026-03-28T00:00Z|2026-03-28T22:00Z 2026-03-29T21:30Z
twice, fixed          |30 0 * * *  |America/Havana     |2025-11-01T12:00Z|2025-11-02T04:30Z 2025-11-03T05:30Z
twice, real time      |30 * * * *  |America/Havana     |2025-11-02T04:00Z|2025-11-02T04:30Z 2025-11-02T05:30Z 2025-11-02T06:30Z
# at 00:01 clocks went back to 23:01, so that yesterday came again
yesterday, fixed      |0 0 * * *   |America/St_Johns   |2010-11-06T12:00Z|2010-11-07T02:30Z 2010-11-08T03:30Z
yesterday, real time  |0 * * * *   |America/St_Johns   |2010-11-07T01:00Z|2010-11-07T01:30Z 2010-11-07T02:30Z 2010-11-07T03:30Z
# clocks change by half an hour
half-hour gap         |*/30 2 * * *|Australia/Lord_Howe|2026-10-03T00:00Z|2026-10-03T15:30Z 2026-10-04T15:00Z
half-hour fold        |*/15 1 * * *|Australia/Lord_Howe|2026-04-04T14:40Z|2026-04-04T14:45Z 2026-04-04T15:00Z 2026-04-04T15:15Z
# no zone at all, far away and far apart
fourteen hours ahead  |0 0 1 1 *   |Pacific/Kiritimati |2026-06-01T00:00Z|2026-12-31T10:00Z
forty years apart     |0 0 * 2 1#5 |UTC                |2073-01-01T00:00Z|2112-02-29T00:00Z
"""  # noqa: E501


@pytest.mark.parametrize(("expression", "zone", "after", "due"), rows(ODD_ZONES))
def test_odd_zones(expression, zone, after, due):
    assert due_after(expression, zone, after, len(due.split())) == [utc(text) for text in due.split()]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@Hourly", "0 * * * *"),
        ("0 9 * jan-mar MON-fri", "0 9 * 1-3 1-5"),
        ("5-5/10,00-0/3 9-9/2 * * mon-mon/2", "5,0 9 * * 1"),
        ("5/20 9 * * *", "5,25,45 9 * * *"),
    ],
)
def test_two_ways_to_write_the_same(one, other):
    assert due_after(one, "UTC", "2026-11-16T00:00Z", 9) == due_after(other, "UTC", "2026-11-16T00:00Z", 9)


def test_the_last_friday_of_the_month():
    assert [due.day for due in due_after("0 0 * * 5L", "UTC", "2026-01-01T00:00Z", 4)] == [30, 27, 27, 24]


@pytest.mark.parametrize(
    ("expression", "sentence"),
    [
        ("0 0 30 2 *", "it can never fire: no year has such a day"),
        ("0 0 31 4,6,9,11 *", "it can never fire"),
        ("0 0 */15 * MON#2", "it can never fire"),
        ("0 0 0 * * *", "it has 6 fields instead of five"),
        ("* * * *", "it has 4 fields instead of five"),
        ("", "it has 0 fields"),
        ("60 * * * *", "its minute field cannot be '60'"),
        ("* 24 * * *", "its hour field cannot be '24'"),
        ("* * 0 * *", "its day-of-month field cannot be '0'"),
        ("* * * 13 *", "its month field cannot be '13'"),
        ("* * * * fri-sun", "its day-of-week field cannot be 'fri-sun'"),
        ("*/0 * * * *", "its minute field cannot be"),
        ("1,,2 * * * *", "its minute field cannot be"),
        ("٣ * * * *", "its minute field cannot be"),
        ("0 0 * * MON#6", "its day-of-week field cannot be"),
        ("@reboot", "there is no such alias; the aliases are @yearly"),
        ("9" * 5000 + " * * * *", "it is longer than 1000 characters"),
    ],
)
def test_a_bad_expression_is_refused_with_a_sentence(expression, sentence):
    with pytest.raises(InvalidSchedule, match=r"^The cron expression .* is refused: .*\.$") as refusal:
        Cron(expression)
    assert sentence in str(refusal.value)


def test_a_year_of_minutes_is_counted_without_walking_through_it(monkeypatch):
    seen = []
    monkeypatch.setattr("ostinato.core.cron.passes", lambda wall, tz: seen.append(wall) or ())
    count_between(
        Cron("* * * * *", "Europe/Paris"),
        utc("2026-01-01T00:00Z"),
        utc("2026-01-01T00:00Z"),
        utc("2027-01-01T00:00Z"),
    )
    assert 0 < len(seen) < 1000


def test_every_minute_of_a_year_is_counted():
    begin, end = utc("2026-01-01T00:00Z"), utc("2027-01-01T00:00Z")
    assert count_between(Cron("* * * * *", "Europe/Paris"), begin, begin, end) == 365 * 24 * 60
    assert count_between(Cron("0-59 0-23 * * *", "Europe/Paris"), begin, begin, end) == 365 * 24 * 60 - 60


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "Pacific/Niue"])
def test_the_calendar_ends_and_begins_without_a_crash(zone):
    schedule, first, last = Cron("* * * * *", zone), utc("0001-01-01T00:00Z"), utc("9999-12-31T23:59:59Z")
    assert next_after(schedule, first, last) is None
    assert next_after(schedule, first, first) is not None
    assert latest_at_or_before(schedule, first, first, first) is None
    newest = latest_at_or_before(schedule, first, last, first)
    assert next_after(schedule, first, newest - DAY) <= newest
    assert next_after(schedule, first, newest) is None
    assert next_after(Cron("0 12 30 12 *", zone), first, newest) is None
    assert next_after(Cron("0 12 30 12 *", zone), first, newest - DAY) is None
    assert count_between(schedule, first, newest - DAY, last) == 24 * 60
    assert count_between(Cron("0 0 1 1 *", zone), first, last - DAY, last) == 0

"""The calendar of past and future hours in the viewer's zone, also where its clock jumps."""

import re
from datetime import UTC, datetime

import pytest

from ostinato.core.schedule import Cron
from ostinato.dashboard import calendar, overview
from ostinato.service.paging import allowance
from tests.dashboard.busy import Busy
from tests.dashboard.conftest import Visitor


@pytest.fixture
def at(visitor: Visitor, monkeypatch):
    """Make a filled database at an instant, with a visitor from Paris."""

    def at(*when: int) -> Busy:
        clock = visitor.app.scheduler.clock
        monkeypatch.setattr(type(clock), "now", lambda _: datetime(*when, tzinfo=UTC))
        visitor.client.cookies.set("ostinato_zone", "Europe%2FParis")
        return Busy(visitor)

    return at


def cells(page: str) -> list[list[tuple[str, str]]]:
    """Return class and text of each cell, by day."""
    rows = re.findall(r'<tr><th scope="row">.*?</tr>', page, re.DOTALL)
    return [re.findall(r'<td><(?:a|span) class="([^"]*)"[^>]*>([^<]*)<', row) for row in rows]


def test_an_hour_of_the_coming_days_says_how_much_is_due_and_lists_the_jobs(at):
    busy = at(2026, 11, 16, 12, 10)
    busy.add(name="nightly", key=None, schedule=Cron("30 2 * * *", "Europe/Paris"))
    page = busy.visitor.see("/calendar")
    rows = cells(page)
    assert [len(row) for row in rows] == [24] * 7
    assert [row[2][1] for row in rows] == ["", *["2"] * 6]  # and one every hour
    hour = "/calendar?hour=2026-11-18T01%3A00%3A00.000Z"
    assert hour in page
    assert "nightly" in busy.visitor.see(hour)
    assert "nightly" not in busy.visitor.see("/calendar?hour=2026-11-18T02%3A00%3A00.000Z")


def test_an_hour_of_the_past_lists_what_was_queued_in_it(at):
    busy = at(2026, 11, 16, 12, 10)
    rows = cells(busy.visitor.see("/calendar?show=past"))
    assert len(rows) == 30
    today = [word for _, word in rows[0]]
    assert today[10] == "2"  # its first try failed at 9:10 UTC
    assert "bad" in rows[0][10][0]
    page = busy.visitor.see("/calendar?show=past&hour=2026-11-16T09:00:00Z")
    assert f"/executions/{busy.failed.id}" in page
    assert f"/executions/{busy.done.id}" not in page


def test_an_hour_that_the_clock_shows_twice_is_marked_and_has_both_passes(at):
    busy = at(2026, 10, 23, 12, 10)
    busy.add(name="halves", key=None, schedule=Cron("*/30 * * * *", "Europe/Paris"))
    busy.add(name="fixed", key=None, schedule=Cron("30 2 * * *", "Europe/Paris"))
    page = busy.visitor.see("/calendar")
    sunday = cells(page)[2]
    assert "twice" in sunday[2][0]
    assert sunday[2][1] == "7"  # both halves twice, the fixed one once, and one every hour
    assert sum("twice" in marks for row in cells(page) for marks, _ in row) == 1
    assert "clocks go back" in page


def test_an_hour_that_the_clock_jumps_over_is_marked(at):
    busy = at(2026, 3, 27, 12, 10)
    busy.add(name="fixed", key=None, schedule=Cron("30 2 * * *", "Europe/Paris"))
    page = busy.visitor.see("/calendar")
    sunday = cells(page)[2]
    assert "gone" in sunday[2][0]
    assert sunday[3][1] == "2"  # what was due in the gap runs right after it
    assert "clocks go forward" in page


def test_a_calendar_that_takes_too_long_shows_what_it_counted_and_says_so(at, monkeypatch):
    busy = at(2026, 11, 16, 12, 10)
    hour = "/calendar?hour=2026-11-18T01%3A00%3A00.000Z"
    assert "some due times are missing" not in busy.visitor.see(hour)
    for module in (calendar, overview):
        monkeypatch.setattr(module, "allowance", lambda: allowance(0))
    assert "some due times are missing" in busy.visitor.see(hour)
    assert "at least 0 due times" in busy.visitor.see("/")

"""Crontabs: how lines are read, and which of them become intervals."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ostinato.core.schedule import Cron, Every, preview
from ostinato.core.times import DAY, HOUR, MINUTE, WEEK
from ostinato.features.transfer.rules.crontab import CronPlan, plain_period, plan, read_crontab
from ostinato.features.transfer.rules.found import Difference, compared

NOW = datetime(2026, 11, 16, 17, 10, 30, tzinfo=UTC)

A_CRONTAB = r"""
# the shop
SHELL=/bin/bash
PATH = "/usr/local/bin:/usr/bin"

0 0 * * *  /opt/shop/backup --all
@hourly    ping example.com
  */5 * * * mon-fri  date +\%F >> log # not a comment
CRON_TZ=Europe/Paris
NAME='a b'
30 9 * JAN sun mail -s hello me%Dear me,%goodbye\%
"""


def test_lines_are_read_as_cron_reads_them():
    read = read_crontab(A_CRONTAB, "UTC")
    assert read.unread == ()
    backup, ping, log, mail = read.entries
    assert (backup.line, backup.expression, backup.timezone) == (6, "0 0 * * *", "UTC")
    assert backup.command == "/opt/shop/backup --all"
    assert backup.environment == (("SHELL", "/bin/bash"), ("PATH", "/usr/local/bin:/usr/bin"))
    assert (ping.expression, ping.command) == ("@hourly", "ping example.com")
    assert (log.expression, log.command) == ("*/5 * * * mon-fri", "date +%F >> log # not a comment")
    assert log.stdin is None
    assert (mail.expression, mail.timezone) == ("30 9 * JAN sun", "Europe/Paris")
    assert (mail.command, mail.stdin) == ("mail -s hello me", "Dear me,\ngoodbye%\n")
    assert mail.environment[-1] == ("NAME", "a b")
    assert mail.user is None


def test_a_system_crontab_names_a_user_before_the_command():
    (entry,) = read_crontab("17 * * * * root cd / && run-parts /etc/cron.hourly", "UTC", system=True).entries
    assert (entry.user, entry.command) == ("root", "cd / && run-parts /etc/cron.hourly")
    (entry,) = read_crontab("@daily\twww-data\ttrue", "UTC", system=True).entries
    assert (entry.expression, entry.user, entry.command) == ("@daily", "www-data", "true")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("@reboot start", "when the machine starts"),
        ("@fortnightly x", "no such alias"),
        ("61 * * * * x", "its minute field cannot be '61'"),
        ("0 0 30 2 * x", "it can never fire"),
        ("0 0 * * *", "no command"),
        ("0 0 *", "no command"),
        ("@daily", "no command"),
        ("0 0 * * * root /usr/bin/x", "root is a user and not a program"),
    ],
)
def test_what_cannot_become_a_job_is_told_and_the_rest_goes_on(line, why):
    read = read_crontab(f"{line}\n@daily fine", "UTC")
    (unread,) = read.unread
    assert (unread.line, unread.text) == (1, line)
    assert why in unread.why
    assert [entry.command for entry in read.entries] == ["fine"]


def test_the_lines_below_a_zone_that_is_none_are_left_out_until_the_next_one():
    text = "@daily above\nCRON_TZ=Europe/Pairs\n@daily below\nCRON_TZ=Europe/Paris\n@daily last"
    read = read_crontab(text, "UTC")
    assert [(each.line, each.why[:41]) for each in read.unread] == [
        (2, "There is no time zone 'Europe/Pairs'; did"),
        (3, "the CRON_TZ above it is not a time zone"),
    ]
    assert [(entry.command, entry.timezone) for entry in read.entries] == [
        ("above", "UTC"),
        ("last", "Europe/Paris"),
    ]


def test_a_program_may_have_the_name_of_a_user_where_nothing_follows():
    assert [entry.command for entry in read_crontab("@daily postgres", "UTC").entries] == ["postgres"]


def test_a_system_line_without_a_command():
    (unread,) = read_crontab("0 0 * * * root", "UTC", system=True).unread
    assert "no command after the user" in unread.why


def test_what_means_something_else_here_is_told():
    read = read_crontab("TZ=Asia/Tokyo\nMAILTO=me\n0 9 * * * root x", "UTC", system=True)
    assert read.entries[0].timezone == "UTC", "as with cron, TZ is for the command"
    assert [note.split()[0] for note in read.notes] == ["TZ", "MAILTO", "A"]
    assert read_crontab("0 9 * * * x", "UTC").notes == ()


def test_a_fingerprint_is_of_what_a_line_says_and_not_of_where_it_stands():
    one, other, third = read_crontab("0 0 * * *  x\n# moved\n0  0 * * * x\n0 0 * * * y", "UTC").entries
    assert one.fingerprint == other.fingerprint != third.fingerprint


@pytest.mark.parametrize(
    ("expression", "period"),
    [
        ("0 * * * *", HOUR),
        ("17 * * * *", HOUR),
        ("0 */6 * * *", 6 * HOUR),
        ("15 3,9,15,21 * * *", 6 * HOUR),
        ("0 0 * * *", DAY),
        ("30 4 * * *", DAY),
        ("* * * * *", MINUTE),
        ("*/15 * * * *", 15 * MINUTE),
        ("5,35 * * * *", 30 * MINUTE),
        ("0 0 * * 0-6", DAY),
        ("@daily", DAY),
        ("@hourly", HOUR),
        ("@weekly", WEEK),
        ("0 9 * * mon", WEEK),
        ("*/7 * * * *", None),
        ("0 */5 * * *", None),
        ("0 9,17 * * *", None),
        ("0 9 * * mon-fri", None),
        ("0 0,12 * * mon", None),
        ("0 0 1 * *", None),
        ("0 0 */2 * *", None),
        ("0 0 * 1-11 *", None),
        ("@yearly", None),
        ("0 0 L * *", None),
    ],
)
def test_plain_periods(expression, period):
    assert plain_period(expression) == period


def test_an_interval_counts_from_the_next_time_so_that_midnight_stays_midnight():
    made = plan(Cron("0 0 * * *"), NOW)
    assert made == CronPlan(Every(DAY), datetime(2026, 11, 17, tzinfo=UTC))
    assert [at.hour for at in made.times(NOW, 10)] == [0] * 10


def test_what_is_no_plain_period_stays_cron():
    assert plan(Cron("0 9 * * mon-fri"), NOW) == CronPlan(Cron("0 9 * * mon-fri"))


@pytest.mark.parametrize(
    ("expression", "timezone", "becomes"),
    [
        ("0 0 * * *", "Asia/Tokyo", Every(DAY)),
        ("0 * * * *", "Europe/Paris", Every(HOUR)),
        ("*/20 * * * *", "America/New_York", Every(20 * MINUTE)),
        ("0 0 * * *", "Europe/Paris", Cron("0 0 * * *", "Europe/Paris")),
        ("0 */6 * * *", "Europe/Paris", Cron("0 */6 * * *", "Europe/Paris")),
        ("0 * * * *", "Australia/Lord_Howe", Cron("0 * * * *", "Australia/Lord_Howe")),
        ("*/30 * * * *", "Australia/Lord_Howe", Every(30 * MINUTE)),
        ("0 0-23 * * *", "Europe/Paris", Cron("0 0-23 * * *", "Europe/Paris")),
    ],
)
def test_where_clocks_are_put_forward_and_back_only_what_does_not_notice_becomes_an_interval(
    expression, timezone, becomes
):
    made = plan(Cron(expression, timezone), NOW)
    assert made.schedule == becomes
    assert (made.why is None) == isinstance(becomes, Every)


@given(
    expression=some.sampled_from(
        ["0 * * * *", "*/20 * * * *", "0 0 * * *", "15 */6 * * *", "0 12 * * sun", "0 0-23 * * *"]
    ),
    timezone=some.sampled_from(["UTC", "Europe/Paris", "Asia/Kolkata", "Australia/Lord_Howe", "America/New_York"]),
    now=some.datetimes(datetime(2020, 1, 1), datetime(2040, 1, 1)),  # noqa: DTZ001  hypothesis wants them so
    later=some.integers(0, 400),
)
def test_a_plan_is_due_when_the_expression_was(expression, timezone, now, later):
    now = now.replace(tzinfo=UTC)
    made, then = plan(Cron(expression, timezone), now), now + later * DAY
    assert made.times(then, 30) == preview(Cron(expression, timezone), then, then, 30)


def test_differences_are_found_one_by_one():
    daily = Cron("0 0 * * *")
    right = preview(daily, NOW, NOW, 10)
    assert compared(right, right, NOW) == []
    wrong = [*right[:9], right[9] + HOUR]
    assert compared(right, wrong, NOW) == [Difference(right[9], right[9] + HOUR)]
    assert compared(right, [], NOW) == [Difference(at, None) for at in right]


def test_what_came_due_while_asking_is_no_difference():
    minutely = Cron("* * * * *")
    asked, later = preview(minutely, NOW, NOW, 10), NOW + timedelta(seconds=95)
    assert compared(preview(minutely, later, later, 10), asked, later) == []

"""Record schedules of the real Celery and django-celery-beat, with their due times over a year with two clock changes.

The peers are no dependencies of the tests. To record again:

    python -m venv /tmp/peers && /tmp/peers/bin/pip install celery django-celery-beat
    cd tests/features/transfer/peers && /tmp/peers/bin/python record_celery.py > celery.json

An entry has the attributes of its schedule object; `times` are when beat would have run it from `BEGIN` on, in seconds
since 1970: it asks `is_due` with the last run, and sleeps as long as the answer says. `tables` is the dump of a SQLite
database that the migrations of django-celery-beat made.
"""

import json
import sqlite3
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import celery
from celery import Celery
from celery.schedules import crontab, schedule, solar

BEGIN = datetime(2027, 1, 1, tzinfo=UTC)  # clocks of Paris change on 28 March and 31 October
YEAR = timedelta(days=365)
MOST = 500
PARIS = "Europe/Paris"
FIELDS = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")

ENTRIES = {
    "daily": ({"minute": 30, "hour": 9}, PARIS),
    "daily-utc": ({"minute": 30, "hour": 9}, "UTC"),
    "gap": ({"minute": 30, "hour": 2}, PARIS),
    "gap-many": ({"minute": "*/20", "hour": "2", "day_of_month": "25-31"}, PARIS),
    "midnight": ({"minute": 0, "hour": 0}, PARIS),
    "weekdays": ({"minute": 0, "hour": 8, "day_of_week": "mon-fri"}, PARIS),
    "sunday": ({"minute": 0, "hour": "*/12", "day_of_week": "sunday"}, "UTC"),
    "quarters": ({"minute": "0", "hour": "6", "day_of_month": "1", "month_of_year": "*/3"}, "UTC"),
    "some-days": ({"minute": "5", "hour": "4", "day_of_month": "1,15"}, "UTC"),
    "both-days": ({"minute": 0, "hour": 8, "day_of_month": "1-7", "day_of_week": "mon"}, "UTC"),
}


def times_of(given, timezone):
    """Run beat's loop on a clock of our own."""
    app, now = Celery("recorded"), [BEGIN]
    app.conf.timezone = timezone
    tz = ZoneInfo(timezone)
    asked = crontab(nowfun=lambda: now[0].astimezone(tz), app=app, **given)
    last, found = BEGIN, []
    while len(found) < MOST:
        now[0] = last + max(asked.remaining_estimate(last.astimezone(tz)), timedelta(seconds=1))
        is_due, wait = asked.is_due(last.astimezone(tz))
        while not is_due:
            now[0] += timedelta(seconds=max(wait, 1))
            is_due, wait = asked.is_due(last.astimezone(tz))
        if now[0] > BEGIN + YEAR:
            break
        found.append(now[0].timestamp())
        last = now[0]
    return found


def tables():
    """Make the tables with their migrations, and rows of every kind."""
    import django
    from django.conf import settings
    from django.core.management import call_command

    file = Path(tempfile.mkdtemp()) / "beat.db"
    settings.configure(
        INSTALLED_APPS=["django_celery_beat"], USE_TZ=True, TIME_ZONE="UTC",
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": str(file)}},
    )  # fmt: skip
    django.setup()
    call_command("migrate", verbosity=0)
    from django_celery_beat.models import (
        ClockedSchedule,
        CrontabSchedule,
        IntervalSchedule,
        PeriodicTask,
        SolarSchedule,
    )

    hours = IntervalSchedule.objects.create(every=6, period="hours")
    paris = CrontabSchedule.objects.create(minute="30", hour="9", timezone=ZoneInfo(PARIS))
    clocked = ClockedSchedule.objects.create(clocked_time=datetime(2027, 6, 1, tzinfo=UTC))
    sun = SolarSchedule.objects.create(event="sunrise", latitude=48.8, longitude=2.3)
    last = datetime(2026, 12, 31, 20, tzinfo=UTC)
    for name, more in {
        "every six hours": {"interval": hours, "kwargs": '{"shop": 1}', "last_run_at": last, "total_run_count": 9},
        "in the morning": {"crontab": paris, "queue": "mail", "description": "a letter", "last_run_at": last},
        "never ran": {"crontab": paris},
        "switched off": {"interval": hours, "enabled": False},
        "once": {"clocked": clocked, "one_off": True},
        "once, done": {
            "clocked": clocked,
            "one_off": True,
            "last_run_at": last,
            "total_run_count": 1,
            "enabled": False,
        },
        "positional": {"interval": hours, "args": "[1, 2]", "last_run_at": last},
        "at sunrise": {"solar": sun},
    }.items():
        PeriodicTask.objects.create(name=name, task="shop.tasks.work", **more)
    with sqlite3.connect(file) as connection:
        return [line for line in connection.iterdump() if '"django_celery_beat_' in line]


def main():
    entries = {}
    for name, (given, timezone) in ENTRIES.items():
        made = crontab(**given)
        entries[name] = {
            "kind": type(made).__name__, "timezone": timezone, "times": times_of(given, timezone),
            **{f"_orig_{field}": str(getattr(made, f"_orig_{field}")) for field in FIELDS},
        }  # fmt: skip
    others = {
        "every": {"kind": type(schedule(30)).__name__, "run_every": schedule(30).run_every.total_seconds()},
        "sun": {"kind": solar.__name__},  # making one needs another library
    }
    whole = {"version": celery.__version__, "begin": BEGIN.timestamp(), "entries": entries, "others": others}
    json.dump(whole | {"tables": tables()}, sys.stdout)


if __name__ == "__main__":
    main()

"""Record jobs of the real APScheduler 3, with their due times over a year with two clock changes.

The peer is no dependency of the tests. To record again:

    python -m venv /tmp/peers && /tmp/peers/bin/pip install "apscheduler<4" sqlalchemy
    cd tests/features/transfer/peers && /tmp/peers/bin/python record_apscheduler.py > apscheduler.json

Each job was added to a SQLAlchemyJobStore; `job_state` is the pickle of its row, and `times` are the answers of its
trigger from `BEGIN` on, in seconds since 1970.
"""

import base64
import json
import sys
from datetime import UTC, datetime, timedelta

import apscheduler
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.combining import OrTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger
from sqlalchemy import create_engine, text

BEGIN = datetime(2027, 1, 1, tzinfo=UTC)  # clocks of Paris change on 28 March and 31 October
YEAR = timedelta(days=365)
MOST = 800
PARIS = "Europe/Paris"
START = datetime(2027, 1, 1, 0, 7, tzinfo=UTC)

JOBS = {
    "interval": (IntervalTrigger(hours=12, start_date=START, timezone="UTC"), {}),
    "interval-paris": (IntervalTrigger(days=1, start_date=START, timezone=PARIS), {"kwargs": {"shop": "one"}}),
    "jitter": (IntervalTrigger(days=1, start_date=START, timezone="UTC", jitter=120), {}),
    "date": (DateTrigger(run_date=datetime(2027, 5, 1, 12, tzinfo=UTC)), {}),
    "daily": (CronTrigger(hour=9, minute=30, timezone="UTC"), {}),
    "daily-paris": (CronTrigger(hour=9, minute=30, timezone=PARIS), {"coalesce": False, "misfire_grace_time": None}),
    "gap": (CronTrigger(hour=2, minute=30, timezone=PARIS), {}),
    "gap-many": (CronTrigger(hour=2, minute="*/20", day="25-31", timezone=PARIS), {}),
    "real-time": (CronTrigger(minute=15, hour="*/12", timezone=PARIS), {}),
    "weekdays": (CronTrigger(day_of_week="mon-fri", hour=8, timezone=PARIS), {}),
    "weekday-numbers": (CronTrigger(day_of_week="0,6", hour=8, timezone="UTC"), {"max_instances": 3}),
    "weekday-step": (CronTrigger(day_of_week="*/2", hour=8, timezone="UTC"), {}),
    "last-day": (CronTrigger(day="last", hour=23, timezone="UTC"), {}),
    "third-friday": (CronTrigger(day="3rd fri", hour=17, timezone="UTC"), {}),
    "last-friday": (CronTrigger(day="last fri", hour=17, timezone="UTC"), {}),
    "crontab": (CronTrigger.from_crontab("5 4 1,15 jan-jun *", timezone="UTC"), {}),
    "both-days": (CronTrigger(day="1-7", day_of_week="mon", hour=8, timezone="UTC"), {}),
    "seconds": (CronTrigger(second="*/10", timezone="UTC"), {}),
    "year": (CronTrigger(year=2028, month=2, day=29, timezone="UTC"), {}),
    "week": (CronTrigger(week=20, timezone="UTC"), {}),
    "either": (OrTrigger([IntervalTrigger(hours=1), CronTrigger(hour=2)]), {}),
    "positional": (IntervalTrigger(days=2, start_date=START, timezone="UTC"), {"args": ["a", 2]}),
    "paused": (CronTrigger(hour=3, timezone="UTC"), {"next_run_time": None}),
}


def work(*args, **kwargs):
    """The function of every job."""


def times_of(trigger):
    """What the trigger answers for a year; jitter is left out, as it is chance."""
    if getattr(trigger, "jitter", None):
        trigger.jitter = None
    found, previous = [], None
    while len(found) < MOST:
        at = trigger.get_next_fire_time(previous, BEGIN if previous is None else previous)
        if at is None or at > BEGIN + YEAR:
            break
        found.append(at.timestamp())
        previous = at
    return found


def main():
    engine = create_engine("sqlite://")
    scheduler = BackgroundScheduler(jobstores={"default": SQLAlchemyJobStore(engine=engine)})
    scheduler.start(paused=True)
    for name, (trigger, options) in JOBS.items():
        given = {"next_run_time": trigger.get_next_fire_time(None, BEGIN)} | options
        scheduler.add_job(work, trigger, id=name, name=name, **given)
    with engine.connect() as connection:
        rows = connection.execute(text("SELECT id, next_run_time, job_state FROM apscheduler_jobs")).fetchall()
    jobs = [
        {
            "id": row.id,
            "next_run_time": row.next_run_time,
            "job_state": base64.b64encode(row.job_state).decode(),
            "times": times_of(JOBS[row.id][0]),
        }
        for row in rows
    ]
    scheduler.shutdown()
    json.dump({"version": apscheduler.version, "begin": BEGIN.timestamp(), "jobs": jobs}, sys.stdout, indent=None)


if __name__ == "__main__":
    main()

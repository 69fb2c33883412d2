"""APScheduler 3 on SQLAlchemy's job store, with its best numbers of threads: 4 on SQLite, 20 on PostgreSQL.

Another process cannot wake it, so its latency is measured inside one process.
"""

import math
import os
import time
from datetime import UTC, datetime
from typing import Any

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler

from benchmarks.marks import mark
from benchmarks.subjects.verbs import Subject, main

URL = os.environ["DATABASE_URL"].replace("postgresql://", "postgresql+psycopg://")
THREADS = 4 if URL.startswith("sqlite") else 20
FOREVER = 10**6


class ApScheduler(Subject):
    def __init__(self) -> None:
        self.scheduler = BackgroundScheduler(
            jobstores={"default": SQLAlchemyJobStore(url=URL)},
            executors={"default": ThreadPoolExecutor(THREADS)},
            job_defaults={"misfire_grace_time": None, "max_instances": FOREVER},
            timezone=UTC,
        )

    async def open(self) -> None:
        self.scheduler.start(paused="HERE" not in os.environ)

    async def one(self, number: int) -> None:
        self.scheduler.add_job(mark, "date", run_date=None, args=(number,))

    def work(self) -> None:
        self.scheduler.start()
        time.sleep(FOREVER)

    def recur(self, count: int, seconds: float) -> dict[str, Any]:
        self.scheduler.start(paused=True)
        first = datetime.fromtimestamp(math.ceil(time.time()), UTC)
        for number in range(count):
            self.scheduler.add_job(tick, "interval", seconds=1, start_date=first, id=str(number))
        began = math.ceil(time.time() + 0.3)
        time.sleep(began - 0.2 - time.time())
        self.scheduler.resume()
        time.sleep(began + seconds - time.time())
        return {"began": began}


def tick() -> None:
    mark(round((time.time() % 1) * 1e6))  # a lower bound of the lateness: the part of a second


if __name__ == "__main__":
    from benchmarks.subjects import apscheduler  # the store needs this module's name, not __main__

    tick = apscheduler.tick
    main(ApScheduler)

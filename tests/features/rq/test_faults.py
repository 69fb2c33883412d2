"""A failure at every statement between two messages: nothing is lost, nothing completes twice."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from redis import Redis
from redis.client import Pipeline

import ostinato.rq
from ostinato.core.schedule import Every
from ostinato.rq import execute_scheduled_job, recover_scheduled_jobs
from ostinato.store.database import Tx

HOUR = timedelta(hours=1)


class Killed(BaseException):
    """A kill -9, which no code handles."""


class Misfortune:
    """A fault that kills the process at its n-th statement to the database or Redis."""

    def __init__(self, monkeypatch) -> None:
        self._left: int | None = None
        for owner, name in [(Tx, "_find"), (Redis, "execute_command"), (Pipeline, "execute")]:
            monkeypatch.setattr(owner, name, self._before(getattr(owner, name)))

    def _before(self, original):
        def call(*args, **named):
            if self._left is not None:
                self._left -= 1
                if self._left < 0:
                    raise Killed
            return original(*args, **named)

        return call

    def strikes(self, job_id: str, after: int) -> bool:
        """Execute a message that is killed at the n-th statement; return True if it was reached."""
        self._left = after
        try:
            execute_scheduled_job(job_id)
        except Killed:
            return True
        finally:
            self._left = None
        return False


def delivered(redis, message: str) -> None:
    """Leave a message as RQ does when the worker that took it has died."""
    redis.zrem("rq:scheduled:default", message)
    redis.lrem("rq:queue:default", 0, message)
    redis.hset(f"rq:job:{message}", mapping={"status": "started", "started_at": "2026-01-01T00:00:00.000000Z"})


def close_the_dead(app) -> None:
    """Do the work of a sweeper after leases have expired."""
    for lease in app.parts.store.workers.leases():
        app.parts.store.workers.close_lost(lease, app.now())


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_worker_that_is_killed_at_any_statement_neither_loses_nor_doubles_an_occurrence(
    app, clock, redis, scheduled, line, work, monkeypatch
):
    ran: list[int] = []

    @app.task
    def hourly() -> None:
        ran.append(1)

    misfortune, struck = Misfortune(monkeypatch), 0
    app.schedule(hourly, every="1h", key="hourly", on_lost="retry")
    app.apply_declarations()
    for statement in range(60):
        before = app.jobs.get("hourly")
        clock.advance(before.next_run_at - clock.now())
        delivered(redis, f"sched-{before.id}-n{before.facts.last_number + 1}-rc0")
        struck += misfortune.strikes(str(before.id), statement)

        ostinato.rq.use(app)
        close_the_dead(app)
        for _ in range(3):  # lost runs return at once
            recover_scheduled_jobs()
            work()
        after = app.jobs.get("hourly")
        assert after.facts.completed == before.facts.completed + 1, statement
        assert after.facts.last_number == before.facts.last_number + 1, statement
        assert after.facts.skipped == 0
        assert after.lives == ()
        assert list(scheduled()) == [f"sched-{after.id}-n{after.facts.last_number + 1}-rc0"], statement
        assert line() == []
        assert recover_scheduled_jobs() == 0
        if statement >= struck:
            break
    assert struck > 20
    assert statement >= struck  # the last message was executed


def test_a_flushed_redis_gets_a_hundred_schedules_back(app, redis, scheduled):
    @app.task
    def hourly() -> None:
        pass

    app.schedule(hourly, every="1h", key="first")
    (definition,) = app.declared
    app.jobs.create([replace(definition, key=None, schedule=Every(HOUR)) for _ in range(100)])
    before = scheduled()
    assert len(before) == 100
    redis.flushall()
    assert recover_scheduled_jobs() == 100
    assert recover_scheduled_jobs() == 0
    assert scheduled() == before


def test_a_redis_that_is_away_neither_fails_nor_holds_up_a_command(private_valkey, new_app):
    app = new_app(engine="rq", redis_url=private_valkey.url)
    private_valkey.kill()

    @app.task
    def fine() -> int:
        return 7

    handles = [fine.enqueue() for _ in range(3)]
    private_valkey.start()
    ostinato.rq.use(app)
    assert recover_scheduled_jobs() == 3
    with private_valkey.client() as redis:
        assert redis.llen("rq:queue:default") == len(handles)
    ostinato.rq._engine = None

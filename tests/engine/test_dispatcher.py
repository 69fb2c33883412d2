"""The dispatcher, driven by hand, on both databases."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest

from ostinato.core.errors import StoreUnavailable
from ostinato.core.times import zone_data_version
from ostinato.engine.dispatcher import AHEAD, BATCH
from ostinato.store.audit import ZONE_DATA
from tests.build import HOUR, MINUTE, NOW, SECOND
from tests.engine.at_work import away
from tests.engine.conftest import Rig
from tests.waiting import until

IN_2036 = datetime(2036, 1, 1, tzinfo=UTC)


@contextmanager
def no_writing(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    def refused(*_: object, **__: object) -> None:
        raise AssertionError("this step wrote something")

    with monkeypatch.context() as patch:
        patch.setattr(rig.store.database, "write", refused)
        yield


def test_an_idle_step_writes_nothing(rig: Rig, monkeypatch):
    dispatcher = rig.dispatcher()
    with no_writing(rig, monkeypatch):
        assert dispatcher.step().wake_at is None
    rig.add(every=HOUR)
    rig.enqueue(task="waits_for_a_worker")
    with no_writing(rig, monkeypatch):
        assert dispatcher.step() == dispatcher.step()


def test_what_is_due_is_fired_once_however_many_dispatchers_there_are(rig: Rig):
    (job_id,) = rig.add(every=HOUR)
    first, second = rig.dispatcher(), rig.dispatcher()
    rig.clock.advance(HOUR)
    assert (first.step().moved, second.step().moved) == (1, 0)
    assert [live.due_at for live in rig.live(job_id)] == [NOW + HOUR]


async def test_a_due_time_is_fired_ahead_but_never_claimed_early(rig: Rig):
    rig.task(work)
    (job_id,) = rig.add(every=HOUR)
    dispatcher, worker = rig.dispatcher(), await rig.worker()
    due = NOW + HOUR
    assert dispatcher.step().wake_at == due - AHEAD
    rig.clock.set(due - AHEAD - timedelta(microseconds=1))
    assert dispatcher.step().moved == 0
    rig.clock.set(due - AHEAD)
    assert dispatcher.step().moved == 1
    assert [live.run_at for live in rig.live(job_id)] == [due]
    rig.clock.set(due - timedelta(microseconds=1))
    assert await worker.step() == type(await worker.step())(0, due)
    rig.clock.set(due)
    assert (await worker.step()).moved == 1


def test_a_due_time_is_not_fired_ahead_while_the_job_is_live(rig: Rig):
    (job_id,) = rig.add(every=HOUR)
    dispatcher = rig.dispatcher()
    rig.clock.advance(HOUR)
    dispatcher.step()
    rig.clock.advance(HOUR - AHEAD / 2)
    step = dispatcher.step()
    assert (step.moved, step.wake_at) == (0, NOW + 2 * HOUR)  # overlap is decided at the due time
    rig.clock.advance(AHEAD / 2)
    assert dispatcher.step().moved == 1
    assert [skip.reason for skip in rig.store.history.skips(job_id, 9)] == ["overlap"]


async def test_the_next_wake_is_the_earliest_of_due_times_and_waiting_rows(rig: Rig):
    rig.task(fails)
    rig.add(every=HOUR)
    rig.enqueue(task="fails", max_retries=1)
    dispatcher, worker = rig.dispatcher(), await rig.worker()
    await worker.step()
    await until(lambda: not worker.running)
    await worker.flush()
    retry_at = NOW + MINUTE
    assert dispatcher.step().wake_at == retry_at - AHEAD
    rig.clock.set(retry_at - AHEAD)
    assert dispatcher.step().wake_at == retry_at  # a waiting row is not admitted ahead
    assert (await worker.step()).moved == 0
    rig.clock.set(retry_at)
    assert dispatcher.step().moved == 1
    assert dispatcher.step().wake_at == NOW + HOUR - AHEAD
    assert (await worker.step()).moved == 1


def test_more_than_a_batch_is_due_and_the_next_step_comes_at_once(rig: Rig):
    rig.add(BATCH + 10, every=HOUR)
    dispatcher = rig.dispatcher()
    rig.clock.advance(HOUR)
    step = dispatcher.step()
    assert (step.moved, step.wake_at) == (BATCH, rig.clock.now())
    assert dispatcher.step().moved == 10


def test_g5_a_clock_set_back_is_told_and_next_times_are_computed_anew(rig: Rig, caplog):
    caplog.set_level(logging.WARNING, "ostinato")
    rig.clock.set(IN_2036)
    dispatcher = rig.dispatcher()
    (job_id,) = rig.add(every=HOUR)
    rig.clock.set(NOW)
    dispatcher.step()
    dispatcher.step()
    assert NOW < rig.job(job_id).facts.next_due_at <= NOW + HOUR
    assert [event.job_id for event in rig.events("job.rewound")] == [job_id]
    assert len(rig.events("clock.jumped")) == 1
    assert [record.getMessage().split("  ")[0] for record in caplog.records] == ["The clock was set"]


def test_g5_a_clock_set_back_while_the_store_was_away_is_not_forgotten(rig: Rig, monkeypatch):
    rig.clock.set(IN_2036)
    dispatcher = rig.dispatcher()
    (job_id,) = rig.add(every=HOUR)
    rig.clock.set(NOW)
    with monkeypatch.context() as patch:
        patch.setattr(rig.store.queue, "rewind", away)
        with pytest.raises(StoreUnavailable):
            dispatcher.step()
    dispatcher.step()
    assert rig.job(job_id).facts.next_due_at <= NOW + HOUR


def test_g5_a_process_that_starts_after_the_clock_was_set_back_rewinds_too(rig: Rig):
    rig.clock.set(IN_2036)
    (job_id,) = rig.add(every=HOUR)
    rig.clock.set(NOW)
    rig.dispatcher().start()
    assert rig.job(job_id).facts.next_due_at <= NOW + HOUR


def test_a_clock_set_forward_is_told_and_what_is_due_fires(rig: Rig):
    (job_id,) = rig.add(every=HOUR)
    dispatcher = rig.dispatcher()
    rig.clock.set(NOW + 5 * HOUR)
    assert dispatcher.step().moved == 1
    assert len(rig.events("clock.jumped")) == 1
    assert [live.due_at for live in rig.live(job_id)] == [NOW + 5 * HOUR]  # the newest; the rest is a skip
    assert [skip.count for skip in rig.store.history.skips(job_id, 9)] == [4]


def test_g5_newer_zone_data_recomputes_cron_jobs_once(rig: Rig):
    (cron,) = rig.add(cron="0 9 * * *")
    (hourly,) = rig.add(every=HOUR)
    right = rig.job(cron).facts.next_due_at
    rig.store.remember(ZONE_DATA, "2000a")
    rig.sql("UPDATE {jobs} SET next_due_at = :at", at=NOW + 9 * HOUR)
    rig.dispatcher().start()
    assert rig.job(cron).facts.next_due_at == right
    assert rig.job(hourly).facts.next_due_at == NOW + 9 * HOUR  # no zone, no change
    assert rig.store.remembered(ZONE_DATA) == zone_data_version()
    rig.sql("UPDATE {jobs} SET next_due_at = :at", at=NOW + 9 * HOUR)
    rig.dispatcher().start()
    assert rig.job(cron).facts.next_due_at == NOW + 9 * HOUR
    rig.sql("DELETE FROM {jobs}")  # the auditor would report this


def test_older_zone_data_than_another_process_has_used_changes_nothing(rig: Rig):
    (cron,) = rig.add(cron="0 9 * * *")
    rig.store.remember(ZONE_DATA, "9999z")
    rig.sql("UPDATE {jobs} SET next_due_at = :at", at=NOW + 9 * HOUR)
    rig.dispatcher().start()
    assert rig.job(cron).facts.next_due_at == NOW + 9 * HOUR
    assert rig.store.remembered(ZONE_DATA) == "9999z"
    rig.sql("DELETE FROM {jobs}")  # the auditor would report this


def test_one_job_that_no_rule_can_deal_with_does_not_stop_the_others(rig: Rig, monkeypatch):
    bad, good = rig.add(2, every=HOUR)
    rig.sql("UPDATE {jobs} SET policies = '{}' WHERE id = :id", id=bad)
    rig.sql('UPDATE {jobs} SET schedule = \'{"kind": "tomorrow"}\' WHERE id = :id', id=bad)
    dispatcher = rig.dispatcher()
    rig.clock.advance(HOUR)
    step = dispatcher.step()
    assert step.wake_at > rig.clock.now() + SECOND  # not again and again
    assert [live.job_id for live in rig.live()] == [good]
    rig.sql("DELETE FROM {jobs} WHERE id = :id", id=bad)


async def work() -> None:
    pass


async def fails() -> None:
    raise ValueError("no")


def test_how_long_ago_it_stepped_can_be_asked(rig, monkeypatch):
    dispatcher = rig.dispatcher()
    rig.clock.advance(HOUR)
    assert dispatcher.idle_for() == 3600
    dispatcher.step()
    assert dispatcher.idle_for() == 0
    rig.clock.advance(HOUR)
    monkeypatch.setattr(rig.store.queue, "next_wake", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        dispatcher.step()
    assert dispatcher.idle_for() == 3600  # a step that fails does not count

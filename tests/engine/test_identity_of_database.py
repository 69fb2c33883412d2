"""A running worker whose database was replaced, or restored to an earlier state."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ostinato.core.errors import DatabaseReplaced, StoreUnavailable
from ostinato.engine.lease import Lease
from ostinato.service.doctor import FindingState, judge
from ostinato.store.doctor import Checkup
from tests.build import DAY, HOUR, MINUTE, SECOND
from tests.engine.at_work import NOTHING, at_a_gate, idle
from tests.engine.conftest import Rig
from tests.engine.test_lease import joined
from tests.waiting import until

BACK = 11 * SECOND


def change(rig: Rig, sql: str, **params: Any) -> None:
    database = rig.store.database
    with database.write() as tx:
        tx.run(database.dialect.statement(sql), **params)


def go_back(rig: Rig) -> None:
    """Change the leases as a restore to an earlier state does."""
    change(rig, "UPDATE {workers} SET renewed_at = renewed_at - :by", by=BACK // SECOND * 1_000_000)


async def test_a_worker_claims_nothing_from_a_database_that_went_back(rig: Rig):
    """Also before its next renewal: the claim itself requires the worker's last renewal."""
    _, _, worker = await at_a_gate(rig)
    (job_id,) = rig.enqueue()
    go_back(rig)
    assert await worker.step() == NOTHING
    assert rig.live(job_id)[0].worker_id is None


async def test_a_worker_of_a_database_that_went_back_offers_its_results_and_joins_anew(rig: Rig):
    gate, first, worker = await at_a_gate(rig)
    gate.opened.set()
    await until(lambda: not worker.running)
    go_back(rig)
    old = worker.lease.worker_id
    worker.lease.renew(worker.running)
    assert worker.lease.closed
    worker.abandon()
    await worker.join()
    assert worker.lease.worker_id not in (old, None)
    await idle(worker)
    assert rig.results(first) == ["completed"], "its fence was still good"
    (event,) = rig.events("database.went_back")
    assert (event.worker_id, json.loads(event.data)) == (old, {"seconds": BACK.total_seconds()})
    (second,) = rig.enqueue()
    assert (await worker.step()).moved == 1
    await idle(worker)
    assert rig.results(second) == ["completed"]


def test_a_database_that_lost_the_worker_itself_went_back_too(rig: Rig):
    lease = joined(rig)
    change(rig, "DELETE FROM {workers}")
    lease.renew(0)
    assert lease.closed
    assert [json.loads(event.data) for event in rig.events("database.went_back")] == [{"seconds": None}]


def test_the_doctor_shows_for_a_day_that_the_database_went_back(rig: Rig):
    lease = joined(rig)
    assert looks(rig) == []
    go_back(rig)
    lease.renew(0)
    rig.clock.advance(HOUR)
    (finding,) = looks(rig)
    assert "restored to an earlier state" in finding.finding
    rig.clock.advance(DAY)
    assert looks(rig) == []


def looks(rig: Rig) -> list[Any]:
    now = rig.clock.now()
    found = judge(Checkup(rig.store.database).condition(now, MINUTE, DAY), now)
    return [each for each in found if each.subject == "identity" and each.state is FindingState.LOOK]


def test_a_renewal_whose_answer_was_lost_is_no_alarm_though_the_clock_was_set_back(rig: Rig, monkeypatch):
    lease = joined(rig)
    rig.clock.set(rig.clock.now() - HOUR)
    lose_the_answer(rig, lease, monkeypatch)
    rig.clock.advance(SECOND)
    lease.renew(0)
    assert not lease.closed
    rig.clock.advance(SECOND)
    lease.renew(0)
    assert not lease.closed
    assert rig.events("database.went_back") == []


def lose_the_answer(rig: Rig, lease: Lease, monkeypatch: pytest.MonkeyPatch) -> None:
    renew = rig.store.workers.renew

    def unanswered(*args: Any) -> Any:
        renew(*args)
        raise StoreUnavailable("No answer.")

    with monkeypatch.context() as patch:
        patch.setattr(rig.store.workers, "renew", unanswered)
        with pytest.raises(StoreUnavailable):
            lease.renew(0)


@pytest.mark.parametrize("name", ["database_id", "generation"])
def test_a_worker_stops_when_it_renews_in_another_database(rig: Rig, name: str):
    lease = joined(rig)
    change(rig, "UPDATE {meta} SET value = 'other' WHERE key = :name", name=name)
    with pytest.raises(DatabaseReplaced, match="is another database"):
        lease.renew(0)
    with pytest.raises(DatabaseReplaced):
        joined(rig)


def test_a_closed_worker_is_told_so_and_not_that_the_database_went_back(rig: Rig):
    lease = joined(rig)
    (seen,) = rig.store.workers.leases()
    rig.store.workers.close_lost(seen, rig.clock.now())
    lease.renew(0)
    assert lease.closed
    assert rig.events("database.went_back") == []


def test_how_far_it_went_back_is_told(rig: Rig):
    lease = joined(rig)
    go_back(rig)
    assert rig.store.workers.renew(lease.worker_id, rig.clock.now(), 30 * SECOND, 0, lease.at_least) is None
    (event,) = rig.events("database.went_back")
    assert json.loads(event.data)["seconds"] == BACK.total_seconds()

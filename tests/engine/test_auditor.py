"""The auditor: in slices, in rounds, and each flaw reported once."""

import json

import pytest

from ostinato.core.audit import FlawKind
from ostinato.engine import sweeper as auditing
from ostinato.engine.sweeper import Auditor
from ostinato.service.doctor import FindingState, judge, still_flawed
from ostinato.store import audit
from ostinato.store.doctor import Checkup
from tests.build import DAY, HOUR, MINUTE
from tests.engine.conftest import Rig


def an_auditor(rig: Rig) -> Auditor:
    return Auditor(rig.store, rig.clock, rig.chance, rig.telemetry)


def wrong_counter(rig: Rig, job_id, by: int = 1) -> None:
    rig.sql("UPDATE {jobs} SET completed = completed + :by WHERE id = :id", id=job_id, by=by)


@pytest.fixture
def flawed(rig: Rig):
    """Three jobs; the counter of one is wrong."""
    _, job_id, _ = rig.add(3, every=HOUR)
    wrong_counter(rig, job_id)
    yield job_id
    rig.sql("DELETE FROM {jobs}")  # or the rig would report it


def test_a_flaw_is_reported_when_it_is_found_twice_in_a_row(rig: Rig, flawed):
    auditor = an_auditor(rig)
    assert auditor.step() == []
    assert rig.events("audit.flaw") == []
    (flaw,) = auditor.step()
    assert (flaw.job_id, flaw.kind) == (flawed, FlawKind.COUNTER)
    (event,) = rig.events("audit.flaw")
    assert event.job_id == flawed
    assert json.loads(event.data) == {"flaw": "counter", "sentence": flaw.sentence}
    assert rig.telemetry.counts.snapshot()["flaw", "counter"] == 1


def test_a_flaw_that_the_second_audit_does_not_find_is_not_reported(rig: Rig, flawed):
    auditor = an_auditor(rig)
    auditor.step()
    wrong_counter(rig, flawed, -1)
    for _ in range(3):
        assert auditor.step() == []
    assert rig.events("audit.flaw") == []


def test_a_flaw_is_reported_once_a_day_by_all_workers_together(rig: Rig, flawed):
    auditors = [an_auditor(rig) for _ in range(3)]
    for _ in range(10):
        rig.clock.advance(MINUTE)
        for auditor in auditors:
            auditor.step()
    assert len(rig.events("audit.flaw")) == 1
    assert rig.telemetry.counts.snapshot()["flaw", "counter"] == 3  # each process has found it
    rig.clock.advance(DAY)
    for auditor in auditors:
        auditor.step()
    assert len(rig.events("audit.flaw")) == 2, "it is still there"
    assert rig.telemetry.counts.snapshot()["flaw", "counter"] == 3


def test_a_flaw_that_was_mended_and_comes_back_is_counted_again(rig: Rig, flawed):
    auditor = an_auditor(rig)
    auditor.step(), auditor.step()
    wrong_counter(rig, flawed, -1)
    auditor.step(), auditor.step()
    wrong_counter(rig, flawed)
    auditor.step(), auditor.step()
    assert rig.telemetry.counts.snapshot()["flaw", "counter"] == 2


def test_slices_go_round_and_come_to_every_job(rig: Rig, monkeypatch):
    """A slice ends when its time is used up; the next continues there."""
    monkeypatch.setattr(auditing, "JOBS", 2)
    jobs = rig.add(7, every=HOUR)
    auditor, looked = an_auditor(rig), []
    page = auditor._store.audit.page

    def slow(after, now, limit, most):
        looked.append(page(after, now, limit, most))
        rig.clock.advance(MINUTE)  # far more than a slice
        return looked[-1]

    monkeypatch.setattr(auditor._store.audit, "page", slow)
    for _ in range(4):
        auditor.step()
    assert [each.jobs for each in looked] == [2, 2, 2, 1]
    assert [each.last is None for each in looked] == [False, False, False, True]
    assert looked[0].last == sorted(jobs)[1]
    auditor.step()
    assert looked[-1].last == looked[0].last, "and again from the beginning"


def test_a_slice_ends_after_so_many_executions(rig: Rig, monkeypatch):
    """Time is checked between two pages: a page is bounded by rows, not only by jobs."""
    monkeypatch.setattr(auditing, "ROWS", 3)
    ids = sorted(rig.add(4, every=HOUR))
    rig.sql("UPDATE {jobs} SET completed = 2")
    read = rig.store.audit._database.read
    auditor, reads = an_auditor(rig), []

    def slow():
        reads.append(True)
        rig.clock.advance(MINUTE)  # far more than a slice
        return read()

    monkeypatch.setattr(rig.store.audit._database, "read", slow)
    auditor._slice()
    assert (len(reads), auditor._after) == (1, ids[0])
    rig.sql("DELETE FROM {jobs}")


def test_the_dashboard_shows_reported_flaws_and_audits_nothing(rig: Rig, flawed, monkeypatch):
    auditor = an_auditor(rig)
    auditor.step(), auditor.step()
    rig.clock.advance(DAY)
    monkeypatch.setattr(audit, "_audited", None)
    (flaw,) = Checkup(rig.store.database).condition(rig.clock.now(), MINUTE, DAY).flaws
    assert (flaw.job_id, flaw.kind) == (flawed, FlawKind.COUNTER)
    assert "it counts 1 completed" in flaw.sentence
    rig.clock.advance(DAY)
    assert Checkup(rig.store.database).condition(rig.clock.now(), MINUTE, DAY).flaws == ()


def test_the_doctor_shows_a_flaw_as_long_as_it_is_there(rig: Rig, flawed):
    def audited():
        now = rig.clock.now()
        condition = still_flawed(rig.store, Checkup(rig.store.database).condition(now, MINUTE, DAY), now)
        return next(each for each in judge(condition, now) if each.subject == "audit")

    assert audited().state is FindingState.OK
    auditor = an_auditor(rig)
    auditor.step(), auditor.step()
    finding = audited()
    assert (finding.state, "1 flaw" in finding.finding) == (FindingState.LOOK, True)
    assert str(flawed) in finding.finding
    assert "db check" in finding.advice
    rig.sql("UPDATE {jobs} SET next_due_at = NULL WHERE id = :id", id=flawed)
    assert audited().state is FindingState.WRONG, "it does not run any more"
    rig.sql("UPDATE {jobs} SET completed = 0, next_due_at = anchor + 3600000000 WHERE id = :id", id=flawed)
    assert audited().state is FindingState.OK

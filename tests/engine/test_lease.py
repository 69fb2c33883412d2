"""The lease of a worker: when it is trusted, and what a renewal reports."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from ostinato.core.errors import StoreUnavailable
from ostinato.engine.lease import MOST_BUGS, Lease, Renewing
from ostinato.store.workers import NewWorker
from tests.build import NOW, SECOND
from tests.engine.at_work import away
from tests.engine.conftest import LEASE, Rig
from tests.waiting import PATIENCE

QUICK = timedelta(milliseconds=5)


def a_worker(rig: Rig) -> NewWorker:
    return NewWorker(rig.chance.id(NOW), "tests", "here", 1, "1", ("work",), (), 5)


def joined(rig: Rig) -> Lease:
    lease = Lease(rig.store, rig.clock, LEASE)
    lease.join(a_worker(rig))
    return lease


def close(rig: Rig) -> None:
    (seen,) = rig.store.workers.leases()
    rig.store.workers.close_lost(seen, rig.clock.now())


def test_nothing_is_trusted_before_the_worker_has_come(rig: Rig):
    lease = Lease(rig.store, rig.clock, LEASE)
    assert (lease.trusted, lease.worker_id, lease.closed, lease.drain) == (False, None, False, False)
    lease.renew(0)
    assert not lease.trusted


def test_a_lease_is_trusted_for_four_fifths_of_its_time(rig: Rig):
    lease = joined(rig)
    rig.clock.advance(0.8 * LEASE - SECOND)
    assert lease.trusted
    rig.clock.advance(SECOND)
    assert not lease.trusted


def test_the_time_is_counted_from_the_sending_not_from_the_answer(rig: Rig, monkeypatch):
    lease = joined(rig)
    slow_down(rig, monkeypatch, "renew", by=20 * SECOND)
    lease.renew(0)
    rig.clock.advance(4 * SECOND)
    assert not lease.trusted


def test_that_is_so_for_coming_to_work_too(rig: Rig, monkeypatch):
    slow_down(rig, monkeypatch, "join", by=20 * SECOND)
    lease = joined(rig)
    rig.clock.advance(4 * SECOND)
    assert not lease.trusted


def test_a_renewal_that_did_not_get_through_changes_nothing(rig: Rig, monkeypatch):
    lease = joined(rig)
    rig.clock.advance(20 * SECOND)
    with monkeypatch.context() as patch:
        patch.setattr(rig.store.workers, "renew", away)
        with pytest.raises(StoreUnavailable):
            lease.renew(0)
    assert lease.trusted
    rig.clock.advance(4 * SECOND)
    assert not lease.trusted
    lease.renew(3)
    assert lease.trusted
    (row,) = rig.store.workers.seen(rig.clock.now())
    assert (row.running, row.lease_until) == (3, rig.clock.now() + LEASE)


def test_an_expired_lease_that_nobody_closed_is_simply_renewed(rig: Rig):
    lease = joined(rig)
    rig.clock.advance(20 * LEASE)
    lease.renew(0)
    assert lease.trusted
    assert not lease.closed


def test_a_closed_row_is_learnt_and_never_opened_again(rig: Rig):
    lease = joined(rig)
    close(rig)
    assert lease.trusted  # it cannot know yet
    lease.renew(0)
    assert (lease.closed, lease.trusted) == (True, False)
    lease.renew(0)
    assert rig.store.workers.leases() == []
    lease.forget()
    lease.join(a_worker(rig))
    assert (lease.closed, lease.trusted) == (False, True)


def test_a_renewal_under_way_does_not_bring_back_what_was_forgotten(rig: Rig, monkeypatch):
    lease = joined(rig)
    renew = rig.store.workers.renew

    def forget_meanwhile(*args: Any) -> Any:
        lease.forget()
        return renew(*args)

    monkeypatch.setattr(rig.store.workers, "renew", forget_meanwhile)
    lease.renew(0)
    assert (lease.worker_id, lease.closed) == (None, False)


# -- the thread


class Scripted:
    """A lease whose renewals follow a script."""

    def __init__(self, *acts: Callable[[], None]) -> None:
        self.closed = self.trusted = False
        self._acts = list(acts)
        self.over = threading.Event()

    def renew(self, running: int) -> None:
        if len(self._acts) == 1:
            self.over.set()
        self._acts.pop(0)() if self._acts else None

    def regain(self) -> None:
        self.trusted = True

    def close(self) -> None:
        self.closed, self.trusted = True, False


def renewing(lease: Scripted, wakes: list[str], failures: list[Exception]) -> Renewing:
    return Renewing(lease, QUICK, lambda: 0, lambda: wakes.append("wake"), failures.append)  # type: ignore[arg-type]


def test_it_rings_when_the_worker_may_start_something_again(caplog):
    wakes: list[str] = []
    lease = Scripted(away, away, lambda: lease.regain(), lambda: None, lambda: None)
    thread = renewing(lease, wakes, [])
    assert lease.over.wait(PATIENCE)
    thread.close()
    assert wakes == ["wake"]
    assert caplog.records == []  # the loops report an unavailable store, once


def test_it_rings_when_the_row_is_closed():
    wakes: list[str] = []
    lease = Scripted(lambda: lease.close(), lambda: None)
    thread = renewing(lease, wakes, [])
    assert lease.over.wait(PATIENCE)
    thread.close()
    assert wakes


def test_a_bug_is_told_and_tried_again(caplog):
    caplog.set_level(logging.ERROR, "ostinato")
    failures: list[Exception] = []
    lease = Scripted(*[broken] * (MOST_BUGS - 1), lambda: None, broken, lambda: None)
    thread = renewing(lease, [], failures)
    assert lease.over.wait(PATIENCE)
    thread.close()
    assert failures == []
    assert len(caplog.records) == MOST_BUGS


def test_a_bug_that_stays_is_the_engines_business():
    failures: list[Exception] = []
    lease = Scripted(*[broken] * MOST_BUGS)
    thread = renewing(lease, [], failures)
    thread._thread.join(PATIENCE)
    assert [str(error) for error in failures] == ["a bug"]


def broken() -> None:
    raise RuntimeError("a bug")


def slow_down(rig: Rig, monkeypatch: pytest.MonkeyPatch, name: str, by: timedelta) -> None:
    call = getattr(rig.store.workers, name)

    def slow(*args: Any) -> Any:
        answer = call(*args)
        rig.clock.advance(by)
        return answer

    monkeypatch.setattr(rig.store.workers, name, slow)

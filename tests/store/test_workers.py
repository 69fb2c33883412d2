"""Workers and their leases; queues, as people see them."""

from dataclasses import replace
from uuid import uuid4

import pytest

from ostinato.core import lifecycle
from ostinato.core.errors import NotFound, StoreUnavailable
from ostinato.core.model import Status
from ostinato.core.policy import OnLost
from ostinato.core.task_schema import TaskSchema
from ostinato.store import settling
from ostinato.store.database import open_database
from ostinato.store.store import Store
from ostinato.store.workers import LATELY, LeaseSeen, NewWorker, Renewal
from tests.build import DAY, MINUTE, NOW, SECOND
from tests.store.conftest import LEASE


def lease_of(world, worker):
    return next(lease for lease in world.store.workers.leases() if lease.worker_id == worker)


# -- the life of a worker


def test_a_worker_that_joins_is_seen_with_what_it_can_do(world):
    worker = uuid4()
    who = NewWorker(worker, "shop", "host", 42, "1.0", ("b", "a"), ("q",), 7)
    world.store.workers.join(who, NOW, LEASE)
    world.store.workers.join(who, NOW + SECOND, LEASE)  # a repetition changes nothing
    (row,) = world.store.workers.seen(NOW)
    assert (row.id, row.app, row.host, row.pid, row.version, row.concurrency) == (
        worker,
        "shop",
        "host",
        42,
        "1.0",
        7,
    )
    assert (row.task_names, row.queues, row.running) == ({"a", "b"}, '["q"]', 0)
    assert (row.started_at, row.lease_until, row.closed_at) == (NOW, NOW + LEASE, None)
    assert [event.worker_id for event in world.events("worker.started")] == [worker]


def test_a_renewal_keeps_the_lease(world):
    worker = world.worker()
    world.advance(10 * SECOND)
    assert world.store.workers.renew(worker, world.now, LEASE, 3) == Renewal(drain=False)
    assert lease_of(world, worker) == LeaseSeen(worker, world.now, world.now + LEASE)
    assert world.store.workers.seen(world.now)[0].running == 3


def test_a_closed_or_unknown_worker_cannot_renew(world):
    worker = world.worker()
    world.store.workers.close_lost(lease_of(world, worker), world.now)
    assert world.store.workers.renew(worker, world.now, LEASE, 0) is None
    assert world.store.workers.renew(uuid4(), world.now, LEASE, 0) is None
    assert world.store.workers.leases() == []


def test_a_worker_that_is_to_drain_learns_it_when_it_renews(world):
    worker = world.worker()
    world.store.workers.drain(worker, world.now, "ops")
    assert world.store.workers.renew(worker, world.now, LEASE, 0) == Renewal(drain=True)
    assert [event.by for event in world.events("worker.drain_asked")] == ["ops"]
    world.store.workers.leave(worker, world.now)
    with pytest.raises(NotFound):
        world.store.workers.drain(worker, world.now, "ops")


def test_a_worker_that_leaves_hands_back_what_runs_and_spends_nothing(world):
    ids = world.enqueue(3)
    worker = world.worker()
    world.claim(worker)
    assert len(world.store.workers.leave(worker, world.now)) == 3
    assert {world.status(job_id) for job_id in ids} == {Status.PENDING}
    assert {(live.attempt, live.releases) for job_id in ids for live in world.lives(job_id)} == {(0, 1)}
    assert world.store.workers.leave(worker, world.now) == []
    assert len(world.events("worker.stopped")) == 1
    assert world.store.workers.seen(world.now)[0].closed_as == "stopped"
    world.check()


def test_what_was_claimed_without_its_worker_knowing_is_handed_back(world):
    """After a claim whose answer was lost."""
    world.enqueue(3)
    worker = world.worker()
    first = world.claim(worker, limit=1)[0].live
    known = {(first.id, first.fence)}
    world.claim(worker)
    assert len(world.store.workers.hand_back_unknown(worker, known, world.now)) == 2
    assert [live.id for live in world.store.history.live(10) if live.worker_id == worker] == [first.id]
    assert world.store.workers.hand_back_unknown(worker, known, world.now) == []


# -- lost


def test_a_lost_worker_is_closed_and_what_it_ran_is_lost_together(world):
    """G6."""
    ids = world.enqueue(3)
    worker = world.worker()
    world.claim(worker)
    world.advance(MINUTE)
    assert len(world.store.workers.close_lost(lease_of(world, worker), world.now)) == 3
    assert {e.outcome for job_id in ids for e in world.history(job_id)} == {"lost"}
    assert {(live.attempt, live.losses, live.failures) for job_id in ids for live in world.lives(job_id)} == {(1, 1, 0)}
    assert len(world.events("worker.lost")) == 1
    assert len(world.claim(world.worker())) == 3
    world.check()


def test_a_worker_that_renewed_since_it_was_seen_is_not_closed(world):
    worker = world.worker()
    world.enqueue()
    world.claim(worker)
    seen = lease_of(world, worker)
    world.advance(SECOND)
    world.store.workers.renew(worker, world.now, LEASE, 1)
    assert world.store.workers.close_lost(seen, world.now) == []
    assert lease_of(world, worker).renewed_at == world.now


def test_two_sweepers_that_find_one_dead_worker_settle_its_work_once(world):
    job_id = world.enqueue()[0]
    worker = world.worker()
    world.claim(worker)
    seen = lease_of(world, worker)
    world.advance(MINUTE)
    first = world.store.workers.close_lost(seen, world.now)
    assert (len(first), world.another().workers.close_lost(seen, world.now)) == (1, [])
    assert len(world.history(job_id)) == 1


def test_what_stands_under_a_closed_worker_is_lost_at_the_next_sweep(world):
    job_id = world.enqueue(on_lost=OnLost.FAIL)[0]
    worker = world.worker()
    world.claim(worker)
    world.sql("UPDATE {workers} SET closed_at = :now, closed_as = 'lost'", now=world.now)
    assert len(world.store.workers.settle_leftovers(world.now)) == 1
    assert world.status(job_id) is Status.FAILED
    assert world.store.workers.settle_leftovers(world.now) == []
    assert world.events("result.refused") == []


def test_what_stands_under_a_worker_that_is_long_gone_is_found_too(world):
    """All processes were down for a week in between."""
    world.enqueue()
    world.claim(world.worker())
    world.sql("DELETE FROM {workers}")
    world.advance(7 * DAY)
    sweeper = world.another()
    assert len(sweeper.workers.settle_leftovers(world.now)) == 1
    world.claim(world.worker())
    world.sql("UPDATE {workers} SET closed_at = 1, closed_as = 'lost'")
    assert sweeper.workers.settle_leftovers(world.now) == []  # checked a moment ago, and no worker was closed since
    world.advance(LATELY)
    assert len(sweeper.workers.settle_leftovers(world.now)) == 1


def test_the_work_of_those_who_are_alive_is_left_alone(world):
    world.enqueue(2)
    world.claim(world.worker(), limit=1)
    leaver = world.worker()
    world.store.workers.leave(leaver, world.now)
    assert world.store.workers.settle_leftovers(world.now) == []


def test_a_row_that_refuses_does_not_keep_a_dead_worker_alive(world, monkeypatch, caplog):
    bad, *_ = world.enqueue(3, on_lost=OnLost.FAIL)
    worker = world.worker()
    world.claim(worker)

    def settle(job, *rest):
        change = lifecycle.settle(job, *rest)
        return change if job.id != bad else replace(change, ended=(replace(change.ended[0], outcome="odd"),))

    monkeypatch.setattr(settling, "settle", settle)
    seen = lease_of(world, worker)
    world.store.workers.close_lost(seen, world.now)
    assert world.store.workers.leases() == []
    assert str(worker) in caplog.text
    assert len(world.store.workers.settle_leftovers(world.now)) == 2
    monkeypatch.undo()
    assert len(world.store.workers.settle_leftovers(world.now)) == 1
    world.check()


def test_a_worker_is_not_closed_while_a_claim_of_it_is_under_way(postgres_world):
    """Nor can the claim come after: no row appears under a closed worker."""
    world = postgres_world
    world.enqueue()
    worker = world.worker()
    seen = lease_of(world, worker)
    impatient = Store(open_database(world.url, deadline=0.4), world.chance)
    sweeper = impatient.workers
    with world.store.database.write() as tx:
        assert tx.rows("open_queues", worker=worker, at_least=NOW)
        assert world.another().workers.renew(worker, NOW, LEASE, 0) == Renewal(drain=False)  # does not wait
        for closing in (
            lambda: sweeper.close_lost(seen, world.now),
            lambda: sweeper.leave(worker, world.now),
            lambda: sweeper.hand_back_unknown(worker, (), world.now),
        ):
            with pytest.raises(StoreUnavailable):
                closing()
    sweeper.close_lost(lease_of(world, worker), world.now)
    assert world.claim(worker) == []
    impatient.close()


# -- queries and commands for people


def test_workers_are_listed_by_when_they_were_seen(world):
    old = world.worker()
    world.advance(2 * DAY)
    new = world.worker()
    assert [row.id for row in world.store.workers.seen(world.now)] == [new]
    assert [row.id for row in world.store.workers.seen(world.now, since=3 * DAY)] == [new, old]


def test_tasks_are_known_for_a_month(world):
    world.worker("a", "b")
    world.advance(29 * DAY)
    world.worker("c")
    assert world.store.workers.known_tasks(world.now) == {"a", "b", "c"}
    world.advance(2 * DAY)
    assert world.store.workers.known_tasks(world.now) == {"c"}


def test_queues_are_listed_with_what_waits_and_what_runs(world):
    world.enqueue(3, queue="a")
    world.enqueue(2, queue="b")
    world.claim(world.worker(), queues=["a"], limit=1)
    world.store.workers.pause_queue("b", world.now, "ops")
    world.store.workers.bound_queue("c", 5, world.now, "ops")
    shown = [
        (q.name, q.queued, q.running, q.paused_at, q.paused_by, q.max_queued) for q in world.store.workers.queues()
    ]
    assert shown == [("a", 2, 1, None, "", None), ("b", 2, 0, NOW, "ops", None), ("c", 0, 0, None, "", 5)]
    assert len(world.events("queue.paused")) == len(world.events("queue.bounded")) == 1


def test_a_queue_that_is_resumed_or_unbounded_is_as_before(world):
    workers = world.store.workers
    workers.pause_queue("a", world.now, "ops")
    workers.bound_queue("a", 1, world.now, "ops")
    workers.resume_queue("a", world.now, "ops")
    workers.bound_queue("a", None, world.now, "ops")
    (queue,) = workers.queues()
    assert (queue.paused_at, queue.paused_by, queue.max_queued) == (None, "", None)


def test_a_queue_can_be_paused_before_anything_is_in_it(world):
    world.store.workers.pause_queue("later", world.now, "ops")
    world.enqueue(queue="later")
    assert world.claim(world.worker()) == []


# -- arguments of tasks


def a_schema(name: str, help: str = "") -> TaskSchema:
    return TaskSchema(name, help, {"properties": {}, "required": [], "additionalProperties": False})


def joins(world, *described: TaskSchema) -> None:
    names = tuple(task.name for task in described)
    world.store.workers.join(NewWorker(uuid4(), "", "h", 1, "1", names, (), 1, described), world.now, LEASE)


def test_the_worker_that_joined_last_describes_its_tasks(world):
    joins(world, a_schema("a", "old"), a_schema("b"))
    joins(world, a_schema("a", "new \0 é"))
    told = world.store.workers.task_schemas(["a", "b", "c"])
    assert {name: task.help for name, task in told.items()} == {"a": "new \0 é", "b": ""}
    assert told["b"] == a_schema("b")


def test_a_schema_is_forgotten_with_the_last_worker_that_knew_the_task(world):
    joins(world, a_schema("a"), a_schema("b"))
    world.advance(20 * DAY)
    world.worker("b")
    world.store.workers.forget_tasks(world.now)
    assert len(world.store.workers.task_schemas(["a", "b"])) == 2
    world.advance(11 * DAY)
    world.store.workers.forget_tasks(world.now)
    assert set(world.store.workers.task_schemas(["a", "b"])) == {"b"}

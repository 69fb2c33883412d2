"""On a server a claim is one round trip, except for one a second that does more; both claim the same rows."""

import psycopg
import pytest
from psycopg import RawCursor

from ostinato.core.errors import StoreError
from ostinato.core.model import WaitsFor
from ostinato.store import claiming
from ostinato.store.claiming import Claim


@pytest.fixture
def asked(postgres_world, monkeypatch):
    """The statements sent to the server, in a world whose worker has just unparked."""
    said, original = [], RawCursor.execute

    def execute(cursor, query, *args, **kwargs):
        said.append(str(query))
        return original(cursor, query, *args, **kwargs)

    monkeypatch.setattr(RawCursor, "execute", execute)
    return said


def looked_around(world):
    worker = world.worker()
    world.enqueue()
    world.run_all(worker)
    assert world.store.queue.claim(worker, ["work"], [], world.clock, 5) == Claim()
    return worker


def test_a_claim_is_one_round_trip(postgres_world, asked):
    world = postgres_world
    worker, queue = looked_around(world), world.store.queue
    world.enqueue(3)
    asked.clear()
    claim = queue.claim(worker, ["work"], [], world.clock, 2)
    assert (len(asked), len(claim.claimed), claim.next_at) == (1, 2, None)
    claim = queue.claim(worker, ["work"], [], world.clock, 5)
    assert (len(asked), len(claim.claimed)) == (2, 1)
    assert claim.next_at == world.now, "look again, now"
    assert queue.claim(worker, ["work"], [], world.clock, 5) == Claim()
    world.check()


def test_strangers_are_set_apart_in_six_round_trips_however_many_stand_first(postgres_world, asked, monkeypatch):
    monkeypatch.setattr(claiming, "MOST_UNKNOWN", 3)
    world = postgres_world
    worker, queue = looked_around(world), world.store.queue
    world.enqueue(5, task="strange")
    (wanted,) = world.enqueue()
    asked.clear()
    claim = queue.claim(worker, ["work"], [], world.clock, 1)
    assert (claim.claimed, claim.parked, claim.next_at) == ((), {"strange": 3}, world.now)
    assert len(asked) == 6, "claim, outlook, begin, queues, strangers, commit"
    claim = queue.claim(worker, ["work"], [], world.clock, 1)
    assert (claim.claimed[0].live.job_id, claim.parked) == (wanted, {"strange": 2})
    world.check()


def test_a_claim_at_once_serves_its_queues_only(postgres_world):
    world = postgres_world
    worker = looked_around(world)
    world.enqueue(queue="other")
    (wanted,) = world.enqueue(queue="mine")
    claim = world.store.queue.claim(worker, ["work"], ["mine", "more"], world.clock, 5)
    assert [each.live.job_id for each in claim.claimed] == [wanted]


def test_a_claim_at_once_takes_nothing_for_a_worker_that_was_closed_nor_from_a_paused_queue(postgres_world):
    world = postgres_world
    worker, queue = looked_around(world), world.store.queue
    world.enqueue()
    world.store.workers.pause_queue("default", world.now, "")
    assert queue.claim(worker, ["work"], [], world.clock, 5) == Claim()
    world.store.workers.resume_queue("default", world.now, "")
    world.store.workers.leave(worker, world.now)
    assert queue.claim(worker, ["work"], [], world.clock, 5) == Claim()
    assert len(world.claim(world.worker())) == 1


def test_a_claim_at_once_puts_off_what_it_cannot_read(postgres_world, caplog):
    world = postgres_world
    worker = looked_around(world)
    broken, good = world.enqueue(2)
    world.sql("UPDATE {jobs} SET policies = '[7]' WHERE id = :id", id=broken)
    claim = world.store.queue.claim(worker, ["work"], [], world.clock, 5)
    assert [each.live.job_id for each in claim.claimed] == [good]
    assert str(broken) in caplog.text
    found = world.sql("SELECT worker_id, waits_for FROM {live} WHERE job_id = :id", id=broken)
    assert found == [(None, WaitsFor.TIME)]


def test_a_claim_at_once_from_a_bounded_queue_calls_the_dispatcher(postgres_world, asked):
    world = postgres_world
    worker = looked_around(world)
    world.enqueue()
    world.store.workers.bound_queue("default", 5, world.now, "")
    asked.clear()
    assert len(world.store.queue.claim(worker, ["work"], [], world.clock, 5).claimed) == 1
    assert [text for text in asked if text.startswith("NOTIFY")]


def test_a_claim_at_once_finds_a_connection_that_works(postgres_world):
    """The idle connection was closed by a restart of the server, or by an administrator."""
    world = postgres_world
    worker = looked_around(world)
    world.enqueue()
    with psycopg.connect(world.url, autocommit=True) as administrator:
        administrator.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    assert len(world.store.queue.claim(worker, ["work"], [], world.clock, 5).claimed) == 1


def test_what_stands_alone_is_one_statement(postgres_world):
    with postgres_world.store.database.alone() as tx:
        tx.run("remember", key="one", value="1")
        with pytest.raises(StoreError, match="one transaction"):
            tx.run("remember", key="two", value="2")
    assert [postgres_world.store.remembered(name) for name in ("one", "two")] == ["1", None]

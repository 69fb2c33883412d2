"""Jobs are saved once: many at a time, as copies, under a key, in a transaction of the caller."""

import sqlite3
from contextlib import contextmanager
from dataclasses import replace
from uuid import uuid4

import psycopg
import pytest
import sqlalchemy
from sqlalchemy.orm import Session

from ostinato.core.errors import Conflict, Invalid, StoreError
from ostinato.core.model import Change, Status
from ostinato.store.database import Duplicate
from ostinato.store.jobs import Copies
from tests.build import DAY, HOUR, MINUTE, NOW
from tests.store.conftest import edited, together

# -- making


def test_many_jobs_are_added_at_once_and_found_again(world):
    ids = world.add(250, task="many")
    assert len(set(ids)) == 250
    assert {row.job.definition.task for row in world.store.jobs.get(ids).values()} == {"many"}


def test_adding_nothing_is_nothing(world):
    assert world.store.jobs.add([]) == []


def test_a_job_that_is_due_when_it_is_made_is_born_with_its_live_row(world):
    later, now = world.add_one(every=HOUR), world.enqueue()[0]
    assert (world.lives(later), world.status(later)) == ((), Status.SCHEDULED)
    assert (len(world.lives(now)), world.status(now)) == (1, Status.PENDING)


def test_adding_again_after_a_lost_answer_changes_nothing(world):
    """G10: jobs saved by an earlier call are not saved twice."""
    changes = [world.new(at=NOW), world.new(key="k"), world.new()]
    ids = world.store.jobs.add(changes)
    assert world.store.jobs.add([*changes, world.new()])[:3] == ids
    assert world.counts() == {Status.PENDING: 1, Status.SCHEDULED: 3}
    world.check()


def copies_as(*job_ids):
    return Copies(job_ids, [uuid4().bytes for _ in job_ids], ["{}" for _ in job_ids])


def test_copies_are_what_the_rule_would_have_made(world):
    original = world.new(at=NOW, tags=("a",), metadata='{"b":1}', args='{"n":0}')
    others, args = world.chance.ids(NOW, 99), [f'{{"n":{n}}}' for n in range(1, 100)]
    world.store.jobs.add_copies(original, Copies(others, world.chance.ids_as_bytes(NOW, 99), args))
    ids = [original.job.id, *others]
    saved = world.store.jobs.get(ids)
    first = saved[original.job.id]
    for n, job_id in enumerate(ids):
        expected = replace(first.job.definition, args=f'{{"n":{n}}}')
        assert saved[job_id].job == replace(first.job, id=job_id, definition=expected)
        (live,) = saved[job_id].lives
        assert live == replace(first.lives[0], id=live.id, job_id=job_id)
    assert len(world.run_all(world.worker())) == 100
    world.check()


def test_copies_of_a_job_that_is_not_due_have_no_live_rows(world):
    original = world.new(at=NOW + HOUR)
    world.store.jobs.add_copies(original, copies_as(uuid4()))
    assert world.counts() == {Status.SCHEDULED: 2}


def test_copying_again_after_a_lost_answer_changes_nothing(world):
    """G10."""
    original, copies = world.new(at=NOW), copies_as(uuid4())
    for _ in range(2):
        world.store.jobs.add_copies(original, copies)
    assert world.counts() == {Status.PENDING: 2}


def test_copies_that_cannot_all_be_saved_are_not_saved_at_all(world):
    taken = world.enqueue()[0]
    original = world.new(at=NOW)
    with pytest.raises(Duplicate):
        world.store.jobs.add_copies(original, copies_as(uuid4(), taken))
    assert world.counts() == {Status.PENDING: 1}


def test_a_batch_with_a_row_that_the_database_refuses_adds_nothing(world):
    bad = world.new()
    bad = replace(bad, job=replace(bad.job, definition=edited(bad.job.definition, priority=99)))
    with pytest.raises(StoreError):
        world.store.jobs.add([world.new(), bad])
    assert world.jobs(10) == []


def test_the_database_refuses_a_second_live_occurrence(world):
    """G1, by the index and not by a check."""
    job_id = world.enqueue()[0]
    live = replace(world.lives(job_id)[0], id=uuid4(), number=2)
    with pytest.raises(Duplicate):
        world.store.jobs.change(job_id, lambda job, lives, _: Change(job, add=(live,)))
    assert len(world.lives(job_id)) == 1


# -- keys


def test_a_second_job_with_a_key_returns_the_first(world):
    first = world.add_one(key="prices")
    assert world.add_one(key="prices", every=DAY) == first
    assert world.facts(first).next_due_at == NOW + HOUR


def test_two_of_one_key_in_one_batch_are_one_job(world):
    ids = world.store.jobs.add([world.new(key="a"), world.new(), world.new(key="a"), world.new(key="b")])
    assert ids[0] == ids[2]
    assert len(set(ids)) == 3
    assert len(world.jobs(10)) == 3


def test_a_key_belongs_to_an_app(world):
    assert world.add_one(key="a", app="shop") != world.add_one(key="a", app="bank")


def test_keys_are_compared_letter_by_letter(world):
    assert len(set(world.store.jobs.add([world.new(key=key) for key in ("a", "A", "á", "a ")]))) == 4


@pytest.mark.parametrize("how", ["end", "cancel", "delete"])
def test_a_key_is_free_when_its_job_has_ended_or_was_cancelled_or_deleted(world, how):
    first = world.enqueue(key="k")[0]
    if how == "end":
        world.run_all(world.worker())
    else:
        world.command(first, how)
    assert world.store.jobs.holder("", "k") is None
    second = world.enqueue(key="k")[0]
    assert second != first
    assert world.store.jobs.holder("", "k") == second


def test_a_paused_job_keeps_its_key(world):
    first = world.add_one(key="k")
    world.command(first, "pause")
    assert world.add_one(key="k") == first


def test_a_job_that_begins_again_while_another_holds_its_key_is_a_conflict(world):
    first = world.enqueue(key="k")[0]
    world.run_all(world.worker())
    second = world.add_one(key="k")
    with pytest.raises(Conflict, match="key"):
        world.command(first, "restart")
    assert world.status(first) is Status.COMPLETED
    world.command(second, "delete")
    world.command(first, "restart")
    assert world.store.jobs.holder("", "k") == first


def test_an_edit_that_takes_the_key_of_another_is_a_conflict_and_changes_nothing(world):
    world.add_one(key="taken")
    job_id = world.add_one(key="own")
    definition = world.job(job_id).definition
    with pytest.raises(Conflict):
        world.command(job_id, "edit", edited(definition, key="taken", args="[9]"))
    assert world.job(job_id).definition == definition
    assert world.facts(job_id).version == 1


def test_threads_that_race_for_a_key_get_one_job(world):
    stores = [world.another() for _ in range(4)]
    for round_ in range(15):
        changes = [[world.new(key=f"{round_}-a"), world.new(key=f"{round_}-b")] for _ in stores]
        calls = [lambda s=s, c=c: s.jobs.add(c) for s, c in zip(stores, changes, strict=True)]
        assert len({tuple(ids) for ids in together(*calls)}) == 1
    assert len(world.jobs(100)) == 30


def test_jobs_are_found_by_the_key_they_have_or_had(world):
    first = world.enqueue(key="k")[0]
    world.run_all(world.worker())
    world.advance(MINUTE)
    second = world.enqueue(key="k")[0]
    assert world.store.jobs.ids_by_key("", "k") == [second, first]
    world.command(second, "delete")
    assert world.store.jobs.ids_by_key("", "k") == [first]


def test_declared_jobs_are_listed_by_key_and_of_several_the_newest(world):
    world.enqueue(key="a", declared="1", app="shop")
    world.add(key="b", app="shop")
    world.run_all(world.worker())
    world.advance(MINUTE)
    newest = world.add_one(key="a", declared="2", app="shop")
    assert world.store.jobs.declared("shop") == {"a": newest}


# -- in the caller's own transaction


@contextmanager
def their_connection(world, how):
    """Open a connection as a user has it."""
    if how == "driver":
        if world.on_postgres:
            with psycopg.connect(world.url) as connection:
                yield connection
        else:
            connection = sqlite3.connect(world.url.removeprefix("sqlite:///"))
            yield connection
            connection.close()
        return
    url = world.url.replace("postgresql://", "postgresql+psycopg://")
    engine = sqlalchemy.create_engine(url)
    with engine.connect() if how == "sqlalchemy" else Session(engine) as connection:
        yield connection
    engine.dispose()


@pytest.mark.parametrize("how", ["driver", "sqlalchemy", "session"])
class TestInTheCallersOwnTransaction:
    def test_a_job_is_visible_when_it_commits(self, world, how):
        with their_connection(world, how) as connection:
            ids = world.store.jobs.add([world.new(at=NOW, key="k"), world.new(queue="new")], connection)
            assert world.store.jobs.get(ids) == {}
            connection.commit()
        assert len(world.store.jobs.get(ids)) == 2
        assert len(world.claim(world.worker())) == 1
        assert [queue.name for queue in world.store.workers.queues()] == ["default", "new"]

    def test_a_job_is_gone_when_it_rolls_back(self, world, how):
        with their_connection(world, how) as connection:
            ids = world.store.jobs.add([world.new(at=NOW, key="k")], connection)
            connection.rollback()
        assert world.store.jobs.get(ids) == {}
        assert world.claim(world.worker()) == []
        assert world.add_one(key="k") not in ids

    def test_a_key_that_is_held_returns_its_holder_and_leaves_the_rest_as_it_was(self, world, how):
        first = world.add_one(key="k")
        with their_connection(world, how) as connection:
            ids = world.store.jobs.add([world.new(), world.new(key="k")], connection)
            again = world.store.jobs.add([world.new(key="k")], connection)
            connection.commit()
        assert [ids[1], *again] == [first, first]
        assert len(world.jobs(10)) == 2


def test_a_connection_that_is_none_is_refused(world):
    with pytest.raises(Invalid):
        world.store.jobs.add([world.new()], connection=object())
    assert world.jobs(10) == []


def test_a_queue_that_was_made_in_a_transaction_that_was_undone_is_made_again(world):
    with their_connection(world, "driver") as connection:
        world.store.jobs.add([world.new(at=NOW, queue="new")], connection)
        connection.rollback()
    world.enqueue(queue="new")
    assert len(world.claim(world.worker())) == 1

"""Claims of jobs with cached definitions: they are not read again, and are never outdated."""

import pytest

from ostinato.store.database import Tx
from tests.build import HOUR
from tests.store.conftest import edited


@pytest.fixture
def asked(monkeypatch):
    """The statements that return rows, by name, in order."""
    names, original = [], Tx.rows

    def rows(tx, statement, *args, **kwargs):
        names.append(str(statement))
        return original(tx, statement, *args, **kwargs)

    monkeypatch.setattr(Tx, "rows", rows)
    return names


def turn(world, worker):
    """Claim at the next due time; return the executions with their args."""
    world.advance(HOUR)
    world.fire()
    claimed = world.claim(worker)
    world.settle(claimed)
    return sorted((each.live.job_id, each.definition.args) for each in claimed)


def test_what_recurs_is_claimed_without_its_definition_from_the_second_time_on(world, asked):
    jobs, worker = sorted(world.add(3)), world.worker()
    claims = []
    for _ in range(3):
        asked.clear()
        assert [job_id for job_id, _ in turn(world, worker)] == jobs
        claims.append([name for name in asked if name.startswith("claim")])
    if not world.on_postgres:
        assert claims == [["claim"], ["claim_of_known"], ["claim_of_known"]]
    world.check()


def test_an_edit_is_seen_by_the_next_claim(world):
    (job_id,), worker = world.add(), world.worker()
    for _ in range(3):
        turn(world, worker)
    world.command(job_id, "edit", edited(world.job(job_id).definition, args='{"n": 2}'))
    assert turn(world, worker) == [(job_id, '{"n": 2}')]
    assert turn(world, worker) == [(job_id, '{"n": 2}')]


def test_what_is_new_among_the_known_is_read_and_the_next_come_with_theirs(world, asked):
    (old,), worker = world.add(), world.worker()
    for _ in range(3):
        turn(world, worker)
    (once,) = world.enqueue(args='{"n": 1}')
    (young,) = world.add(args='{"n": 2}')
    asked.clear()
    found = dict(turn(world, worker))
    assert "claim_of_known" in asked or world.on_postgres
    assert set(found) == {old, once, young}
    assert (found[once], found[young]) == ('{"n": 1}', '{"n": 2}')
    asked.clear()
    assert dict(turn(world, worker))[young] == '{"n": 2}'
    assert "claim" in asked
    world.check()


def test_a_stranger_that_stands_first_is_set_apart_by_the_next_claim_though_another_queue_has_work(world):
    _, worker = world.add(), world.worker()
    for _ in range(3):
        turn(world, worker)
    world.enqueue(task="strange", queue="bulk")
    world.advance(HOUR)
    world.fire()
    claim = world.store.queue.claim(worker, ["work"], [], world.clock, 1)
    assert (len(claim.claimed), claim.parked) == (1, {"strange": 1})
    world.check()

"""Claiming: strictly by priority, then the oldest; never early, never twice, never a task unknown here."""

import multiprocessing
import time
from collections import Counter
from datetime import timedelta
from uuid import uuid4

from ostinato.chance import RandomChance
from ostinato.core import lifecycle
from ostinato.core.model import WaitsFor
from ostinato.store import claiming
from ostinato.store.database import open_database
from ostinato.store.store import Store
from tests.build import HOUR, MINUTE, NOW, SECOND, a_definition
from tests.store.conftest import edited, together
from tests.waiting import PATIENCE


def test_a_claim_takes_and_starts(world):
    job_id = world.enqueue()[0]
    worker = world.worker()
    (claimed,) = world.claim(worker)
    (live,) = world.lives(job_id)
    assert claimed.live == live
    assert (live.worker_id, live.started_at, live.fence, live.version) == (worker, NOW, 1, 1)
    assert world.claim(worker) == []


def test_strictly_by_priority_then_the_oldest_across_queues(world):
    expected = []
    for priority in (7, 1, 10, 5):
        for minutes in (3, 1, 2):
            world.now = NOW + minutes * MINUTE
            (job_id,) = world.enqueue(priority=priority, queue=f"queue-{minutes}")
            expected.append((priority, minutes, job_id))
    world.now = NOW + HOUR
    worker = world.worker()
    order = []
    while claimed := world.claim(worker, limit=5):
        order += [each.live.job_id for each in claimed]
    assert order == [job_id for _, _, job_id in sorted(expected)]


def test_no_more_than_wanted(world):
    world.enqueue(10)
    worker = world.worker()
    assert [len(world.claim(worker, limit=n)) for n in (1, 3, 5, 5)] == [1, 3, 5, 1]


def test_only_of_the_queues_that_the_worker_serves(world):
    ids = [world.enqueue(queue=name)[0] for name in ("a", "b", "c")]
    worker = world.worker()
    assert [c.live.job_id for c in world.claim(worker, queues=["b"])] == [ids[1]]
    assert world.claim(worker, queues=["b", "none"]) == []
    assert {c.live.job_id for c in world.claim(worker)} == {ids[0], ids[2]}


def test_nothing_of_a_paused_queue(world):
    world.enqueue(queue="a")
    world.enqueue(queue="b")
    world.store.workers.pause_queue("a", world.now, "ops")
    worker = world.worker()
    assert [c.live.queue for c in world.claim(worker)] == ["b"]
    world.store.workers.resume_queue("a", world.now, "ops")
    assert [c.live.queue for c in world.claim(worker)] == ["a"]


def test_when_all_queues_are_paused_there_is_nothing(world):
    world.enqueue()
    world.store.workers.pause_queue("default", world.now, "ops")
    assert world.store.queue.claim(world.worker(), ["work"], [], world.clock, 5) == claiming.Claim()


def test_a_worker_that_is_closed_or_unknown_takes_nothing(world):
    world.enqueue()
    worker = world.worker()
    world.store.workers.leave(worker, world.now)
    assert world.claim(worker) == []
    assert world.claim(uuid4()) == []
    assert [live.worker_id for live in world.store.history.live(10)] == [None]


def test_never_early(world):
    """G5."""
    world.add_one(at=NOW + MINUTE)
    world.advance(MINUTE - timedelta(microseconds=1))
    world.fire(ahead=SECOND)
    worker = world.worker()
    assert world.claim(worker) == []
    world.advance(timedelta(microseconds=1))
    assert len(world.claim(worker)) == 1


def test_of_what_is_due_at_one_instant_the_first_that_was_queued_goes_first(world):
    """Wherever its row is stored."""
    definition, worker = a_definition(at=NOW), world.worker()
    made = [lifecycle.create(world.chance.id(NOW), definition, NOW, world.chance) for _ in range(20)]
    for change in reversed(made):
        world.store.jobs.add([change])
    started = [claimed.live.job_id for _ in range(5) for claimed in world.claim(worker, limit=4)]
    assert started == [change.job.id for change in made]


def test_a_claim_that_got_less_than_wanted_says_when_there_may_be_more(world):
    world.enqueue()
    world.add(at=NOW + SECOND / 2)
    world.add(at=NOW + SECOND / 4, queue="other")
    world.fire(ahead=SECOND)
    worker = world.worker()
    queue = world.store.queue
    assert queue.claim(worker, ["work"], [], lambda: NOW, 1).next_at is None
    assert queue.claim(worker, ["work"], ["default"], lambda: NOW, 1).next_at == NOW + SECOND / 2
    assert queue.claim(worker, ["work"], [], lambda: NOW, 1).next_at == NOW + SECOND / 4
    assert len(queue.claim(worker, ["work"], [], lambda: NOW + SECOND, 5).claimed) == 2
    assert queue.claim(worker, ["work"], [], lambda: NOW + SECOND, 5).next_at is None


def test_a_claim_that_passed_over_a_locked_row_says_to_look_again(postgres_world):
    world = postgres_world
    world.enqueue()
    worker = world.worker()
    with world.another().database.write() as tx:
        tx.rows("lock_live", ids=[row.job.id for row in world.jobs(10)])
        claim = world.store.queue.claim(worker, ["work"], [], world.clock, 5)
    assert claim.claimed == ()
    assert claim.next_at <= world.now
    assert len(world.claim(worker)) == 1


# -- unknown tasks (G12)


def test_what_nobody_here_knows_is_set_apart_and_reported(world):
    job_id = world.enqueue(task="strange")[0]
    known = world.enqueue(3)
    worker, queue = world.worker(), world.store.queue
    claims = [queue.claim(worker, ["work"], [], world.clock, 10) for _ in range(2)]
    assert {c.live.job_id for claim in claims for c in claim.claimed} == set(known)
    assert [claim.parked for claim in claims if claim.parked] == [{"strange": 1}]
    assert world.lives(job_id)[0].waits_for is WaitsFor.TASK
    assert world.store.queue.parked() == [("strange", 1, NOW)]
    assert world.status(job_id) == "pending"


def test_one_that_knows_finds_what_was_set_apart(world):
    world.enqueue(3, task="strange")
    world.claim(world.worker())
    assert len(world.claim(world.worker("strange"), "strange")) == 3
    assert world.store.queue.parked() == []


def test_what_was_set_apart_is_not_left_behind_by_a_worker_that_is_never_idle(world):
    urgent = world.enqueue(task="strange", priority=1)[0]
    ignorant, versed = world.worker(), world.worker()
    world.enqueue(50)
    assert len(world.claim(versed, "work", "strange", limit=1)) == 1
    assert world.lives(urgent)[0].worker_id == versed
    second = world.enqueue(task="strange", priority=1)[0]
    assert len(world.claim(ignorant, limit=1)) == 1
    assert world.lives(second)[0].waits_for is WaitsFor.TASK
    world.advance(SECOND)
    assert [c.live.job_id for c in world.claim(versed, "work", "strange", limit=1)] == [second]


def test_a_thousand_strange_rows_at_the_head_keep_nobody_from_working(world):
    world.enqueue(1000, task="strange", priority=1)
    (job_id,) = world.enqueue(priority=9)
    worker = world.worker()
    claims = [world.store.queue.claim(worker, ["work"], [], world.clock, 5) for _ in range(21)]
    assert [claim.parked for claim in claims] == [{"strange": 50}] * 20 + [None]
    assert [c.live.job_id for c in claims[-1].claimed] == [job_id]
    assert all(claim.next_at <= world.now for claim in claims[:-1])  # claim again at once


def test_more_strange_rows_than_one_claim_looks_at_are_worked_off_by_the_next(world, monkeypatch):
    monkeypatch.setattr(claiming, "MOST_UNKNOWN", 10)
    world.enqueue(30, task="strange", priority=1)
    world.enqueue(1)
    worker = world.worker()
    claims = [world.store.queue.claim(worker, ["work"], [], world.clock, 5) for _ in range(4)]
    assert [len(claim.claimed) for claim in claims] == [0, 0, 0, 1]
    assert claims[0].next_at <= world.now
    assert [claim.parked for claim in claims] == [{"strange": 10}] * 3 + [None]


def test_a_worker_that_knows_nothing_takes_nothing_and_breaks_nothing(world):
    world.enqueue(2)
    claim = world.store.queue.claim(world.worker(), [], [], world.clock, 5)
    assert (claim.claimed, claim.parked) == ((), {"work": 2})
    assert len(world.claim(world.worker())) == 2


def test_what_was_set_apart_can_be_given_another_task(world):
    job_id = world.enqueue(task="strange")[0]
    world.claim(worker := world.worker())
    world.command(job_id, "edit", edited(world.job(job_id).definition, task="work"))
    assert len(world.claim(worker)) == 1


def test_a_definition_that_cannot_be_read_is_put_off_not_taken(world, caplog):
    job_id = world.enqueue()[0]
    other = world.enqueue()[0]
    world.sql("UPDATE {jobs} SET policies = '7' WHERE id = :id", id=job_id)
    worker = world.worker()
    store = world.another()
    assert [c.live.job_id for c in world.claim(worker, store=store)] == [other]
    live = next(live for live in world.store.history.live(10) if live.job_id == job_id)
    assert (live.worker_id, live.waits_for, live.run_at) == (None, WaitsFor.TIME, NOW + MINUTE)
    assert str(job_id) in caplog.text


# -- each once


def test_threads_claim_each_row_once(world):
    """G1, many at once."""
    world.enqueue(300)
    stores = [world.another() for _ in range(4)]
    workers = [world.worker() for _ in stores]

    def work(store, worker):
        taken = []
        while claimed := world.claim(worker, limit=7, store=store):
            taken += [each.live.id for each in claimed]
        return taken

    taken = together(*[lambda s=s, w=w: work(s, w) for s, w in zip(stores, workers, strict=True)])
    left = world.claim(workers[0])  # skipped while another claim had locked them
    counts = Counter(live_id for ids in [*taken, [c.live.id for c in left]] for live_id in ids)
    assert len(counts) == 300
    assert set(counts.values()) == {1}
    assert world.claim(workers[0]) == []


def _claim_all(url, worker, now, results):
    store = Store(open_database(url, durable=False), RandomChance())
    taken = []
    while claimed := store.queue.claim(worker, ["work"], [], lambda: now, 10).claimed:
        taken += [each.live.id for each in claimed]
    results.put(taken)
    store.close()


def test_processes_claim_each_row_once(world):
    world.enqueue(200)
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    children = [
        context.Process(target=_claim_all, args=(world.url, world.worker(), world.now, results)) for _ in range(2)
    ]
    for child in children:
        child.start()
    taken = [live_id for _ in children for live_id in results.get(timeout=PATIENCE)]
    for child in children:
        child.join()
    taken += [each.live.id for each in world.claim(world.worker())]
    assert len(taken) == len(set(taken)) == 200


# -- speed


def test_a_claim_does_not_slow_down_with_what_is_due(world):
    """100,000 rows may start, in several queues and priorities: still a few milliseconds."""
    (job_id,) = world.add(manual=True)
    world.store.workers.pause_queue("queue-0", world.now, "ops")
    for queue in ("queue-1", "queue-2"):
        world.store.workers.resume_queue(queue, world.now, "ops")
    new_id = "gen_random_uuid()" if world.on_postgres else "randomblob(16)"
    world.sql(
        f"""
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
        INSERT INTO {{live}} (id, job_id, number, attempt, execution_number, asked, due_at, run_at, queued_at, queue,
            priority, task, step, slot, fence, failures, losses, releases, cancel_by)
        SELECT {new_id}, :job, i, 0, i, 'hand', :now, :now - i, :now, 'queue-' || CAST(i % 3 AS {{json}}),
            i % 10 + 1, 'work', '', i, 0, 0, 0, 0, '' FROM n""",
        job=job_id,
        now=world.now,
    )
    world.sql("ANALYZE")
    worker = world.worker()

    def seconds() -> float:
        began = time.perf_counter()
        assert len(world.claim(worker, limit=100)) == 100
        return time.perf_counter() - began

    assert min(seconds() for _ in range(100)) < 0.02  # other programs may delay most of them

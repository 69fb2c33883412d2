"""First runs in a queue with a bound: they wait for a place, and all of them come; on both databases."""

from collections import Counter

from ostinato.core.policy import FirstRun
from ostinato.core.why.values import Because
from tests.build import DAY, HOUR, MINUTE, a_definition
from tests.store.conftest import LEASE

SOURCES = {"queue": "sources", "first_run": FirstRun.NOW}


def queued(service) -> int:
    return next(queue.queued for queue in service.queues() if queue.name == "sources")


def test_twenty_new_sources_and_a_bound_of_five_leave_five_queued_and_all_run(world, service):
    """Seed 000's example: 1 worker, 5 places, 20 daily sources."""
    service.bound_queue("sources", 5)
    ids = [service.jobs.make(a_definition(every=DAY, **SOURCES))[0].id for _ in range(20)]
    assert queued(service) == 0
    worker, runs = world.worker(), []
    for _ in range(20):
        world.fire()
        assert queued(service) == min(5, 20 - len(runs))
        (claimed,) = world.claim(worker, limit=1)
        runs.append(claimed.live.job_id)
        world.advance(MINUTE)
        world.settle([claimed])
    assert Counter(runs) == Counter(ids)
    assert world.fire() == []
    assert list(world.store.audit.everything(world.now)) == []
    world.check()


def test_the_check_finds_no_flaw_in_a_first_run_that_waits_and_why_says_what_for(world, service):
    worker = world.worker()
    service.bound_queue("sources", 1)
    jobs = service.jobs.create([a_definition(every=HOUR, **SOURCES) for _ in range(2)])
    world.fire()
    assert list(world.store.audit.everything(world.now)) == []
    world.advance(MINUTE)
    world.store.workers.renew(worker, world.now, LEASE, 0)
    waiting = next(job_id for job_id in jobs if world.facts(job_id).first_run_waits)
    assert [cause.because for cause in service.jobs.why(waiting).causes] == [Because.QUEUE_FULL]


def test_without_a_bound_a_first_run_is_queued_with_its_job(world, service):
    service.jobs.create([a_definition(every=HOUR, **SOURCES) for _ in range(3)])
    assert queued(service) == 3

"""A transaction that waited for a job's lock sees the rows queued meanwhile.

After a wait, PostgreSQL returns the newest version of each row that the statement had found, but no rows newer than its
beginning.
"""

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from ostinato.core.model import Finished, Status
from tests.build import HOUR, SECOND
from tests.store.conftest import DONE, FAILURE
from tests.waiting import eventually

WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"


@pytest.mark.parametrize("outcome", [DONE, FAILURE], ids=["plain", "by the rule"])
def test_a_run_that_was_asked_for_while_a_settle_waited_gets_its_turn(postgres_world, outcome):
    world = postgres_world
    worker, job_id = world.worker(), world.add_one(every=HOUR, max_retries=0)
    world.advance(HOUR)
    world.fire()
    (claimed,) = world.claim(worker)
    world.advance(SECOND)
    other = world.another()
    finished = Finished(claimed.live, outcome, world.now, claimed.definition)
    with psycopg.connect(world.url) as holder, psycopg.connect(world.url, autocommit=True) as looker:
        holder.execute("SELECT 1 FROM ostinato.jobs WHERE id = %s FOR UPDATE", [job_id])
        with ThreadPoolExecutor(2) as threads:
            asked = threads.submit(world.command, job_id, "run", None)
            eventually(lambda: looker.execute(WAITING).fetchone() == (1,))
            settling = threads.submit(other.queue.settle, [finished])
            eventually(lambda: looker.execute(WAITING).fetchone() == (2,))
            holder.commit()
            asked.result()
            assert not settling.result().refused
    assert world.status(job_id) is Status.PENDING, "it waits for a worker, and for nothing else"
    assert len(world.claim(worker)) == 1
    world.check()

"""The calls of a running fetch to its worker: in one process, under the fence of the run."""

from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace

import pytest

from ostinato.clock import SystemClock
from ostinato.core.errors import Invalid, LeaseLost
from ostinato.core.model import Definition
from ostinato.core.schedule import Manual
from ostinato.engine.worker import TaskCalls
from ostinato.features.sources.calls import (
    CALLS,
    GreatestRequest,
    PackRequest,
    PublishRequest,
    RunTable,
    StageRequest,
    StoreRequest,
)
from ostinato.features.sources.rows import Hold, SourceRecords
from ostinato.features.sources.rules.tables import ColumnType, MappedColumn, Target, Write, WriteMode
from ostinato.store.kernel import Kernel
from ostinato.task import Context

NUMBER = MappedColumn("number", ColumnType.INTEGER)
TARGET = Target("gdp", "called", (NUMBER,))
ROWS = [(1, b"one"), (2, b"two")]
STAGED = replace(TARGET, write=Write(WriteMode.REPLACE))
REQUESTS = {
    "open": TARGET,
    "greatest": GreatestRequest(TARGET, NUMBER),
    "has_stored": TARGET,
    "pack": PackRequest(TARGET, ROWS),
    "state": TARGET,
    "stage": StageRequest(STAGED, 7),
    "store": StoreRequest(TARGET, [ROWS], lambda stored: {"new": stored.written.inserted}),
    "publish": PublishRequest(STAGED, lambda _: {}, "", 1.0),
}


class Run:
    """A run that has begun, and the calls that it makes of its worker."""

    def __init__(self, world):
        world.enqueue()
        (claimed,) = world.claim(world.worker())
        self.world, self.live, self.lease = world, claimed.live, SimpleNamespace(trusted=True)
        self._calls = TaskCalls(Kernel(world.store, SystemClock(), world.chance), self.lease)

    def call(self, live, name, request):
        return self._calls.answer(live, name, request)

    @property
    def records(self):
        return self.world.store.part(SourceRecords)

    @property
    def checkpoint(self):
        return self.world.lives(self.live.job_id)[0].checkpoint

    def stale(self):
        """Let another worker claim the execution, and return the row as the old run has it."""
        self.world.sql("UPDATE {live} SET fence = fence + 1 WHERE id = :id", id=self.live.id)
        return self.live


@pytest.fixture
def run(world):
    world.sql("DROP TABLE IF EXISTS called")
    return Run(world)


def test_a_page_goes_from_the_task_to_its_table_and_its_checkpoint_stays_with_the_run(run):
    ctx = Context(run.live, Definition("fetch", Manual()), {}, host=run)
    table = RunTable(ctx, TARGET)
    table.open()
    assert (table.has_stored(), table.greatest(NUMBER)) == (False, None)
    assert table.store([table.pack(ROWS)], lambda stored: {"new": stored.written.inserted}).written.inserted == 2
    assert (table.has_stored(), table.greatest(NUMBER)) == (True, 2)
    assert (ctx.checkpoint, run.checkpoint) == ({"new": 2}, '{"new":2}')


def test_every_call_has_a_request_here():
    assert set(REQUESTS) == set(CALLS)


@pytest.mark.parametrize("name", CALLS)
def test_g2_a_call_with_a_stale_fence_changes_nothing(run, name):
    if name != "open":
        run.call(run.live, "sources.open", STAGED if name in ("stage", "publish") else TARGET)
    before = run.records.look(TARGET)
    stale = run.stale()
    with suppress(LeaseLost):
        run.call(stale, f"sources.{name}", REQUESTS[name])
    assert run.records.look(TARGET) == before
    assert (run.records.newest(TARGET, 10), run.checkpoint) == ([], None)


@pytest.mark.parametrize("name", ["open", "stage", "store", "publish"])
def test_g2_a_call_that_writes_is_refused_with_a_stale_fence(run, name):
    for target in (STAGED, TARGET):
        run.records.prepare(target, Hold(run.live.id, run.live.fence))
    with pytest.raises(LeaseLost):
        run.call(run.stale(), f"sources.{name}", REQUESTS[name])


@pytest.mark.parametrize("name", CALLS)
def test_a_run_whose_lease_is_not_trusted_calls_nothing(run, name):
    run.lease.trusted = False
    with pytest.raises(LeaseLost):
        run.call(run.live, f"sources.{name}", REQUESTS[name])
    assert not run.records.look(TARGET).exists


@pytest.mark.parametrize("name", CALLS)
def test_a_request_that_came_as_json_from_another_process_is_refused(run, name):
    with pytest.raises(Invalid, match="task fetch"):
        run.call(run.live, f"sources.{name}", {"table": "called"})

"""The witness notes each body that begins and ends, wherever it runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ostinato.core.policy import Isolation
from ostinato.task import Context, Task
from tests.bodies import bodies, done_twice
from tests.engine.at_work import Gate, idle
from tests.engine.conftest import Rig
from tests.waiting import until


@pytest.fixture
def witness(tmp_path: Path, monkeypatch) -> Path:
    folder = tmp_path / "witness"
    folder.mkdir()
    monkeypatch.setenv("OSTINATO_WITNESS", str(folder))
    return folder


async def on_the_loop(ctx: Context) -> None:
    pass


def on_a_thread() -> None:
    pass


def fails() -> None:
    raise RuntimeError("it did not work")


@pytest.mark.parametrize(
    ("function", "isolation"),
    [(on_the_loop, None), (on_a_thread, Isolation.THREAD), (on_a_thread, Isolation.PROCESS)],
)
async def test_the_witness_notes_begin_and_end_of_a_body(rig: Rig, witness: Path, function, isolation):
    rig.registry.add(Task(function, "work", isolation))
    (job_id,) = rig.enqueue()
    worker = await rig.worker()
    await worker.step()
    await idle(worker)
    worker.close()
    (begun,), (ended,) = bodies(witness), bodies(witness, "end")
    (execution,) = rig.store.history.of_job(job_id, 10)
    assert begun[2:9] == (execution.id, job_id, 1, "", 0, 1, str(worker.lease.worker_id))
    assert (begun.pid == os.getpid()) == (isolation is not Isolation.PROCESS)
    assert (ended.execution, ended.raised) == (execution.id, None)
    assert begun.at <= ended.at
    assert done_twice(witness) == {}


async def test_the_witness_notes_the_end_of_a_body_that_fails(rig: Rig, witness: Path):
    rig.registry.add(Task(fails, "work"))
    rig.enqueue()
    worker = await rig.worker()
    await worker.step()
    await idle(worker)
    assert [body.raised for body in bodies(witness, "end")] == ["RuntimeError"]


async def test_the_witness_notes_a_body_that_has_not_ended(rig: Rig, witness: Path):
    gate = Gate(rig)
    rig.enqueue()
    worker = await rig.worker()
    await worker.step()
    await until(lambda: gate.started)
    assert (len(bodies(witness)), len(bodies(witness, "end"))) == (1, 0)
    gate.opened.set()
    await idle(worker)
    assert len(bodies(witness, "end")) == 1


async def test_without_the_variable_a_task_is_called_as_it_is(rig: Rig):
    task = Task(on_the_loop, "work")
    rig.registry.add(task)
    rig.enqueue()
    worker = await rig.worker()
    await worker.step()
    (running,) = worker._running
    assert running.task is task
    await idle(worker)

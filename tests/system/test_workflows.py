"""Workflows on real workers: killed at every boundary between steps, and on two at once."""

from __future__ import annotations

import signal
from typing import Any

from ostinato import Handle
from ostinato.features.workflows.service import WorkflowService
from tests.system.conftest import Workshop
from tests.waiting import PATIENCE, eventually

TEN = 10
QUICKLY: dict[str, Any] = {"lease": "1s", "sweep": "200ms", "concurrency": 1}


def start(workshop: Workshop, nodes: list[dict[str, Any]], name: str = "flow") -> Handle:
    service = workshop.app.scheduler.part(WorkflowService)
    service.create(name, nodes)
    return workshop.app.handle(service.run(name).id)


def steps(workshop: Workshop, handle: Handle) -> list[tuple[str, int, str]]:
    """Of the steps that have ended: name, attempt, result."""
    return sorted((each.step, each.attempt, each.outcome.value) for each in workshop.history(handle) if each.step)


def test_killed_at_every_boundary_of_ten_steps_each_step_completes_once(workshop: Workshop):
    """Each step takes its worker with it: the even ones as they begin, when the one before has just been settled, the
    odd ones when their work is done and not settled yet. Another worker goes on each time."""
    nodes = [
        {
            "id": f"s{n}",
            "task": "dies_first",
            "args": {"when": "end" if n % 2 else "begin"},
            "after": [f"s{n - 1}"] if n else [],
        }
        for n in range(TEN)
    ]
    workers = workshop.start(3, **QUICKLY)
    handle = start(workshop, nodes)
    for deaths in range(1, TEN + 1):
        dead = eventually(lambda: next((each for each in workers if each.popen.poll() is not None), None))
        workers.remove(dead)
        assert dead.exit_code() == -signal.SIGKILL
        if deaths <= TEN - 2:
            workers.append(workshop.spawn(QUICKLY))  # it is there when the next two have died
    ended = handle.wait(PATIENCE)
    assert (ended.status, ended.attempt) == ("completed", 0)
    assert steps(workshop, handle) == sorted(
        (f"s{n}", attempt, result) for n in range(TEN) for attempt, result in ((0, "lost"), (1, "completed"))
    )
    for n in range(TEN):
        assert len(workshop.marks(f"begin:s{n}")) == 2
    assert workshop.events("result.refused") == []


def test_branches_run_side_by_side_on_two_workers(workshop: Workshop):
    nodes = [{"id": name, "task": "holds"} for name in ("left", "right")]
    workshop.start(2, concurrency=1)
    handle = start(workshop, [*nodes, {"id": "join", "task": "quick", "after": ["left", "right"]}])
    marks = workshop.wait_for_marks("start", 2)
    assert len({mark.pid for mark in marks}) == 2
    workshop.release()
    assert handle.wait(PATIENCE).status == "completed"


def test_a_cancel_stops_the_steps_that_run(workshop: Workshop):
    workshop.start(2, concurrency=1)
    nodes = [{"id": name, "task": "holds"} for name in ("left", "right")]
    handle = start(workshop, [*nodes, {"id": "join", "task": "quick", "after": ["left", "right"]}])
    workshop.wait_for_marks("start", 2)
    handle.cancel()
    assert handle.wait(PATIENCE).status == "cancelled"
    assert steps(workshop, handle) == [("left", 0, "cancelled"), ("right", 0, "cancelled")]


def test_a_worker_that_is_stopped_hands_its_step_to_another(workshop: Workshop):
    first = workshop.start_one(shutdown_grace="0s")
    handle = start(workshop, [{"id": "a", "task": "holds"}, {"id": "b", "task": "quick", "after": ["a"]}])
    workshop.wait_for_marks("start")
    workshop.start_one()
    first.terminate()
    workshop.wait_for_marks("start", 2)
    workshop.release()
    assert handle.wait(PATIENCE).status == "completed"
    assert steps(workshop, handle) == [("a", 0, "completed"), ("b", 0, "completed")]

"""Limits of a run, and failures that name them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ostinato.core.outcome import Completed, Failed, Outcome
from ostinato.core.policy import Policies
from tests.isolation import work
from tests.isolation.conftest import Bench

MEMORY = Policies(memory_limit_mb=100)
CPU = Policies(cpu_limit=timedelta(seconds=1))
FILES = Policies(open_files_limit=50)
OUTPUT = Policies(output_limit_mb=1)


def failure(outcome: Outcome) -> tuple[str, str]:
    assert isinstance(outcome, Failed), outcome
    return outcome.error.kind, outcome.error.message


async def test_too_much_memory_names_the_limit(bench: Bench):
    outcome = (await bench.run(work.allocates, megabytes=500, policies=MEMORY)).outcome
    assert failure(outcome) == ("MemoryLimit", "100 MB")
    assert "in allocates" in outcome.error.traceback
    assert (
        await bench.run(work.allocates, megabytes=500)
    ).outcome == Completed()  # the limit applied to the first run only


async def test_enough_memory_is_no_failure(bench: Bench):
    assert (await bench.run(work.allocates, megabytes=40, policies=MEMORY)).outcome == Completed()


async def test_what_a_run_starts_has_the_limit_too(bench: Bench):
    outcome = (await bench.run(work.allocates_in_a_child, megabytes=500, policies=MEMORY)).outcome
    assert outcome == Completed("1")  # python failed with MemoryError


async def test_memory_beyond_the_systems_own_count_is_seen_by_the_supervisor(bench: Bench):
    """RLIMIT_DATA does not count shared memory: only measuring finds it."""
    outcome = (await bench.run(work.shares, megabytes=300, policies=MEMORY)).outcome
    assert failure(outcome) == ("MemoryLimit", "100 MB")


@pytest.mark.parametrize("task", [work.spins_for_ever, work.sums_for_ever], ids=lambda task: task.__name__)
async def test_too_much_cpu_names_the_limit(bench: Bench, task):
    outcome, account = await bench.run(task, policies=CPU)
    assert failure(outcome) == ("CpuLimit", "1s")
    assert account.cpu_ms >= 900
    assert account.stopped is None


async def test_cpu_of_children_counts(bench: Bench):
    outcome = (await bench.run(work.spins_in_a_child, seconds=60, policies=CPU)).outcome
    assert failure(outcome)[0] in ("CpuLimit", "CalledProcessError")


async def test_cpu_used_by_earlier_runs_does_not_count(bench: Bench):
    bench.use(size=1)
    for _ in range(3):
        assert (await bench.run(work.spins, seconds=0.7, policies=CPU)).outcome == Completed()


async def test_too_many_files_name_the_limit(bench: Bench):
    assert failure((await bench.run(work.opens, files=60, policies=FILES)).outcome) == (
        "OpenFilesLimit",
        "50 files",
    )
    assert (await bench.run(work.opens, files=40, policies=FILES)).outcome == Completed("40")
    assert (await bench.run(work.opens, files=60)).outcome == Completed("60")


async def test_too_much_output_names_the_limit(bench: Bench):
    assert failure((await bench.run(work.floods, megabytes=50, policies=OUTPUT)).outcome) == (
        "OutputLimit",
        "1 MB",
    )
    assert (await bench.run(work.nothing, policies=OUTPUT)).outcome == Completed()

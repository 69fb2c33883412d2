"""Options of tasks for isolation and resource limits."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from ostinato import Invalid, Ostinato
from ostinato.core.model import Definition
from ostinato.core.policy import Isolation, Policies
from ostinato.core.schedule import Manual
from tests.isolation import work


async def a_coroutine() -> None:
    pass


def test_a_task_says_where_it_runs():
    app = Ostinato()
    assert app.task(isolation="process")(work.nothing).isolation is Isolation.PROCESS
    assert app.task(work.pid).isolation is None
    assert app.task(isolation="async")(a_coroutine).isolation is Isolation.ASYNC


@pytest.mark.parametrize(
    ("function", "isolation", "why"),
    [
        (work.nothing, "async", "make it an `async def`"),
        (a_coroutine, "thread", "make it a `def`"),
        (lambda: None, "process", "make it a function of a module"),
        (work.nothing, "fork", "isolation is one of async, thread, process, not 'fork'"),
    ],
)
def test_what_cannot_be_is_refused(function, isolation, why):
    with pytest.raises(Invalid, match=why):
        Ostinato().task(isolation=isolation, name="it")(function)


def test_isolation_is_not_an_option_of_a_job():
    app = Ostinato()
    task = app.task(work.nothing)
    with pytest.raises(Invalid, match="There is no option isolation="):
        task.using(isolation="process")


def test_limits_need_a_process():
    with pytest.raises(Invalid, match="memory_limit_mb= needs a separate process"):
        Ostinato().task(memory_limit_mb=100)(work.nothing)
    assert Ostinato(isolation="process").task(memory_limit_mb=100)(work.nothing).options == {"memory_limit_mb": 100}


@pytest.mark.parametrize(
    "limits",
    [{"memory_limit_mb": 0}, {"open_files_limit": -1}, {"output_limit_mb": "ten"}, {"cpu_limit": "0s"}],
)
def test_a_limit_that_means_nothing_is_refused(app: Ostinato, limits):
    task = app.task(isolation="process")(work.nothing)
    with pytest.raises(Invalid):
        task.using(**limits).enqueue()


def test_limits_are_kept_with_the_job(app: Ostinato):
    task = app.task(isolation="process", cpu_limit="10s", memory_limit_mb=512)(work.nothing)
    job = task.using(open_files_limit=64, output_limit_mb=1).enqueue()
    policies = app.jobs.get(job.id).job.policies
    assert policies.cpu_limit.total_seconds() == 10
    assert (policies.memory_limit_mb, policies.open_files_limit, policies.output_limit_mb) == (512, 64, 1)


def test_the_limits_of_a_task_hold_for_jobs_that_have_none():
    task = Ostinato().task(isolation="process", timeout="3s", memory_limit_mb=200)(work.nothing)
    strange = Definition(task.name, Manual())
    limited = task.limited(strange).policies
    assert (limited.timeout, limited.memory_limit_mb, limited.cpu_limit) == (timedelta(seconds=3), 200, None)
    own = replace(strange, policies=Policies(timeout=timedelta(minutes=1), memory_limit_mb=100))
    assert task.limited(own) is own

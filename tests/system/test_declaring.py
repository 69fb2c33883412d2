"""Processes that start at once and declare the same, while an operator deletes one of the jobs (G10)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ostinato import Ostinato
from ostinato.core.errors import NotFound
from ostinato.features.workflows.service import WorkflowService

PROGRAM = Path(__file__).parent / "declaring.py"
ROUNDS, PROCESSES = 16, 4


def start(url: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), url],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def say(processes: list[subprocess.Popen[str]], word: object) -> None:
    for process in processes:
        process.stdin.write(f"{word}\n")
        process.stdin.flush()


def heard(processes: list[subprocess.Popen[str]], word: str) -> None:
    for process in processes:
        assert process.stdout.readline() == f"{word}\n", process.communicate()[1]


def test_processes_that_declare_at_once_agree_and_none_of_them_exits(database_url: str):
    operator = Ostinato("shop", database_url=database_url)
    processes = [start(database_url) for _ in range(PROCESSES)]
    try:
        for number in range(ROUNDS):
            say(processes, number)
            heard(processes, "ready")
            say(processes, "go")
            try:
                operator.jobs.delete("deleted", by="ops")
            except NotFound:
                assert number == 0 or operator.scheduler.declarations.declined()
            heard(processes, "done")
        assert [process.communicate()[1] for process in processes] == [""] * PROCESSES
        assert [process.returncode for process in processes] == [0] * PROCESSES
        keys = sorted(job.key for job in operator.jobs.list(limit=100))
        assert [key for key in keys if key != "deleted"] == sorted(
            ["changes", "ends", *(f"new-{number}" for number in range(ROUNDS))]
        )
        names = {view.name for view in operator.scheduler.part(WorkflowService).list()}
        assert names == {"flow", *(f"flow-{number}" for number in range(ROUNDS))}
        assert operator.jobs.get("changes").args == {"round": ROUNDS - 1}
        assert operator.scheduler.problems() == []
    finally:
        for process in processes:
            process.kill()
            process.wait()
        operator.close()

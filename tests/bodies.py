"""What the witness noted: each body that began, and how it ended."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import NamedTuple
from uuid import UUID


class Body(NamedTuple):
    """One line of the witness."""

    event: str
    at: float
    execution: UUID
    job: UUID
    number: int
    step: str
    attempt: int
    fence: int
    worker: str
    pid: int
    raised: str | None


def bodies(folder: Path, event: str = "begin") -> list[Body]:
    """The lines of one kind, in the order in which they were written."""
    lines = [line for file in sorted(folder.glob("bodies-*.jsonl")) for line in file.read_text().splitlines()]
    read = [json.loads(line) for line in lines]
    ids = [
        Body(**each | {"execution": UUID(each["execution"]), "job": UUID(each["job"])})
        for each in read
        if each["event"] == event
    ]
    return sorted(ids, key=lambda body: body.at)


def done_twice(folder: Path) -> dict[tuple[UUID, int, str], int]:
    """The occurrences whose body began more than once, and how often."""
    began = Counter((body.job, body.number, body.step) for body in bodies(folder))
    return {occurrence: count for occurrence, count in began.items() if count > 1}

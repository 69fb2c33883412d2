"""Rounds: all subjects once, in a new random order each time."""

import os
import random
from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console

from benchmarks.catalogue import Subject
from benchmarks.environments import NotInstalled
from benchmarks.measures.running import Unwell

Figures = dict[str, Any]
Row = dict[str, Any]  # of one subject: its name, and the figures of each round

console = Console(stderr=True)


def in_rounds(
    subjects: Sequence[Subject],
    measure: Callable[[Subject], Figures],
    rounds: int | None = None,
    what: str = "",
) -> list[Row]:
    """Measure each subject in `rounds` rounds, or in its own number of rounds."""
    rows = [_row(subject) for subject in subjects]
    most = rounds or max((subject.rounds for subject in subjects), default=0)
    for number in range(most):
        places = [place for place, subject in enumerate(subjects) if number < (rounds or subject.rounds)]
        random.Random(number).shuffle(places)
        for place in places:
            _once(subjects[place], measure, rows[place], f"{what} {number + 1}/{most}")
    return rows


def _row(subject: Subject) -> Row:
    return {"subject": subject.title, "store": subject.store, "ours": subject.ours, "module": subject.module,
            "setting": subject.setting, "rounds": {}, "trouble": ""}  # fmt: skip


def _once(subject: Subject, measure: Callable[[Subject], Figures], row: Row, where: str) -> None:
    if isinstance(row["trouble"], str) and row["trouble"].startswith("not installed"):
        return
    number = where.rpartition(" ")[2].partition("/")[0]
    os.sync()  # so that this subject does not wait for writes of the previous one
    try:
        figures = measure(subject)
    except NotInstalled as error:
        row["trouble"] = f"not installed: {error}"
    except Unwell as error:
        row["trouble"] = str(error)
    else:
        row["rounds"][number] = figures
        short = ", ".join(f"{name} {value:,.4g}" for name, value in figures.items() if isinstance(value, float))
        console.print(f"[dim]{where:<12} {subject.title} on {subject.store}: {short}", highlight=False)
        return
    console.print(f"[yellow]{where:<12} {subject.title} on {subject.store}: {row['trouble']}", highlight=False)


def of_rounds(row: Row, name: str) -> list[float]:
    """Return one figure of all rounds that have it."""
    return [figures[name] for figures in row["rounds"].values() if figures.get(name) is not None]


def ratios(over: Row, under: Row, name: str) -> list[float]:
    """Return a figure of one subject divided by another's, for each round."""
    both = [number for number in over["rounds"] if number in under["rounds"]]
    return [over["rounds"][number][name] / under["rounds"][number][name] for number in both]

"""Histograms and totals, with figures that can be checked by hand."""

from math import inf

from ostinato.telemetry.measures import (
    LATENESS,
    MOST_TASKS,
    OTHERS,
    Histogram,
    RunTimes,
    StoreTimes,
    Totals,
)
from tests.build import HOUR, NOW, SECOND


def test_a_value_counts_for_every_bound_that_it_does_not_pass():
    histogram = Histogram((1.0, 2.0, 5.0))
    for value in (0.5, 1.0, 1.5, 5.0, 9.0):
        histogram.add(value)
    assert histogram.cumulative() == [(1.0, 2), (2.0, 3), (5.0, 4), (inf, 5)]
    assert histogram.sum == 17.0


def test_runs_are_measured_by_task():
    times = RunTimes()
    times.add([
        ("a", NOW + SECOND, NOW, NOW + 3 * SECOND),
        ("a", NOW, NOW, NOW + HOUR),
        ("b", NOW, NOW + SECOND, NOW - SECOND),  # a clock was set back
        ("c", None, NOW, NOW),  # never started
    ])  # fmt: skip
    found = times.snapshot()
    assert set(found) == {"a", "b"}
    durations, lateness = found["a"]
    assert (durations.sum, durations.buckets[-1]) == (3602.0, (inf, 2))
    assert (lateness.sum, lateness.buckets[LATENESS.index(0.5)]) == (1.0, (0.5, 1))
    assert (found["b"][0].sum, found["b"][1].sum) == (0.0, 0.0)


def test_there_is_an_end_to_tasks_that_are_told_apart():
    times = RunTimes()
    times.add((f"task {n}", NOW, NOW, NOW) for n in range(MOST_TASKS + 50))
    found = times.snapshot()
    assert len(found) == MOST_TASKS + 1
    assert found[OTHERS][0].buckets[-1] == (inf, 50)


def test_a_total_never_falls():
    totals = Totals()
    for counters, expected in (
        ({"a": 5}, {"a": 5}),
        ({"a": 7, "b": 1}, {"a": 7, "b": 1}),
        ({"a": 2}, {"a": 7, "b": 1}),  # jobs were removed
        ({"a": 4, "b": 3}, {"a": 9, "b": 4}),
    ):
        totals.sample(counters)
        assert totals.snapshot() == expected


def test_store_times_are_a_histogram():
    times = StoreTimes()
    times.add(0.002)
    times.add(60.0)
    found = times.snapshot()
    assert (found.sum, found.buckets[-1], found.buckets[-2]) == (60.002, (inf, 2), (30.0, 1))

"""The backoff of a job that names none: at most its period, at every place that tells or uses it."""

from datetime import UTC, datetime, timedelta

import pytest

from ostinato.core.encoding import policies_of, policies_text
from ostinato.core.lifecycle import backoff_of, settle
from ostinato.core.outcome import Error, Failed, Lost
from ostinato.core.policy import UNNAMED, Backoff, BackoffKind, Policies
from ostinato.core.schedule import Cron, Every, Manual, Once, shortest_gap
from tests.build import CHANCE, HOUR, MINUTE, NOW, SECOND, a_job, a_live

DAY = 24 * HOUR


@pytest.mark.parametrize(
    ("schedule", "gap"),
    [
        (Every(10 * SECOND), 10 * SECOND),
        (Every(DAY), DAY),
        (Cron("*/5 * * * *"), 5 * MINUTE),
        (Cron("0 9 * * *"), DAY),
        (Cron("0,2 9 * * *"), 2 * MINUTE),
        (Cron("0 9 * * mon-fri"), DAY),
        (Cron("0 0 29 2 *"), 1461 * DAY),
        (Once(NOW), None),
        (Manual(), None),
    ],
)
def test_the_shortest_gap_of_the_next_ten_times(schedule, gap):
    assert shortest_gap(schedule, datetime(2026, 11, 18, 8, tzinfo=UTC)) == gap


@pytest.mark.parametrize(
    ("schedule", "backoff", "base", "cap"),
    [
        ({"every": 10 * SECOND}, UNNAMED, 10 * SECOND, 10 * SECOND),
        ({"every": 5 * MINUTE}, UNNAMED, MINUTE, 5 * MINUTE),
        ({"every": HOUR}, UNNAMED, MINUTE, HOUR),
        ({"every": DAY}, UNNAMED, MINUTE, HOUR),
        ({"cron": "* * * * *"}, UNNAMED, MINUTE, MINUTE),
        ({"cron": "0,2 9 * * *"}, UNNAMED, MINUTE, 2 * MINUTE),
        ({"manual": True}, UNNAMED, MINUTE, HOUR),
        ({"every": 10 * SECOND}, Backoff(), MINUTE, HOUR),  # the doors of 000 and 003
        ({"every": 10 * SECOND}, Backoff(base=30 * SECOND), 30 * SECOND, HOUR),
    ],
)
def test_base_and_cap_are_at_most_the_period_of_a_job_that_names_no_backoff(schedule, backoff, base, cap):
    job = a_job(**schedule, backoff=backoff)
    found = backoff_of(job.definition, job.facts)
    assert (found.base, found.cap) == (base, cap)


@pytest.mark.parametrize(("outcome", "given"), [(Failed(Error("E", "e")), {}), (Lost(), {"losses": 1})])
def test_a_short_schedule_tries_again_within_its_period(outcome, given):
    job = a_job(every=10 * SECOND, backoff=UNNAMED)
    live = a_live(job, running=True, **given)
    (again,) = settle(job, [live], live, outcome, NOW, CHANCE).add
    assert timedelta(0) < again.run_at - NOW <= 15 * SECOND  # a second loss comes back spread around the delay


def test_a_backoff_is_kept_by_what_differs_from_the_default():
    short = policies_text(Policies(backoff=UNNAMED))
    assert short == '{"backoff":{"within_period":true}}'
    for backoff in (UNNAMED, Backoff(), Backoff(BackoffKind.STEPS, steps=(SECOND,), spread=0.5)):
        assert policies_of(policies_text(Policies(backoff=backoff))).backoff == backoff

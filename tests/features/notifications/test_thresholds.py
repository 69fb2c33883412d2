"""Thresholds, as a table; and how often they are told."""

from datetime import timedelta

import pytest

from ostinato.features.notifications.rules import Measure, Named, Threshold, WindowFigures, before, beyond, short
from tests.build import HOUR, MINUTE, NOW, SECOND, a_job

JOB = a_job(name="Prices")
NAMED = Named(JOB.id, JOB.definition)


def figures(completed=0, failed=0, lost=0, average=None, usual=None) -> WindowFigures:
    return WindowFigures(JOB.id, completed, failed, lost, average, usual)


RATE = Threshold(Measure.SUCCESS_RATE, 80, HOUR, least=5)
LONGER = Threshold(Measure.DURATION, 3, HOUR, least=2)
LOSSES = Threshold(Measure.LOSSES, 3, HOUR)


@pytest.mark.parametrize(
    ("threshold", "seen", "value"),
    [
        (RATE, figures(8, 2), None),  # 80 % is not below 80 %
        (RATE, figures(7, 3), 70.0),
        (RATE, figures(0, 5), 0.0),
        (RATE, figures(0, 4), None),  # too few
        (RATE, figures(0, 0), None),
        (LONGER, figures(2, average=30 * SECOND, usual=10 * SECOND), None),
        (LONGER, figures(2, average=31 * SECOND, usual=10 * SECOND), 3.1),
        (LONGER, figures(1, average=31 * SECOND, usual=10 * SECOND), None),
        (LONGER, figures(2, average=31 * SECOND, usual=None), None),  # nobody knows what is usual
        (LONGER, figures(2, average=31 * SECOND, usual=timedelta(0)), None),
        (LONGER, figures(0, 9, average=None, usual=SECOND), None),
        (LOSSES, figures(lost=2), None),
        (LOSSES, figures(lost=3), 3),
    ],
)
def test_what_is_beyond_its_limit_is_told(threshold, seen, value):
    notice = beyond(threshold, NAMED, seen, NOW)
    assert (None if notice is None else notice.about["threshold"]["value"]) == value


def test_the_sentence_says_what_and_in_which_time():
    assert (
        beyond(RATE, NAMED, figures(7, 3), NOW).text == "Job Prices: 70.0 % of 10 executions succeeded in the last 1h."
    )
    assert (
        beyond(LOSSES, None, figures(lost=4), NOW).text == "The jobs together: 4 executions were lost in the last 1h."
    )


def test_a_window_has_one_topic_and_the_next_another():
    topics = [beyond(RATE, NAMED, figures(7, 3), NOW + minutes * MINUTE).topic for minutes in (0, 59, 60)]
    assert topics[0] == topics[1] != topics[2]
    assert before(topics[2]) == topics[0]
    other = beyond(Threshold(Measure.SUCCESS_RATE, 90, HOUR, 5), NAMED, figures(7, 3), NOW)
    assert other.topic != topics[0]


@pytest.mark.parametrize(
    ("span", "text"),
    [(0 * SECOND, "0s"), (12.54 * SECOND, "12.5s"), (90 * SECOND, "1m30s"), (7200.4 * SECOND, "2h")],
)
def test_durations_as_a_person_would_say_them(span, text):
    assert short(span) == text

"""Why an occurrence ran, ran late or did not run: evidence in, verdict, causes and sentences out."""

from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest

from ostinato.core.model import AskedBy, Ending, Event, Skip, SkipReason, Status, WaitsFor
from ostinato.core.outcome import OutcomeKind
from ostinato.core.policy import CatchUp
from ostinato.core.times import Window
from ostinato.core.why import Because, Evidence, Presence, Verdict, explain
from ostinato.core.why.explain import between, span
from ostinato.core.why.values import absence
from tests.build import DAY, HOUR, MINUTE, NOW, SECOND, a_job, a_live, an_execution

DUE = NOW + HOUR
LATER = DUE + 10 * MINUTE
ALWAYS = Presence(NOW - DAY, NOW + 30 * DAY, frozenset({"work"}), frozenset())
JOB = a_job(every=HOUR, last_due_at=DUE, next_due_at=DUE + HOUR)


def evidence(job=JOB, *, at=None, now=None, present=(ALWAYS,), status=Status.SCHEDULED, **found):
    now = now or LATER
    return Evidence(job, status, at or now, now, present=tuple(present), **found)


def an_attempt(started=timedelta(0), took=timedelta(seconds=3), job=JOB, **given):
    """The execution of the occurrence at DUE, started so long after it, completed."""
    times = {"due_at": DUE, "run_at": DUE, "queued_at": DUE, "outcome": OutcomeKind.COMPLETED} | given
    began = times["run_at"] + started
    return an_execution(job, **{"started_at": began, "finished_at": began + took} | times)


def a_skip(reason, **given):
    row = {"first_due_at": DUE, "last_due_at": DUE, "count": 1, "recorded_at": DUE + SECOND} | given
    return Skip(UUID(int=1), JOB.id, reason, **row)


def an_event(kind, at=NOW + 30 * MINUTE, by="ops"):
    return Event(UUID(int=2), at, kind, JOB.id, by=by)


def told(found):
    why = explain(found)
    return why.verdict, [cause.because for cause in why.causes], " ".join(why.sentences)


GONE = [Presence(NOW, DUE - 5 * MINUTE, frozenset({"work"}), frozenset()),
        Presence(DUE + 4 * MINUTE, NOW + DAY, frozenset({"work"}), frozenset())]  # fmt: skip
OTHERS = [replace(ALWAYS, tasks=frozenset({"other"}))]
ELSEWHERE = [replace(ALWAYS, queues=frozenset({"reports"}))]
AFTERNOON = Window.from_json({"from": "14:00", "to": "15:00"})
BLOCKER = an_execution(JOB, number=7, started_at=NOW, finished_at=DUE + 8 * MINUTE)

RAN = {
    "on time": (
        {"attempts": (an_attempt(),)},
        [],
        "It started at 2026-11-16 13:00:00 UTC, on time. It completed at 2026-11-16 13:00:03 UTC after 3 s.",
    ),
    "all workers were busy": (
        {"attempts": (an_attempt(2 * MINUTE),)},
        [Because.WORKERS_BUSY],
        "2 min late. All workers were busy until 2026-11-16 13:02:00 UTC.",
    ),
    "nothing was running": (
        {"attempts": (an_attempt(4 * MINUTE + SECOND, queued_at=DUE + 4 * MINUTE),), "present": GONE},
        [Because.NOBODY_RUNNING],
        "queued late because nothing was running between 2026-11-16 12:55:00 UTC and 2026-11-16 13:04:00 UTC.",
    ),
    "queued, then nothing was running": (
        {"attempts": (an_attempt(4 * MINUTE + SECOND),), "present": GONE},
        [Because.NOBODY_RUNNING],
        "No worker was running between 2026-11-16 12:55:00 UTC and 2026-11-16 13:04:00 UTC.",
    ),
    "no worker knew the task": (
        {"attempts": (an_attempt(MINUTE),), "present": [*OTHERS, replace(ALWAYS, since=DUE + MINUTE)]},
        [Because.UNKNOWN_TASK],
        "No worker knew the task 'work' before 2026-11-16 13:01:00 UTC.",
    ),
    "no worker served the queue": (
        {"attempts": (an_attempt(MINUTE),), "present": [*ELSEWHERE, replace(ALWAYS, since=DUE + MINUTE)]},
        [Because.QUEUE_NOT_SERVED],
        "No worker served the queue 'default' before 2026-11-16 13:01:00 UTC.",
    ),
    "the queue was paused": (
        {
            "attempts": (an_attempt(MINUTE),),
            "queue_paused": an_event("queue.paused"),
            "queue_resumed_at": DUE + MINUTE,
        },
        [Because.QUEUE_PAUSED],
        "The queue 'default' was paused by ops at 2026-11-16 12:30:00 UTC, and resumed at 2026-11-16 13:01:00 UTC.",
    ),
    "behind the run before it": (
        {"attempts": (an_attempt(8 * MINUTE + SECOND, queued_at=DUE + 8 * MINUTE),), "in_the_way": BLOCKER},
        [Because.PREVIOUS_RUN],
        "It waited for the run before it (number 7), which ended at 2026-11-16 13:08:00 UTC.",
    ),
    "jitter": (
        {"attempts": (an_attempt(run_at=DUE + MINUTE),)},
        [Because.JITTER],
        "It started at 2026-11-16 13:01:00 UTC, on time. Its jitter moved the start to 2026-11-16 13:01:00 UTC.",
    ),
    "window": (
        {
            "job": a_job(JOB.id, every=HOUR, last_due_at=DUE, window=AFTERNOON),
            "attempts": (an_attempt(run_at=DUE + HOUR),),
            "now": DUE + 2 * HOUR,
            "at": DUE + MINUTE,
        },
        [Because.WINDOW],
        "It had to wait until its window opens at 2026-11-16 14:00:00 UTC.",
    ),
    "by hand": (
        {"attempts": (an_attempt(asked=AskedBy.HAND),)},
        [Because.BY_HAND],
        "It was requested at 2026-11-16 13:00:00 UTC, not by the schedule. It started",
    ),
    "failed, then retried": (
        {
            "attempts": (
                an_attempt(outcome=OutcomeKind.FAILED, error_kind="ValueError", error="no"),
                an_attempt(attempt=1, run_at=DUE + MINUTE, queued_at=DUE + SECOND),
            )
        },
        [],
        "It failed at 2026-11-16 13:00:03 UTC after 3 s (ValueError: no). Attempt 1 started at 2026-11-16 13:01:00 UTC",
    ),
    "timed out": ({"attempts": (an_attempt(outcome=OutcomeKind.TIMED_OUT),)}, [], "It timed out at"),
    "lost": ({"attempts": (an_attempt(outcome=OutcomeKind.LOST),)}, [], "It was lost with its worker at"),
    "cancelled": (
        {"attempts": (an_attempt(outcome=OutcomeKind.CANCELLED, by="eve"),)}, [], "It was cancelled by eve at"
    ),
    "withdrawn": (
        {"attempts": (an_attempt(outcome=OutcomeKind.CANCELLED, started_at=None, by="eve"),)},
        [],
        "It was queued at 2026-11-16 13:00:00 UTC and never started. It was cancelled by eve at",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", RAN)
def test_what_ran_is_told_with_what_came_between(case):
    found, because, words = RAN[case]
    verdict, causes, sentences = told(evidence(**found))
    assert (verdict, causes) == (Verdict.ENDED, because)
    assert words in sentences


def live(**given):
    return a_live(JOB, **{"due_at": DUE, "run_at": DUE, "queued_at": DUE} | given)


WAITING = {
    "backoff": (
        {
            "attempts": (
                an_attempt(outcome=OutcomeKind.FAILED),
                live(attempt=1, waits_for=WaitsFor.TIME, run_at=LATER + MINUTE),
            )
        },
        Because.BACKOFF,
        "It waits for its retry at 2026-11-16 13:11:00 UTC.",
    ),
    "a time": ({"attempts": (live(waits_for=WaitsFor.TIME, run_at=LATER + HOUR),)}, Because.WINDOW, "It may start at"),
    "its turn": (
        {"attempts": (live(waits_for=WaitsFor.TURN),), "in_the_way": live(number=9, running=True)},
        Because.PREVIOUS_RUN,
        "It waited for the run before it (number 9), which is still running.",
    ),
    "its turn, of which nothing is left": (
        {"attempts": (live(waits_for=WaitsFor.TURN),)}, Because.PREVIOUS_RUN, "It waits for the run before it.",
    ),
    "a task": ({"attempts": (live(waits_for=WaitsFor.TASK),)}, Because.UNKNOWN_TASK, "No worker knows the task"),
    "a budget": (
        {"attempts": (live(waits_for=WaitsFor.TIME, run_at=DUE + HOUR),), "budget_of": "api.example.org"},
        Because.PROVIDER,
        "It waits for api.example.org's budget until 2026-11-16 14:00:00 UTC.",
    ),
    "a limit": ({"attempts": (live(waits_for=WaitsFor.LIMIT),)}, Because.LIMIT, "a limit is reached"),
    "a resume": (
        {"attempts": (live(waits_for=WaitsFor.RESUME),), "events": (an_event("job.paused"),)},
        Because.PAUSED,
        "The job is paused by ops, and the run waits until the job is resumed.",
    ),
    "a worker": ({"attempts": (live(),)}, Because.WORKERS_BUSY, "All workers are busy."),
    "anybody": (
        {"attempts": (live(),), "present": GONE[:1]},
        Because.NOBODY_RUNNING,
        "No worker was running since 2026-11-16 12:55:00 UTC.",
    ),
    "the first worker ever": ({"attempts": (live(),), "present": ()}, Because.NOBODY_RUNNING, "was running yet"),
    "its queue": (
        {"attempts": (live(),), "queue_paused": an_event("queue.paused")},
        Because.QUEUE_PAUSED,
        "was paused by ops at 2026-11-16 12:30:00 UTC, and starts nothing until it is resumed.",
    ),
    "a worker that knows the task": (
        {"attempts": (live(),), "present": OTHERS}, Because.UNKNOWN_TASK, "No worker knew the task 'work'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WAITING)
def test_what_waits_is_told_with_what_it_waits_for(case):
    found, because, words = WAITING[case]
    verdict, causes, sentences = told(evidence(status=Status.QUEUED, **found))
    assert (verdict, causes) == (Verdict.QUEUED, [because])
    assert words in sentences
    assert "has not started yet" in sentences


def test_what_runs_is_told_with_how_long():
    verdict, causes, sentences = told(evidence(attempts=(live(running=True, started_at=DUE),)))
    assert (verdict, causes) == (Verdict.RUNNING, [])
    assert sentences.endswith("It is still running, for 10 min now.")


def test_a_workflow_that_waits_for_its_steps_runs():
    found = evidence(attempts=(live(waits_for=WaitsFor.STEPS),))
    assert told(found)[:2] == (Verdict.RUNNING, [Because.STEPS])


SKIPPED = {
    "overlap": (
        {"skip": a_skip(SkipReason.OVERLAP), "in_the_way": BLOCKER},
        Because.PREVIOUS_RUN,
        "It was skipped because the previous run (number 7) was still running: "
        "started at 2026-11-16 12:00:00 UTC, and ended at 2026-11-16 13:08:00 UTC.",
    ),
    "overlap with one that runs": (
        {"skip": a_skip(SkipReason.OVERLAP), "in_the_way": live(number=7, running=True)},
        Because.PREVIOUS_RUN,
        "and has not ended yet.",
    ),
    "overlap with one that waits": (
        {"skip": a_skip(SkipReason.OVERLAP), "in_the_way": live(number=7)}, Because.PREVIOUS_RUN, "queued at 2026",
    ),
    "overlap with one that is forgotten": (
        {"skip": a_skip(SkipReason.OVERLAP)}, Because.PREVIOUS_RUN, "because the previous run was still running.",
    ),
    "paused": (
        {"skip": a_skip(SkipReason.PAUSED), "events": (an_event("job.paused"),)},
        Because.PAUSED,
        "It was skipped because the job was paused by ops at 2026-11-16 12:30:00 UTC.",
    ),
    "missed": (
        {"skip": a_skip(SkipReason.MISSED, recorded_at=DUE + 4 * MINUTE), "present": GONE},
        Because.NOBODY_RUNNING,
        "because nothing was running between 2026-11-16 12:55:00 UTC and 2026-11-16 13:04:00 UTC, "
        "and the catch-up policy is to run only the newest missed time.",
    ),
    "missed while somebody was there": (
        {"skip": a_skip(SkipReason.MISSED)}, Because.MISSED, "no process handled it before 2026-11-16 13:00:01 UTC",
    ),
    "missed and not caught up": (
        {
            "job": a_job(JOB.id, every=HOUR, last_due_at=DUE, catch_up=CatchUp.NONE),
            "skip": a_skip(SkipReason.MISSED),
        },
        Because.MISSED,
        "and the catch-up policy is to skip all missed times.",
    ),
    "window": ({"skip": a_skip(SkipReason.WINDOW)}, Because.WINDOW, "outside the job's window"),
    "budget": ({"skip": a_skip(SkipReason.BUDGET)}, Because.BUDGET, "the retries of that period were used up"),
    "failed": ({"skip": a_skip(SkipReason.FAILED)}, Because.FAILED, "the job had failed"),
}  # fmt: skip


@pytest.mark.parametrize("case", SKIPPED)
def test_what_was_skipped_is_told_with_the_reason(case):
    found, because, words = SKIPPED[case]
    why = explain(evidence(**found))
    assert (why.verdict, [cause.because for cause in why.causes]) == (Verdict.SKIPPED, [because])
    assert (why.due_at, why.skip, why.attempts, why.number) == (DUE, found["skip"], (), None)
    assert words in " ".join(why.sentences)


def test_one_of_many_skipped_times_is_told_with_the_others():
    skip = a_skip(SkipReason.WINDOW, last_due_at=DUE + 5 * HOUR, count=6)
    why = explain(evidence(at=DUE + 2 * HOUR + MINUTE, now=DUE + 6 * HOUR, skip=skip))
    assert why.due_at == DUE + 2 * HOUR
    assert "with 5 more up to 2026-11-16 18:00:00 UTC" in why.sentences[0]


PAUSED = a_job(JOB.id, every=HOUR, last_due_at=NOW, paused_at=NOW + 30 * MINUTE)
WAITS = a_job(JOB.id, every=HOUR, last_due_at=NOW, reset_at=DUE + DAY, next_due_at=DUE + DAY)
DUE_NOW = a_job(JOB.id, every=HOUR, last_due_at=NOW, next_due_at=DUE)
NOT_RUN = {
    "paused": ({"job": PAUSED, "events": (an_event("job.paused"),)}, [Because.PAUSED],
               "The job has been paused by ops since 2026-11-16 12:30:00 UTC."),
    "waits for a reset": ({"job": WAITS}, [Because.BUDGET], "the job continues at 2026-11-17 13:00:00 UTC"),
    "nobody there": ({"job": DUE_NOW, "present": GONE[:1]}, [Because.NOBODY_RUNNING],
                     "Nothing has queued it yet: nothing was running since 2026-11-16 12:55:00 UTC."),
    "somebody there": ({"job": DUE_NOW}, [Because.MISSED], "Nothing has queued it yet, though a process is running."),
    "a run before it": ({"job": DUE_NOW, "in_the_way": BLOCKER}, [Because.PREVIOUS_RUN],
                        "It runs after the run before it (number 7) has ended."),
    "a full queue": ({"job": DUE_NOW, "queue_bound": 3}, [Because.QUEUE_FULL],
                     "The queue 'default' is full: its limit for the schedule is 3."),
    "nobody there, due just now": ({"job": DUE_NOW, "now": DUE + SECOND, "present": GONE[:1]},
                                   [Because.NOBODY_RUNNING], "nothing was running since 2026-11-16 12:55:00 UTC."),
    "the worker left after the due time": ({"job": DUE_NOW, "present": (replace(ALWAYS, until=DUE + SECOND),)},
                                           [Because.NOBODY_RUNNING], "nothing was running since 2026-11-16 13:00:01"),
    "any moment now": ({"job": DUE_NOW, "now": DUE + SECOND}, [], "about to be queued"),
}  # fmt: skip


@pytest.mark.parametrize("case", NOT_RUN)
def test_a_due_time_without_a_record_is_explained(case):
    found, because, words = NOT_RUN[case]
    why = explain(evidence(**found))
    assert (why.verdict, why.due_at) == (Verdict.NOT_RUN, DUE)
    assert [cause.because for cause in why.causes] == because
    assert words in " ".join(why.sentences)


def test_the_record_of_an_earlier_time_does_not_answer_for_a_later_one():
    found = evidence(job=DUE_NOW, attempts=(an_attempt(due_at=NOW, run_at=NOW, queued_at=NOW),), present=())
    assert explain(found).verdict is Verdict.NOT_RUN
    assert explain(replace(found, at=DUE - SECOND)).verdict is Verdict.ENDED


CANCELLED = a_job(JOB.id, every=HOUR, cancelled_at=NOW + MINUTE)
OVER = a_job(JOB.id, every=HOUR, ended_at=NOW + MINUTE, ended_as=Ending.COMPLETED)
FAILED = a_job(JOB.id, every=HOUR, ended_at=NOW + MINUTE, ended_as=Ending.FAILED)
LONG = a_job(JOB.id, every=HOUR, last_due_at=DUE + 9 * HOUR)
ANEW = a_job(JOB.id, every=HOUR, anchor=DUE, last_due_at=DUE + 9 * HOUR)
NOTHING = {
    "before creation": ({"at": NOW - SECOND}, Verdict.BEFORE_CREATION, "was created at 2026-11-16 12:00:00 UTC"),
    "cancelled": ({"job": CANCELLED, "events": (an_event("job.cancelled"),)}, Verdict.AFTER_THE_END,
                  "The job was cancelled by ops at 2026-11-16 12:01:00 UTC."),
    "completed": ({"job": OVER}, Verdict.AFTER_THE_END, "The job was over at 2026-11-16 12:01:00 UTC."),
    "failed": ({"job": FAILED}, Verdict.AFTER_THE_END, "The job had failed at 2026-11-16 12:01:00 UTC."),
    "manual": ({"job": a_job(manual=True)}, Verdict.NOTHING_DUE, "it runs only on request"),
    "the first is to come": ({"job": a_job(every=DAY)}, Verdict.NOTHING_DUE, "Nothing was due yet."),
    "before the first": ({"at": NOW + MINUTE}, Verdict.NOTHING_DUE, "Nothing was due yet."),
    "long ago": ({"job": LONG, "at": DUE + MINUTE}, Verdict.FORGOTTEN, "The records of that time were removed"),
    "before it began anew": ({"job": ANEW, "at": NOW + MINUTE}, Verdict.FORGOTTEN, "the schedule was restarted since"),
}  # fmt: skip


@pytest.mark.parametrize("case", NOTHING)
def test_where_there_is_no_occurrence_that_is_told(case):
    found, verdict, words = NOTHING[case]
    why = explain(evidence(**found))
    assert (why.verdict, why.due_at, why.attempts, why.skip) == (verdict, None, (), None)
    assert words in " ".join(why.sentences)


def test_the_next_time_comes_last():
    why = explain(evidence(attempts=(an_attempt(),), next_run_at=DUE + HOUR))
    assert why.sentences[-1] == "Next time: 2026-11-16 14:00:00 UTC."
    assert why.next_run_at == DUE + HOUR


@pytest.mark.parametrize(
    ("time", "words"),
    [
        (-1, "0 ms"), (0, "0 ms"), (0.34, "340 ms"), (59.6, "1 min"), (61, "1 min 1 s"), (3725, "1 h 2 min"),
        (90061, "1 d 1 h"),
    ],
)  # fmt: skip
def test_a_span_is_told_in_two_units(time, words):
    assert span(timedelta(seconds=time)) == words


def test_nobody_was_there_from_the_last_one_s_end_to_the_next_one_s_begin():
    assert absence(GONE, DUE, LATER) == (DUE - 5 * MINUTE, DUE + 4 * MINUTE)
    assert absence(GONE, DUE, DUE + MINUTE) == (DUE - 5 * MINUTE, None)
    assert absence(GONE, DUE - 5 * MINUTE, DUE) is None
    assert absence([], DUE, LATER) == (None, None)
    assert between(None, DUE) == "before 2026-11-16 13:00:00 UTC"

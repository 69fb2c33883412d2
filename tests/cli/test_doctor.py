"""`ostinato doctor`: what it looks at, what it says, and what it advises."""

import json
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from ostinato import Ostinato
from ostinato.core.read_models import QueueRow, WorkerRow
from ostinato.core.times import MINUTE, SECOND
from ostinato.service.doctor import FindingState, clock_offset, judge, zone_data
from ostinato.store.doctor import DoctorSnapshot, QueueWaiting, Wanted

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


def a_worker(tasks=("work",), queues=(), **given) -> WorkerRow:
    values = {
        "id": UUID(int=1), "app": "", "host": "here", "pid": 1, "version": "0", "tasks": json.dumps(tasks),
        "queues": json.dumps(queues), "concurrency": 5, "running": 2, "started_at": NOW, "renewed_at": NOW,
        "lease_until": NOW + 30 * SECOND, "drain_asked_at": None, "closed_at": None, "closed_as": None,
    }  # fmt: skip
    return WorkerRow(**values | given)


def a_condition(**given) -> DoctorSnapshot:
    values = {
        "version": "3.40.1", "wanted": (Wanted("work", "default", 3),), "waiting": (), "unfired": 0,
        "unfired_since": None, "set_aside": 0, "unsaved": 0, "workers": (a_worker(),), "queues": (),
    }  # fmt: skip
    return DoctorSnapshot(**values | given)


def found(condition):
    """What is not well."""
    return [
        (each.subject, each.state, each.finding) for each in judge(condition, NOW) if each.state is not FindingState.OK
    ]


def test_all_is_well():
    assert found(a_condition()) == []


def test_nobody_is_at_work():
    (finding,) = found(a_condition(workers=()))
    assert finding == ("workers", FindingState.WRONG, "no worker is running")
    assert found(a_condition(workers=(), wanted=())) == [("workers", FindingState.LOOK, "no worker is running")]


def test_a_worker_that_is_silent_or_lost_is_told():
    silent = a_worker(lease_until=NOW - SECOND)
    lost = a_worker(closed_at=NOW, closed_as="lost")
    stopped = a_worker(closed_at=NOW, closed_as="stopped")
    assert found(a_condition(workers=(a_worker(), stopped))) == []
    (finding,) = found(a_condition(workers=(a_worker(), silent, lost)))
    assert finding == ("lost workers", FindingState.LOOK, "2 died or stopped responding in the last 1d")


@pytest.mark.parametrize(
    ("worker", "advice"),
    [
        (a_worker(tasks=["other"]), "No running worker knows this task"),
        (a_worker(queues=["other"]), "No worker that knows this task serves this queue"),
    ],
)
def test_jobs_that_nobody_can_run(worker, advice):
    (finding,) = [each for each in judge(a_condition(workers=(worker,)), NOW) if each.state is not FindingState.OK]
    assert (finding.subject, finding.state) == ("jobs without a worker", FindingState.WRONG)
    assert finding.finding == "3 jobs of the task 'work' in the queue 'default'"
    assert advice in finding.advice


def test_due_times_that_nobody_fires():
    (finding,) = found(a_condition(unfired=1, unfired_since=NOW - 5 * MINUTE))
    assert finding == ("due times", FindingState.WRONG, "1 job were due and not fired, the oldest 5m ago")


def test_jobs_that_were_set_aside():
    (finding,) = found(a_condition(set_aside=2))
    assert finding == ("due times", FindingState.WRONG, "2 jobs could not be fired and are set aside")


def test_a_backlog_is_told_when_it_is_old():
    fresh, old = QueueWaiting("fast", 9, NOW - SECOND), QueueWaiting("slow", 40, NOW - 5 * MINUTE)
    (finding,) = found(a_condition(waiting=(fresh, old)))
    assert finding == ("backlog", FindingState.LOOK, "40 wait in the queue 'slow', the oldest since 5m ago")


def test_a_paused_queue_is_told_and_is_no_backlog():
    paused = QueueRow("slow", NOW - MINUTE, "ann", None, 40, 0)
    (finding,) = found(a_condition(waiting=(QueueWaiting("slow", 40, NOW - 5 * MINUTE),), queues=(paused,)))
    assert finding == ("backlog", FindingState.LOOK, "the queue 'slow' is paused by ann, with 40 waiting")


@pytest.mark.parametrize(
    ("ahead", "state"),
    [(0.2, FindingState.OK), (-0.9, FindingState.OK), (5, FindingState.LOOK), (-3600, FindingState.LOOK)],
)
def test_a_clock_that_is_off_is_told(ahead, state):
    finding = clock_offset(timedelta(seconds=ahead))
    assert (finding.state, bool(finding.advice)) == (state, state is FindingState.LOOK)
    assert ("ahead of" in finding.finding) == (ahead > 0)


def test_old_zone_data_are_told():
    assert zone_data("2025b", NOW).state is FindingState.OK
    assert zone_data("2024a", NOW).state is FindingState.LOOK


# -- the command


def test_a_database_that_is_well_but_for_workers(ostinato, empty_database_url):
    ostinato("db", "upgrade", "--database", empty_database_url)
    answer = ostinato("doctor", "--database", empty_database_url)
    assert answer.code == 0
    for subject in ("database", "schema", "clock", "zone data", "workers", "due times", "backlog"):
        assert f"  {subject} " in answer.out
    assert "→ workers: Start one: ostinato worker --app MODULE:APP." in answer.out


def test_jobs_that_nobody_works_on_are_exit_code_1(ostinato, empty_database_url):
    app = Ostinato(database_url=empty_database_url)
    app.open(upgrade=True)
    app.register("work", lambda: None).enqueue()
    app.close()
    answer = ostinato("doctor", "--database", empty_database_url, "--json")
    assert answer.code == 1
    states = {each["subject"]: each["state"] for each in json.loads(answer.out)}
    assert (states["database"], states["workers"]) == ("ok", "wrong")


def test_a_schema_that_is_behind_is_told_with_its_remedy(ostinato, empty_postgres_url):
    answer = ostinato("doctor", "--database", empty_postgres_url)
    assert answer.code == 1
    assert "→ schema: ostinato db upgrade" in answer.out


def test_a_database_that_is_away_is_told(ostinato):
    answer = ostinato("doctor", "--database", "postgresql://me:secret@127.0.0.1:1/none")
    assert answer.code == 1
    assert "No connection to" in answer.out
    assert "secret" not in answer.out


def test_to_look_is_not_to_make(ostinato, empty_sqlite_url, tmp_path):
    assert ostinato("doctor", "--database", empty_sqlite_url).code == 3
    assert not (tmp_path / "ostinato.db").exists()


def test_results_that_cannot_be_saved_are_wrong():
    ((subject, state, told),) = found(a_condition(unsaved=2))
    assert (subject, state) == ("results", FindingState.WRONG)
    assert told.startswith("2 cannot be saved")

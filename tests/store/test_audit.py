"""The auditor on both databases: it finds each tampering, and no flaw where the rows are sound."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from uuid import UUID

import pytest

from ostinato.core.audit import FlawKind
from ostinato.core.model import FIRST_ID, Event, Execution, Live
from ostinato.core.outcome import OutcomeKind
from ostinato.core.policy import Overlap
from ostinato.core.schedule import Cron
from ostinato.store import audit, rows
from ostinato.store.clock_record import JUMPED, LINE
from ostinato.store.doctor import Checkup
from ostinato.store.history import Keep
from ostinato.store.workers import WENT_BACK
from tests.build import DAY, HOUR, MINUTE, NOW, SECOND
from tests.store.conftest import DONE, FAILURE, World

FAR = datetime(2099, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Town:
    """A database with some history.

    hourly: n1, n2, n3 (failed, then completed), two missed due times, n4, n5. busy: n1 runs, n2 waits for its turn.
    """

    world: World
    hourly: UUID
    busy: UUID

    def found(self) -> set[FlawKind]:
        return {flaw.kind for flaw in self.world.store.audit.everything(self.world.now)}

    def sql(self, text: str, job: UUID, **params: object) -> None:
        assert self.world.sql(f"{text} RETURNING 1", job=job, **params), "nothing was tampered with"

    def set_job(self, job: UUID, column: str, value: object) -> None:
        self.sql(f"UPDATE {{jobs}} SET {column} = :value WHERE id = :job", job, value=value)

    def add_to(self, job: UUID, column: str, by: int) -> None:
        self.sql(f"UPDATE {{jobs}} SET {column} = {column} + :by WHERE id = :job", job, by=by)

    def execution(self, number: int) -> Execution:
        return next(each for each in self.world.history(self.hourly) if each.number == number)

    def add(self, ended: Execution) -> None:
        """Add an execution and count it everywhere: only a recomputation can find it."""
        new = replace(ended, id=self.world.chance.id(self.world.now))
        with self.world.store.database.write() as tx:
            tx.run("insert_executions", [rows.EXECUTION.row(new)])
        self.add_to(self.hourly, ended.outcome.value, 1)
        facts = self.world.facts(self.hourly)
        self.set_job(self.hourly, "last_execution_number", max(facts.last_execution_number, ended.execution_number))
        self.set_job(self.hourly, "last_number", max(facts.last_number, ended.number))

    def add_live(self, live: Live) -> None:
        with self.world.store.database.write() as tx:
            tx.run("insert_live", [rows.LIVE.row(replace(live, id=self.world.chance.id(self.world.now)))])


@pytest.fixture
def town(world: World) -> Town:
    worker, hourly = world.worker(), world.add_one(every=HOUR, max_retries=1)
    for hour in (1, 2, 3, 6, 7):
        world.now = NOW + hour * HOUR
        world.fire()
        claimed = world.claim(worker)
        world.advance(30 * SECOND)
        world.settle(claimed, FAILURE if hour == 3 else DONE)
        world.advance(2 * MINUTE)
        world.run_all(worker)
    busy = world.add_one(every=10 * MINUTE, overlap=Overlap.QUEUE_ONE)
    world.enqueue()
    for _ in range(2):
        world.advance(10 * MINUTE)
        world.fire()
        world.claim(worker)
    world.advance(MINUTE)
    return Town(world, hourly, busy)


# -- tamperings, each with the flaw that must be found


def lose_a_due_time(town: Town) -> None:
    town.sql("DELETE FROM {executions} WHERE job_id = :job AND number = 2", town.hourly)
    town.add_to(town.hourly, "completed", -1)


def run_a_due_time_twice(town: Town) -> None:
    second = town.execution(2)
    town.add(replace(second, number=6, execution_number=7))


def lose_the_next_time(town: Town) -> None:
    town.set_job(town.hourly, "next_due_at", None)


def name_a_next_time_in_2099(town: Town) -> None:
    town.set_job(town.hourly, "next_due_at", FAR)


def jump_over_a_due_time(town: Town) -> None:
    town.add_to(town.hourly, "next_due_at", 3_600_000_000)


def move_last_due_at_ahead(town: Town) -> None:
    town.add_to(town.hourly, "last_due_at", 3 * 3_600_000_000)


def move_last_due_at_back(town: Town) -> None:
    town.add_to(town.hourly, "last_due_at", -3_600_000_000)


def end_before_the_start(town: Town) -> None:
    town.sql(
        "UPDATE {executions} SET finished_at = started_at - 60000000 WHERE job_id = :job AND number = 1",
        town.hourly,
    )


def start_before_the_time(town: Town) -> None:
    town.sql("UPDATE {executions} SET started_at = run_at - 1 WHERE job_id = :job AND number = 1", town.hourly)


def run_under_an_unknown_worker(town: Town) -> None:
    text = "UPDATE {live} SET worker_id = :worker WHERE job_id = :job AND worker_id IS NOT NULL"
    town.sql(text, town.busy, worker=UUID(int=7))


def break_the_schedule(town: Town) -> None:
    town.set_job(town.hourly, "schedule", '{"every": "1')


def break_the_policies(town: Town) -> None:
    town.set_job(town.hourly, "policies", '{"overlap": "sideways"}')


def break_the_args(town: Town) -> None:
    town.set_job(town.hourly, "args", '{"n": ')


def give_a_list_as_args(town: Town) -> None:
    town.set_job(town.hourly, "args", "[1]")


def nest_the_schedule_too_deep(town: Town) -> None:
    town.set_job(town.hourly, "schedule", "[" * 5000)


def count_wrongly(town: Town) -> None:
    town.add_to(town.hourly, "completed", 1)


def take_a_second_slot(town: Town) -> None:
    (running,) = [live for live in town.world.lives(town.busy) if live.running]
    town.add_live(replace(running, number=3, execution_number=3, slot=1, due_at=running.due_at + 20 * MINUTE))
    town.set_job(town.busy, "last_execution_number", 3)
    town.set_job(town.busy, "last_number", 3)


def run_two_at_once(town: Town) -> None:
    text = "UPDATE {executions} SET finished_at = finished_at + 7200000000 WHERE job_id = :job AND number = 1"
    town.sql(text, town.hourly)


def leave_an_orphan(town: Town) -> None:
    town.sql("UPDATE {skips} SET job_id = :other WHERE job_id = :job", town.hourly, other=UUID(int=7))


def wait_for_a_turn_in_vain(town: Town) -> None:
    town.sql("DELETE FROM {live} WHERE job_id = :job AND worker_id IS NOT NULL", town.busy)


def give_a_number_again(town: Town) -> None:
    town.add_to(town.hourly, "last_number", -1)


def pass_over_numbers(town: Town) -> None:
    town.add_to(town.hourly, "last_number", 1)


def delete_a_history_row(town: Town) -> None:
    town.sql("DELETE FROM {executions} WHERE job_id = :job AND number = 4", town.hourly)


def delete_a_skip(town: Town) -> None:
    town.sql("DELETE FROM {skips} WHERE job_id = :job", town.hourly)
    town.set_job(town.hourly, "skipped", 0)


def widen_a_skip(town: Town) -> None:
    text = "UPDATE {skips} SET last_due_at = last_due_at + 7200000000, count = count + 2 WHERE job_id = :job"
    town.sql(text, town.hourly)
    town.add_to(town.hourly, "skipped", 2)


def count_more_in_a_skip(town: Town) -> None:
    town.sql("UPDATE {skips} SET count = count + 1 WHERE job_id = :job", town.hourly)
    town.add_to(town.hourly, "skipped", 1)


def run_off_the_grid(town: Town) -> None:
    town.sql("UPDATE {executions} SET due_at = due_at - 60000000 WHERE job_id = :job AND number = 2", town.hourly)


def retry_beyond_the_budget(town: Town) -> None:
    last = town.execution(3)
    failed = {"result": OutcomeKind.FAILED, "failures": 2, "attempt": last.attempt + 1, "execution_number": 7}
    town.sql("UPDATE {executions} SET outcome = 'failed' WHERE job_id = :job AND number = 3", town.hourly)
    town.add_to(town.hourly, "completed", -1)
    town.add_to(town.hourly, "failed", 1)
    town.add(replace(last, **failed))


def retry_without_a_reason(town: Town) -> None:
    last = town.execution(1)
    town.add(replace(last, attempt=1, execution_number=7, failures=1))


def withdraw_a_queued_run(town: Town) -> None:
    town.sql("DELETE FROM {live} WHERE job_id = :job AND slot = -1", town.busy)


def break_the_args_of_a_queued_run(town: Town) -> None:
    town.sql("UPDATE {live} SET args = '{' WHERE job_id = :job AND slot = -1", town.busy)


def give_a_list_as_args_to_a_queued_run(town: Town) -> None:
    town.sql("UPDATE {live} SET args = '[1]' WHERE job_id = :job AND slot = -1", town.busy)


def give_an_execution_number_twice(town: Town) -> None:
    town.sql("UPDATE {executions} SET execution_number = 1 WHERE job_id = :job AND number = 2", town.hourly)


def move_the_anchor(town: Town) -> None:
    town.add_to(town.hourly, "anchor", 60_000_000)


def repeat_too_often(town: Town) -> None:
    town.set_job(town.hourly, "repeats_done", 99)


def end_a_job_with_a_queued_run(town: Town) -> None:
    text = "UPDATE {jobs} SET ended_at = anchor, ended_as = 'completed', next_due_at = NULL WHERE id = :job"
    town.sql(text, town.busy)


TAMPERINGS: dict[Callable[[Town], None], FlawKind] = {
    lose_a_due_time: FlawKind.NO_RECORD,
    run_a_due_time_twice: FlawKind.TWICE,
    lose_the_next_time: FlawKind.NEXT_DUE,
    name_a_next_time_in_2099: FlawKind.NEXT_DUE,
    jump_over_a_due_time: FlawKind.NEXT_DUE,
    move_last_due_at_ahead: FlawKind.LAST_DUE,
    move_last_due_at_back: FlawKind.LAST_DUE,
    end_before_the_start: FlawKind.ENDED_EARLY,
    start_before_the_time: FlawKind.STARTED_EARLY,
    run_under_an_unknown_worker: FlawKind.UNKNOWN_WORKER,
    break_the_schedule: FlawKind.UNREADABLE,
    break_the_policies: FlawKind.UNREADABLE,
    break_the_args: FlawKind.UNREADABLE,
    give_a_list_as_args: FlawKind.UNREADABLE,
    nest_the_schedule_too_deep: FlawKind.UNREADABLE,
    count_wrongly: FlawKind.COUNTER,
    take_a_second_slot: FlawKind.OVERLAP,
    run_two_at_once: FlawKind.OVERLAP,
    leave_an_orphan: FlawKind.ORPHAN,
    wait_for_a_turn_in_vain: FlawKind.WAITS,
    give_a_number_again: FlawKind.NUMBER,
    pass_over_numbers: FlawKind.NUMBER,
    delete_a_history_row: FlawKind.NO_RECORD,
    delete_a_skip: FlawKind.NO_RECORD,
    widen_a_skip: FlawKind.TWICE,
    count_more_in_a_skip: FlawKind.OFF_GRID,
    run_off_the_grid: FlawKind.OFF_GRID,
    retry_beyond_the_budget: FlawKind.BUDGET,
    retry_without_a_reason: FlawKind.BUDGET,
    withdraw_a_queued_run: FlawKind.NO_RECORD,
    break_the_args_of_a_queued_run: FlawKind.UNREADABLE,
    give_a_list_as_args_to_a_queued_run: FlawKind.UNREADABLE,
    give_an_execution_number_twice: FlawKind.TWICE,
    move_the_anchor: FlawKind.NEXT_DUE,
    repeat_too_often: FlawKind.COUNTER,
    end_a_job_with_a_queued_run: FlawKind.WAITS,
}


@pytest.mark.parametrize("tamper", TAMPERINGS, ids=lambda tamper: tamper.__name__)
def test_a_tampering_is_found(town, tamper):
    assert town.found() == set()
    tamper(town)
    assert TAMPERINGS[tamper] in town.found()


# -- texts of the past that cannot be read

DAMAGED = [
    "{",
    "[]",
    "5",
    "[" * 5000,
    '{"seconds": "x"}',
    '{"seconds": -1e300}',
    '{"flaw": "of_a_newer_version"}',
]


def test_events_that_cannot_be_read_say_nothing(town):
    world, store = town.world, town.world.store
    kinds = ("clock.jumped", "audit.flaw", "job.edited", "job.rewound")
    store.history.tell(
        [
            Event(world.chance.id(world.now), world.now, kind, town.hourly, data=text)
            for kind in kinds
            for text in DAMAGED
        ]
    )
    assert town.found() == set()
    assert store.audit.reported_since(NOW, [town.hourly]) == set()
    count_wrongly(town)
    assert town.found() == {FlawKind.COUNTER}


def test_notes_that_cannot_be_read_say_nothing(town):
    world, store = town.world, town.world.store
    for key in (audit.EVENTS_SINCE, audit.ZONES_SINCE, JUMPED, LINE, WENT_BACK):
        store.remember(key, "{")
    count_wrongly(town)
    assert town.found() == {FlawKind.COUNTER}
    assert store.clock_record.zero(0) is None
    assert store.clock_record.settled(world.now)
    assert Checkup(store.database).condition(world.now, MINUTE, DAY).went_back_at is None
    store.history.prune_events(world.now + DAY, Keep(days=0), world.chance.id(world.now + DAY))


def test_a_job_whose_note_of_retention_cannot_be_read_keeps_its_history(town):
    town.set_job(town.hourly, "pruned", "{")
    town.world.store.history.prune(FIRST_ID, town.world.now + DAY, Keep(executions=1, days=0))
    assert len(town.world.history(town.hourly)) == 6
    assert town.found() == {FlawKind.UNREADABLE}


# -- sound rows


def test_pruned_history_shows_no_flaw(world):
    worker = world.worker()
    world.add_one(every=HOUR)
    world.add_one(cron="30 * * * *")
    for hour in range(1, 12):
        world.now = NOW + hour * HOUR + 30 * MINUTE
        if hour % 4:
            world.run_all(worker)
        world.store.history.prune(FIRST_ID, world.now, Keep(executions=2, days=0))
        world.store.history.prune_events(world.now, Keep(days=0), world.chance.id(world.now))
        assert world.store.audit.problems(world.now) == []


def test_history_that_an_older_version_pruned_is_not_recomputed(world):
    """It noted how many rows it removed, but not up to which due time."""
    worker, job_id = world.worker(), world.add_one(every=HOUR)
    for hour in range(1, 6):
        world.now = NOW + hour * HOUR
        world.run_all(worker)
    world.sql("DELETE FROM {executions} WHERE job_id = :job AND number <= 2 RETURNING 1", job=job_id)
    world.sql("UPDATE {jobs} SET pruned = :noted WHERE id = :job RETURNING 1", job=job_id, noted='{"completed": 2}')
    assert world.store.audit.problems(world.now) == []
    world.store.history.prune(FIRST_ID, world.now, Keep(executions=2, days=0))
    assert world.store.audit.problems(world.now) == []
    world.sql("DELETE FROM {executions} WHERE job_id = :job AND number = 4 RETURNING 1", job=job_id)
    assert len(world.store.audit.problems(world.now)) == 1  # the counter


def test_a_clock_that_was_ahead_shows_no_flaw(world):
    worker, job_id = world.worker(), world.add_one(every=HOUR)
    world.now = NOW + 10 * HOUR
    world.run_all(worker)
    world.now = NOW + 3 * HOUR
    world.store.queue.rewind(world.now)
    assert world.store.audit.problems(world.now) == []
    for hour in range(4, 14):
        world.now = NOW + hour * HOUR
        world.run_all(worker)
        assert world.store.audit.problems(world.now) == []
    assert len(world.due_times(job_id)) > 5


def test_due_times_of_older_zone_data_are_not_recomputed(world):
    worker = world.worker()
    world.add_one(schedule=Cron("0 9 * * *", "Europe/Paris"))
    world.now = NOW + 2 * DAY
    world.run_all(worker)
    world.sql("UPDATE {executions} SET due_at = due_at + 3600000000 RETURNING 1")
    assert world.store.audit.problems(world.now) != []
    world.store.remember(audit.ZONES_SINCE, (world.now + DAY).isoformat())
    assert [each for each in world.store.audit.problems(world.now) if "due times" in each] == []


def test_pages_are_bounded_by_rows_and_come_to_every_job(world):
    worker, ids = world.worker(), sorted(world.add(5, every=HOUR))
    for hour in (1, 2):
        world.now = NOW + hour * HOUR
        world.run_all(worker)
    after, seen = FIRST_ID, []
    while after is not None:
        page = world.store.audit.page(after, world.now, jobs=2, most=3)
        seen.append(page.jobs)
        after = page.last
    assert sum(seen) == len(ids)
    assert max(seen) == 1
    world.sql("UPDATE {jobs} SET completed = completed + 1 RETURNING 1")
    assert {flaw.job_id for flaw in world.store.audit.everything(world.now)} == set(ids)


def test_an_audit_locks_nothing(town):
    """A writer commits during the snapshot of an audit."""
    store = town.world.another()
    with town.world.store.database.read() as tx:
        assert tx.rows("jobs_to_audit", after=FIRST_ID, limit=10)
        town.world.command(town.hourly, "pause", store=store)
        assert tx.rows("facts", ids=[town.hourly])[0][-5] is None  # unchanged
    assert town.world.facts(town.hourly).paused_at is not None

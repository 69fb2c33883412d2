"""Changes of the database are sent to Redis once; messages that Redis has lost are sent again."""

import json
import zlib
from dataclasses import replace
from datetime import timedelta

import pytest
from rq import Queue
from rq.serializers import JSONSerializer

from ostinato.core.model import Status
from ostinato.core.schedule import Every
from ostinato.features.rq.rules import second_of
from ostinato.rq import execute_scheduled_job, recover_scheduled_jobs, start_scheduled_job


def an_hourly_job(app, **options):
    """A job, and the id of its next message."""

    @app.task
    def hourly() -> str:
        return "done"

    app.schedule(hourly, every="1h", **options)
    app.apply_declarations()
    return app.jobs.get("hourly")


def next_message(view) -> str:
    return f"sched-{view.id}-n{view.facts.last_number + 1}-rc0"


def test_a_new_job_has_its_next_run_in_redis(app, scheduled):
    view = an_hourly_job(app)
    assert scheduled() == {next_message(view): second_of(view.next_run_at)}


def test_a_message_is_json_and_neither_timed_nor_retried_by_rq(app, redis):
    view = an_hourly_job(app)
    held = redis.hgetall(f"rq:job:{next_message(view)}")
    assert json.loads(zlib.decompress(held[b"data"])) == [
        "ostinato.rq.execute_scheduled_job", None, [str(view.id)], {}
    ]  # fmt: skip
    assert (held[b"timeout"], held[b"result_ttl"]) == (b"-1", b"0")
    assert b"retries_left" not in held


def test_what_is_enqueued_is_in_line_at_once(app, line, work):
    @app.task
    def fine() -> int:
        return 7

    handle = fine.enqueue()
    assert line() == [f"sched-{handle.id}-n1-rc0"]
    work()
    assert handle.result() == 7
    assert line() == []


def test_many_that_are_enqueued_together_are_all_told(app, line, work):
    @app.task
    def fine(n: int) -> int:
        return n

    handles = app.enqueue([fine.bind(n) for n in range(30)])
    assert len(line()) == 30
    work()
    assert sorted(handle.result() for handle in handles) == list(range(30))


def test_a_run_by_hand_runs_at_once_and_the_schedule_stays(app, scheduled, line, work):
    view = an_hourly_job(app)
    due = view.next_run_at
    app.jobs.run("hourly")
    assert len(line()) == 1
    work()
    after = app.jobs.get("hourly")
    assert (after.facts.completed, after.next_run_at) == (1, due)
    assert scheduled()[next_message(after)] == second_of(due)


def test_resume_moves_the_message_that_is_there(app, scheduled):
    view = an_hourly_job(app)
    for _ in range(10):
        app.jobs.pause("hourly")
        resumed = app.jobs.resume("hourly")
    assert scheduled() == {next_message(view): second_of(resumed.next_run_at)}


def test_an_edit_moves_the_message_that_is_there(app, scheduled):
    view = an_hourly_job(app)
    edited = app.jobs.edit("hourly", lambda each: replace(each, schedule=Every(timedelta(hours=3))))
    assert scheduled() == {next_message(view): second_of(edited.next_run_at)}


def test_recovery_brings_back_what_is_missing_and_nothing_else(app, redis, scheduled):
    an_hourly_job(app)
    assert recover_scheduled_jobs() == 0
    before = scheduled()
    redis.flushall()
    assert recover_scheduled_jobs() == 1
    assert recover_scheduled_jobs() == 0
    assert scheduled() == before


def test_a_message_whose_body_is_lost_is_put_again(app, redis):
    view = an_hourly_job(app)
    redis.delete(f"rq:job:{next_message(view)}")
    assert recover_scheduled_jobs() == 1
    assert redis.exists(f"rq:job:{next_message(view)}")


@pytest.mark.parametrize("count", [1, 30], ids=["looked for one by one", "looked for in the whole line"])
def test_a_message_that_a_worker_has_just_taken_is_not_put_again(app, redis, line, count):
    """The second of two deliveries would remove the data that a stop of the first needs."""

    @app.task
    def work() -> None: ...

    app.enqueue([work.bind() for _ in range(count)])
    queue = Queue("default", connection=redis, serializer=JSONSerializer)
    for _ in range(count):
        redis.lmove(queue.key, queue.intermediate_queue_key)  # as a worker does
    assert recover_scheduled_jobs() == 0
    assert line() == []
    redis.delete(queue.intermediate_queue_key)  # lost with that worker
    assert recover_scheduled_jobs() == count
    assert len(line()) == count


def test_start_enqueues_one_job(app, redis, scheduled):
    view = an_hourly_job(app)
    redis.flushall()
    assert start_scheduled_job(view) == 1
    assert start_scheduled_job(str(view.id)) == 0
    assert list(scheduled()) == [next_message(view)]


def test_a_paused_job_is_not_recovered(app, redis, scheduled):
    an_hourly_job(app)
    app.jobs.pause("hourly")
    redis.flushall()
    assert recover_scheduled_jobs() == 0
    assert scheduled() == {}


def test_what_waits_in_a_paused_queue_is_told_when_somebody_looks_after_it_is_resumed(app, line, work):
    @app.task
    def fine() -> int:
        return 7

    handle = fine.enqueue()
    app.scheduler.pause_queue("default")
    work()
    assert handle.status is Status.PENDING
    assert recover_scheduled_jobs() == 0
    app.scheduler.resume_queue("default")
    assert recover_scheduled_jobs() == 1
    work()
    assert handle.result() == 7


def test_what_is_executed_too_early_does_nothing_and_stays(app, scheduled):
    view = an_hourly_job(app)
    before = scheduled()
    execute_scheduled_job(str(view.id))
    assert scheduled() == before
    assert app.jobs.get("hourly").facts.last_number == 0


def test_a_message_that_comes_early_moves_itself_back(app, redis, scheduled, line, work):
    view = an_hourly_job(app)
    before = scheduled()
    redis.zrem("rq:scheduled:default", next_message(view))
    redis.rpush("rq:queue:default", next_message(view))
    work()
    assert line() == []
    assert scheduled() == before
    assert redis.exists(f"rq:job:{next_message(view)}")
    assert recover_scheduled_jobs() == 0


def test_a_message_that_comes_twice_runs_once(app, redis, work):
    @app.task
    def fine() -> int:
        return 7

    handle = fine.enqueue()
    redis.rpush("rq:queue:default", f"sched-{handle.id}-n1-rc0")
    work()
    assert handle.result() == 7
    assert app.jobs.get(handle.id).facts.completed == 1


def test_a_failure_enqueues_the_next_attempt_at_its_time(app, scheduled, work):
    @app.task(retries=1, backoff="1h")
    def fails() -> None:
        raise ValueError("no")

    handle = fails.enqueue()
    work()
    (live,) = app.jobs.get(handle.id).lives
    assert scheduled() == {f"sched-{handle.id}-n1-rc1": second_of(live.run_at)}


def test_an_unknown_task_is_left_for_somebody_who_knows_it(app, line, work):
    app.enqueue([app.call("stranger")], allow_unknown=True)
    work()
    (view,) = app.jobs.list()
    assert (view.status, view.facts.failed) == (Status.PENDING, 0)
    assert recover_scheduled_jobs() == 1  # another worker may take it


def test_a_worker_row_is_kept_for_each_worker_and_closed_between_runs(app, work):
    @app.task
    def fine() -> int:
        return 7

    app.enqueue([fine.bind() for _ in range(3)])
    work()
    (worker,) = app.scheduler.workers()
    assert worker.closed_at is not None
    assert worker.tasks == ("fine",) or "fine" in worker.tasks


def test_limits_hold_among_rq_workers(app, line, work):
    @app.task(max_concurrency=1)
    def fine() -> int:
        return 7

    handles = app.enqueue([fine.bind() for _ in range(3)])
    for _ in range(4):
        recover_scheduled_jobs()
        work()
    app.parts.store.queue.let_through(app.now())
    work()
    assert [handle.result() for handle in handles] == [7, 7, 7]

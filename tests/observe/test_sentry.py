"""Sentry, with the real SDK and a transport that keeps what it is given."""

import asyncio
import json
import logging
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
import sentry_sdk

from ostinato import Context, Defer, GiveUp, RetryLater
from ostinato.core.lifecycle.settling import may_retry
from ostinato.core.policy import Backoff, Policies, WhenExhausted
from ostinato.core.schedule import Cron, Every, Manual, Once
from ostinato.core.times import Window
from ostinato.sentry import monitor_of, slug_of
from tests.app.conftest import during
from tests.build import HOUR, MINUTE, NOW, SECOND, a_definition, a_live
from tests.observe import traced
from tests.observe.conftest import Envelopes, run
from tests.waiting import PATIENCE, until

HERE = Path(__file__).parent


@pytest.fixture
def app(app, envelopes):
    app.configure(sentry=True)
    return app


def functions(event: dict) -> list[str]:
    return [frame["function"] for frame in event["exception"]["values"][-1]["stacktrace"]["frames"]]


# -- exceptions


@pytest.mark.parametrize("task", ["on_loop", "on_thread"])
def test_an_exception_is_a_warning_while_retries_remain_and_then_an_error(app, envelopes, task):
    ended = run(app, task, retries=1, fail=9)
    first, last = envelopes.events()
    assert [first["level"], last["level"]] == ["warning", "error"]
    for event in (first, last):
        assert event["exception"]["values"][-1]["type"] == "KeyError"
        assert functions(event) == [task, "told", "broken"], "the stack of the task, and none of ours"
        assert event["fingerprint"] == ["{{ default }}", task]
        assert event["transaction"] == task
        assert event["tags"]["ostinato.task"] == task
        assert event["contexts"]["ostinato"]["job_id"] == str(ended.job_id)
    assert [each["contexts"]["ostinato"]["attempt"] for each in (first, last)] == [0, 1]
    mechanisms = [each["exception"]["values"][-1]["mechanism"] for each in (first, last)]
    assert [each["handled"] for each in mechanisms] == [True, False]


@pytest.mark.parametrize("task", ["in_process", "async_in_process"])
def test_an_exception_in_a_process_is_captured_there(database_url, tmp_path, task):
    """The program writes its envelopes to a file, from each of its processes."""
    kept = tmp_path / "envelopes"
    command = [sys.executable, "-m", "tests.observe.reporting", database_url, str(kept), task]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    (event,) = [payload for _, kind, payload in map(json.loads, kept.read_text().splitlines()) if kind == "event"]
    ((pid, _, _),) = [each for each in map(json.loads, kept.read_text().splitlines()) if each[1] == "event"]
    assert pid != json.loads(done.stdout.splitlines()[-1]), "not the worker"
    assert functions(event) == [task, "told", "broken"]
    assert (event["level"], event["fingerprint"]) == ("error", ["{{ default }}", task])


@pytest.mark.parametrize("task", ["puts_off", "hangs", "on_loop"])
def test_what_is_no_exception_of_a_task_is_not_captured(app, envelopes, task):
    run(app, task, timeout="500ms" if task == "hangs" else None)
    assert envelopes.events() == []


def test_our_own_log_lines_are_ignored_and_those_of_the_program_are_not(app, envelopes):
    run(app, "on_thread", fail=9)
    assert [event.get("logger") for event in envelopes.events()] == [None], "not the line `Job execution failed`"
    logging.getLogger("ostinato.store").error("ours")
    logging.getLogger("ostinato.task").error("of a task")
    logging.getLogger("shop").error("of the program")
    assert [event["logger"] for event in envelopes.events()[1:]] == ["ostinato.task", "shop"]


def test_the_runs_of_one_thread_keep_their_breadcrumbs_apart(app, envelopes):
    @app.task
    def notes(say: str) -> None:
        sentry_sdk.add_breadcrumb(message=say)
        raise KeyError(say)

    try:
        for say in ("first", "second"):
            run(app, "notes", say=say)
    finally:
        app.registry._tasks.pop("notes")
    said = [[crumb["message"] for crumb in event["breadcrumbs"]["values"]] for event in envelopes.events()]
    assert ["second"] in [[one for one in each if one in ("first", "second")] for each in said]


def test_a_program_that_has_not_initialised_sentry_runs_as_before(database_url):
    traced.app.configure(database_url=database_url, sentry=True)
    before = list(traced.app.registry.arounds.registered)
    try:
        assert run(traced.app, "on_thread", fail=9).status == "failed"
    finally:
        traced.app.close()
        traced.app.configure(sentry=False)
        traced.app.registry.arounds.registered[:] = before


@pytest.mark.parametrize(
    ("policies", "failures", "kind", "expected"),
    [
        (Policies(max_retries=0), 0, "KeyError", False),
        (Policies(max_retries=2), 1, "KeyError", True),
        (Policies(max_retries=2), 2, "KeyError", False),
        (Policies(max_retries=2, backoff=Backoff(never_retry=("KeyError",))), 0, "KeyError", False),
        (
            Policies(max_retries=2, retry_reset_period=HOUR, when_exhausted=WhenExhausted.WAIT_RESET),
            1,
            "OSError",
            False,
        ),
    ],
)
def test_the_rule_of_the_level(policies, failures, kind, expected):
    assert may_retry(policies, a_live(failures=failures), kind) is expected


@pytest.mark.parametrize(
    ("error", "expected"),
    [(KeyError("x"), ["warning"]), (RetryLater("1s"), ["warning"]), (GiveUp("x"), ["error"]), (Defer("1s"), [])],
)
def test_signals(envelopes, error, expected):
    from ostinato.sentry import reporting

    context = Context(a_live(running=True), a_definition(at=NOW, max_retries=3), {})
    generator = reporting(context)
    next(generator)
    with pytest.raises(type(error)):
        generator.throw(error)
    assert [event["level"] for event in envelopes.events()] == expected


# -- check-ins


def check_ins(app, envelopes: Envelopes, ends: int, **options) -> list[dict]:
    """Let the app work until a schedule has ended so often."""
    app.schedule(app.registry.get(options.pop("task", "on_loop")), first_run="now", key="hourly", **options)

    async def body() -> None:
        await until(lambda: len([one for one in envelopes.check_ins() if one["status"] != "in_progress"]) >= ends)

    during(app, body)
    return envelopes.check_ins()


def test_an_occurrence_of_a_schedule_checks_in_and_out(app, envelopes):
    begin, end = check_ins(app, envelopes, 1, every="90m", late_after="5m", timeout="90s")
    assert (begin["status"], end["status"]) == ("in_progress", "ok")
    assert begin["check_in_id"] == end["check_in_id"]
    assert begin["monitor_slug"] == "traced-hourly"
    assert begin["environment"] == "test"
    assert end["duration"] >= 0
    assert begin["monitor_config"] == {
        "schedule": {"type": "interval", "value": 90, "unit": "minute"},
        "checkin_margin": 5,
        "max_runtime": 2,
    }


def test_attempts_that_are_retried_are_one_check_in(app, envelopes):
    app.schedule(app.registry.get("on_loop").bind(fail=1), every="1h", first_run="now", key="flaky", backoff="10ms")

    async def body() -> None:
        await until(lambda: any(one["status"] == "ok" for one in envelopes.check_ins()))

    during(app, body)
    assert [one["status"] for one in envelopes.check_ins()] == ["in_progress", "ok"]


@pytest.mark.parametrize(("task", "timeout"), [("gives_up", None), ("dies_in_process", None), ("hangs", "500ms")])
def test_an_occurrence_without_success_is_an_error(app, envelopes, task, timeout):
    more = {"timeout": timeout} if timeout else {}
    _, end = check_ins(app, envelopes, 1, task=task, every="1h", retries=0, **more)
    assert end["status"] == "error"


def test_a_worker_that_was_killed_is_reported_by_the_one_that_finds_it(app, envelopes, database_url):
    app.schedule(app.registry.get("kills_its_worker"), every="1h", first_run="now", key="killer", on_lost="fail")
    app.open(upgrade=True)
    app.apply_declarations()
    short = {"database_url": database_url, "lease": "1s", "sweep": "200ms"}
    program = [sys.executable, "-m", "tests.observe.traced", json.dumps(short)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode < 0, done.stderr
    app.close()
    app.configure(sweep="200ms")

    async def body() -> None:
        await until(envelopes.check_ins)

    during(app, body)
    assert [one["status"] for one in envelopes.check_ins()] == ["error"]


def test_a_run_by_hand_and_an_enqueue_do_not_check_in(app, envelopes):
    app.schedule(app.registry.get("on_loop"), every="1h", key="hourly")

    async def body() -> None:
        await asyncio.to_thread(app.jobs.run, "hourly")
        handle = await app.registry.get("on_loop").aenqueue()
        await handle.await_()
        await until(lambda: app.jobs.stats("hourly").total_executions)

    during(app, body)
    assert envelopes.check_ins() == []


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (Every(HOUR), {"type": "interval", "value": 60, "unit": "minute"}),
        (Every(90 * SECOND), None),
        (Every(30 * SECOND), None),
        (Cron("0 9 * * mon-fri", "Europe/Paris"), {"type": "crontab", "value": "0 9 * * mon-fri"}),
        (Cron("@daily"), {"type": "crontab", "value": "@daily"}),
        (Manual(), None),
        (Once(NOW), None),
    ],
)
def test_the_schedule_of_a_monitor(schedule, expected):
    monitor = monitor_of(a_definition(schedule=schedule))
    assert (None if monitor is None else monitor["schedule"]) == expected


def test_a_monitor_knows_the_zone_and_no_job_with_a_window():
    assert monitor_of(a_definition(schedule=Cron("0 9 * * *", "Europe/Paris")))["timezone"] == "Europe/Paris"
    window = Window.from_json({"days": "mon-fri", "from": "09:00", "to": "17:00"})
    assert monitor_of(a_definition(every=HOUR, window=window)) is None
    assert monitor_of(a_definition(every=HOUR, late_after=timedelta(0)))["checkin_margin"] == 1
    assert monitor_of(a_definition(every=HOUR, timeout=61 * MINUTE))["max_runtime"] == 61


def test_the_slug_of_a_monitor_is_short_and_its_own():
    long = "x" * 80
    slugs = [slug_of(a_definition(app="Shop", key=key), "0" * 32) for key in ("Täglich 9", long, long + "y", None)]
    assert slugs[0] == "shop-t-glich-9"
    assert slugs[3] == "shop-work-00000000"
    assert len(set(slugs)) == 4
    assert max(map(len, slugs)) == 50

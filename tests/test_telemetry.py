"""Telemetry: log lines, hooks, counts. Each event is reported once."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from uuid import UUID

import pytest

from ostinato.clock import ManualClock
from ostinato.config import Settings
from ostinato.core.account import Account
from ostinato.core.errors import Invalid, StoreUnavailable
from ostinato.core.lifecycle import settle
from ostinato.core.model import Change, Claimed, Finished, Live, Skip, SkipReason
from ostinato.core.outcome import Cancelled, Completed, Error, Failed, Lost, OutcomeKind, TimedOut
from ostinato.core.payload import LogMessage
from ostinato.telemetry import reports as module
from ostinato.telemetry.formatting import JsonLines, TextLines, configure_logging
from ostinato.telemetry.reports import KINDS, Hooks, Telemetry
from tests.build import CHANCE, HOUR, MINUTE, NOW, SECOND, a_job, a_live, an_execution
from tests.waiting import PATIENCE


class Listener:
    """A listener that records all events of hooks."""

    def __init__(self) -> None:
        self.hooks = Hooks()
        self._heard: list[dict[str, object]] = []
        for kind in KINDS:
            self.hooks.on(kind)(self._heard.append)

    @property
    def heard(self) -> list[dict[str, object]]:
        assert self.hooks.drain(PATIENCE)
        return self._heard


@pytest.fixture
def lines(caplog):
    """The log lines so far, with their levels."""
    caplog.set_level(logging.DEBUG, "ostinato")
    return lambda: [f"{record.levelname} {record.getMessage()}" for record in caplog.records]


def settled(outcome, after: timedelta = timedelta(seconds=2.5), **policies: object) -> Change:
    job = a_job(**policies)
    live = a_live(job, running=True)
    return settle(job, [live], live, outcome, NOW + after, CHANCE)


def a_claimed(live: Live | None = None, **given: object) -> Claimed:
    return Claimed(live or a_live(), a_job(**given).definition)


# -- log lines


def test_a_start_and_a_success_are_lines(lines):
    telemetry = Telemetry(Settings(), Hooks())
    live = a_live(attempt=2)
    telemetry.started([a_claimed(live)])
    telemetry.changed([settled(Completed('{"items":25}'))])
    start, success = lines()
    assert start == f"INFO Executing job  job_id={live.job_id} task=work number=1 retry_attempt=2"
    assert success.startswith("INFO Job completed successfully  job_id=")
    assert success.endswith(" task=work number=1 duration=2.5s")


def test_the_lines_of_a_crawl_have_its_source_and_its_items_as_seed_003_writes_them(lines):
    telemetry = Telemetry(Settings(), Hooks())
    claimed = a_claimed(args='{"source_name":"example.com","url":"https://example.com"}')
    account = Account(items_crawled=25).to_json()
    telemetry.started([claimed])
    telemetry.completed([Finished(a_live(running=True), Completed(), NOW + 2.5 * SECOND, account=account)])
    start, success = lines()
    assert start.endswith(" source_name=example.com retry_attempt=0")
    assert success.endswith(" duration=2.5s items_crawled=25")


def test_the_lines_of_each_run_can_be_switched_off(lines):
    telemetry = Telemetry(Settings(run_log=False), Hooks())
    telemetry.started([a_claimed()])
    telemetry.released(a_live(), "deferred")
    telemetry.changed([settled(Completed())])
    assert lines() == []
    telemetry.changed([settled(Failed(Error("ValueError", "no")))])
    assert len(lines()) == 1


def test_a_failure_says_why_and_when_it_is_tried_again(lines):
    telemetry = Telemetry(Settings(), Hooks())
    failure = Failed(Error("ConnectionError", "connection\ntimeout", "Traceback …"))
    telemetry.changed([settled(failure), settled(failure, max_retries=0)])
    again, over = lines()
    assert again.startswith("ERROR Job execution failed  job_id=")
    assert again.endswith(r'error="ConnectionError: connection\ntimeout" retry_in=60s')
    assert "retry_in" not in over


def test_a_lost_execution_is_a_stale_lock(lines):
    Telemetry(Settings(), Hooks()).changed([settled(Lost(), after=6 * MINUTE)])
    (line,) = lines()
    assert line.startswith("WARNING Cleared stale lock  job_id=")
    assert line.endswith("lock_age=360s")


def test_skips_and_cancellations_are_lines(lines):
    Telemetry(Settings(), Hooks()).changed([settled(Cancelled(by="ops")), skipped()])
    cancelled, skip = lines()
    assert cancelled.startswith("INFO Job cancelled")
    assert cancelled.endswith("by=ops")
    assert skip.endswith("reason=missed count=7")


def skipped() -> Change:
    job = a_job()
    skip = Skip(UUID(int=1), job.id, SkipReason.MISSED, NOW - 7 * HOUR, NOW - HOUR, 7, NOW)
    return Change(job, skips=(skip,))


def test_g14_a_store_that_is_away_is_one_line_and_so_is_its_return(lines):
    clock = ManualClock(NOW)
    telemetry = Telemetry(Settings(), Hooks(), clock.monotonic)
    telemetry.store_back()
    for _ in range(100):
        telemetry.store_away(StoreUnavailable("connection refused\nIs the server running?"))
        clock.advance(SECOND)
    telemetry.store_back()
    telemetry.store_back()
    assert lines() == [
        'ERROR Database unavailable; retrying  error="connection refused"',
        "INFO Database available again  away_for=100s",
    ]
    assert telemetry.counts.snapshot() == {("store_error", ""): 100}


def test_g14_what_is_expected_is_one_line_without_a_traceback(lines, caplog):
    telemetry = Telemetry(Settings(), Hooks())
    telemetry.starting("worker", check_interval="5s")
    telemetry.refused(a_live())
    telemetry.lease_lost(UUID(int=1))
    telemetry.worker_lost(UUID(int=2))
    telemetry.stuck(a_live(), 3 * SECOND)
    telemetry.clock_jumped(-HOUR)
    telemetry.stopping("asked to", running=3)
    assert [line.split("  ")[0] for line in lines()] == [
        "INFO Starting worker",
        "WARNING Late result rejected",
        "WARNING Lease lost; stopping the runs of this worker",
        "WARNING Worker lost",
        "WARNING Run does not stop",
        "WARNING The clock was set",
        "INFO Stopping",
    ]
    assert not any(record.exc_info for record in caplog.records)


def test_an_unknown_task_is_reported_once(lines):
    telemetry = Telemetry(Settings(), Hooks())
    for _ in range(3):
        telemetry.unknown_task("sendEmail", 4, "")
    assert len(lines()) == 1


# -- hooks


def test_a_start_and_an_end_are_told():
    listener = Listener()
    telemetry = Telemetry(Settings(), listener.hooks)
    live = a_live()
    telemetry.started([a_claimed(live)])
    telemetry.changed([settled(Completed('{"items":25}'))])
    start, complete = listener.heard
    assert start == {
        "event": "job:start",
        "job_id": str(live.job_id),
        "task": "work",
        "execution_id": str(live.id),
        "number": 1,
        "attempt": 0,
    }
    assert (complete["event"], complete["result"], complete["duration"]) == (
        "job:complete",
        {"items": 25},
        2.5,
    )


def test_a_failure_is_told_and_so_is_its_retry():
    listener = Listener()
    failure = Failed(Error("ValueError", "no"))
    telemetry = Telemetry(Settings(), listener.hooks)
    telemetry.changed([settled(failure), settled(TimedOut(SECOND), max_retries=0), settled(Lost())])
    assert [(e["event"], e["attempt"], e.get("error"), e["retry_in"]) for e in listener.heard] == [
        ("job:failed", 0, "ValueError: no", 60.0),
        ("job:retry", 1, None, 60.0),
        ("job:failed", 0, "TimedOut: still running after 1 s", None),
        ("job:failed", 0, "Lost: its worker stopped renewing its lease", 0.0),
        ("job:retry", 1, None, 0.0),
    ]


def test_cancellations_and_skips_are_told():
    listener = Listener()
    Telemetry(Settings(), listener.hooks).changed([settled(Cancelled(by="ops")), skipped()])
    cancelled, skip = listener.heard
    assert (cancelled["event"], cancelled["by"]) == ("job:cancelled", "ops")
    assert (skip["event"], skip["reason"], skip["count"]) == ("job:skipped", "missed", 7)
    assert skip["last_due_at"] == "2026-11-16T11:00:00+00:00"
    json.dumps(listener.heard)


@pytest.mark.parametrize("error", [ValueError("broken\nhook"), SystemExit(1), KeyboardInterrupt()])
def test_a_hook_that_raises_is_one_line_and_the_next_is_still_told(error, lines):
    hooks, told = Hooks(), []

    @hooks.on("job:start")
    def broken(event: dict[str, object]) -> None:
        event.clear()
        raise error

    hooks.on("job:start")(told.append)
    hooks.emit("job:start", {"job_id": "x"})
    hooks.emit("job:start", {"job_id": "y"})
    assert hooks.drain(PATIENCE)
    assert [event["job_id"] for event in told] == ["x", "y"]
    assert len(lines()) == 2
    assert "A hook failed  kind=job:start" in lines()[0]


def test_a_slow_hook_holds_up_nobody_and_too_many_events_are_left_out_with_one_line(monkeypatch, lines):
    monkeypatch.setattr(module, "MOST_WAITING", 3)
    hooks, hold, told = Hooks(), threading.Event(), []

    @hooks.on("job:start")
    def slow(event: dict[str, object]) -> None:
        hold.wait(PATIENCE)
        told.append(event["n"])

    for n in range(100):
        hooks.emit("job:start", {"n": n})
    hold.set()
    assert hooks.drain(PATIENCE)
    assert told == list(range(len(told)))
    assert 3 <= len(told) <= 4
    assert lines() == ["WARNING Hooks are too slow; events dropped  kind=job:start waiting=3"]


def test_drain_gives_up_on_a_hook_that_hangs():
    hooks, hold = Hooks(), threading.Event()
    hooks.on("job:start")(lambda event: hold.wait(PATIENCE))
    assert hooks.drain(0), "nothing was emitted"
    hooks.emit("job:start", {})
    assert not hooks.drain(0.01)
    hold.set()


def test_a_hook_must_be_a_plain_function_for_an_event_there_is():
    async def later(event: object) -> None: ...

    with pytest.raises(Invalid, match="plain function"):
        Hooks().on("job:start")(later)
    with pytest.raises(Invalid, match="there are job:start, job:complete"):
        Hooks().on("job:started")


def test_a_decorated_hook_stays_a_function():
    hooks = Hooks()

    @hooks.on("job:failed")
    def notify(event: dict[str, object]) -> str:
        return "told"

    assert notify({}) == "told"


def test_without_listeners_there_is_no_thread():
    hooks = Hooks()
    Telemetry(Settings(), hooks).changed([settled(Completed())])
    assert hooks._thread is None


# -- counts


def test_everything_is_counted():
    telemetry = Telemetry(Settings(run_log=False), Hooks())
    telemetry.started([a_claimed(), a_claimed()])
    telemetry.changed([settled(Completed()), settled(Failed(Error("E", "e"))), settled(Lost()), skipped()])
    telemetry.refused(a_live())
    telemetry.released(a_live(), "interrupted")
    assert telemetry.counts.snapshot() == {
        ("claimed", ""): 2,
        ("settled", "completed"): 1,
        ("settled", "failed"): 1,
        ("settled", "lost"): 1,
        ("retry", ""): 2,
        ("skipped", "missed"): 7,
        ("refused", ""): 1,
        ("released", "interrupted"): 1,
    }


def test_a_clock_that_was_set_back_makes_no_negative_duration():
    listener = Listener()
    ended = an_execution(outcome=OutcomeKind.COMPLETED, started_at=NOW, finished_at=NOW - HOUR)
    Telemetry(Settings(), listener.hooks).changed([Change(a_job(), ended=(ended,))])
    assert listener.heard[0]["duration"] == 0


# -- the commands' logging


@pytest.fixture
def record():
    line = LogMessage("Executing job", {"job_id": UUID(int=1), "level": "mine", "error": "a\nb"})
    made = logging.LogRecord("ostinato", logging.WARNING, "", 0, line, (), None)
    made.created = NOW.timestamp()
    return made


def test_a_line_as_text(record):
    assert TextLines().format(record) == (
        "2026-11-16T12:00:00.000Z WARN  Executing job  "
        r'job_id=00000000-0000-0000-0000-000000000001 level=mine error="a\nb"'
    )


def test_a_line_as_json(record):
    assert json.loads(JsonLines().format(record)) == {
        "at": "2026-11-16T12:00:00.000Z",
        "level": "warning",
        "logger": "ostinato",
        "event": "Executing job",
        "job_id": "00000000-0000-0000-0000-000000000001",
        "error": "a\nb",
    }
    assert "\n" not in JsonLines().format(record)


def test_lines_of_others_are_shown_too():
    other = logging.LogRecord("shop", logging.INFO, "", 0, "sold %d", (3,), None)
    assert TextLines().format(other).endswith("Z INFO  sold 3")
    assert json.loads(JsonLines().format(other))["event"] == "sold 3"


@contextmanager
def fresh_logging() -> Iterator[logging.Logger]:
    """The root logger and Ostinato's as in a new process. Not a fixture: pytest adds its handlers after fixtures."""
    root, ours = logging.getLogger(), logging.getLogger("ostinato")
    before = root.handlers, root.level, ours.level
    root.handlers = []
    root.setLevel(logging.WARNING)
    ours.setLevel(logging.NOTSET)
    try:
        yield root
    finally:
        root.handlers = before[0]
        root.setLevel(before[1])
        ours.setLevel(before[2])


def test_the_commands_log_as_the_settings_say():
    with fresh_logging() as root:
        configure_logging(Settings(log_level="debug", log_format="json"))
        (handler,) = root.handlers
        assert isinstance(handler.formatter, JsonLines)
        assert root.level == logging.DEBUG
        configure_logging(Settings())
        assert root.handlers == [handler], "once"


def test_an_app_that_configured_logging_keeps_what_it_has():
    with fresh_logging() as root:
        own = logging.NullHandler()
        root.addHandler(own)
        configure_logging(Settings(log_level="error"))
        assert root.handlers == [own]
        assert root.level == logging.WARNING
        assert logging.getLogger("ostinato").level == logging.ERROR

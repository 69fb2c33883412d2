"""Messages from a process to the worker: results, errors, ends, progress and logs."""

from __future__ import annotations

import json
import os
import signal
import sys
from datetime import timedelta

import pytest

from ostinato.clock import SystemClock
from ostinato.core.account import Account
from ostinato.core.errors import Invalid, LeaseLost, NotFound
from ostinato.core.outcome import Completed, Deferred, Failed
from ostinato.core.policy import Isolation
from ostinato.task import Task
from tests.isolation import broken, work
from tests.isolation.conftest import Bench, alive


async def test_a_result_comes_back_as_json(bench: Bench):
    value = {"a": [1, 2.5, None, "ä"], "b": {"c": True}}
    assert (await bench.run(work.echo, value=value)).outcome == Completed('{"a":[1,2.5,null,"ä"],"b":{"c":true}}')
    assert (await bench.run(work.nothing)).outcome == Completed()


async def test_a_task_runs_in_another_process_with_the_same_surroundings(bench: Bench):
    ended = await bench.run(work.pid)
    assert int(ended.outcome.result) != os.getpid()
    seen = (await bench.run(work.environment)).outcome.result
    assert seen == Task(work.environment).call(None, {}) or os.getcwd() in seen
    assert all(each in seen for each in (sys.argv[0], sys.path[-1]))


async def test_an_async_task_runs_in_a_process_too(bench: Bench):
    assert (await bench.run(work.waits_and_returns)).outcome == Completed('"awaited"')


async def test_a_result_that_is_not_json_is_kept_as_text_and_said_so(bench: Bench):
    outcome = (await bench.run(work.returns_an_object)).outcome
    assert "unlocked _thread.lock" in outcome.result
    assert any("kept as text" in text for text in bench.printed("log"))


async def test_an_error_keeps_its_kind_message_and_traceback(bench: Bench):
    outcome = (await bench.run(work.raises, kind="strange")).outcome
    assert (outcome.error.kind, outcome.error.message) == ("ValueError", "strange")
    assert "raise ValueError(kind)" in outcome.error.traceback
    assert "isolation/child.py" not in outcome.error.traceback


async def test_an_error_that_cannot_be_pickled_is_kept(bench: Bench):
    outcome = (await bench.run(work.raises, kind="unpicklable")).outcome
    assert (outcome.error.kind, outcome.error.message) == ("Unpicklable", "nobody can pickle me")


async def test_what_a_task_may_say_instead_of_a_result_means_the_same(bench: Bench):
    given_up = (await bench.run(work.raises, kind="give up")).outcome
    assert (given_up.error.message, given_up.final) == ("no", True)
    assert (await bench.run(work.raises, kind="retry")).outcome.retry_in == timedelta(minutes=5)
    before = SystemClock().now()
    deferred = (await bench.run(work.raises, kind="defer")).outcome
    assert isinstance(deferred, Deferred)
    assert timedelta(minutes=59) < deferred.until - before < timedelta(minutes=62)


async def test_a_process_that_exits_is_a_failure_that_keeps_the_code(bench: Bench):
    outcome, account = await bench.run(work.leaves, code=3)
    assert (outcome.error.kind, outcome.error.message) == ("Exited", "The process exited with code 3")
    assert account.exit_code == 3
    assert (await bench.run(work.nothing)).outcome == Completed()


async def test_sys_exit_ends_the_run_and_not_the_process(bench: Bench):
    outcome = (await bench.run(work.raises, kind="exit")).outcome
    assert (outcome.error.kind, outcome.error.message) == ("SystemExit", "4")


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGABRT])
async def test_a_process_that_dies_by_a_signal_is_a_failure_that_names_it(bench: Bench, number: signal.Signals):
    outcome, account = await bench.run(work.crashes, number=int(number))
    assert isinstance(outcome, Failed)
    assert (outcome.error.kind, outcome.error.message) == ("Killed", f"Killed by {number.name}")
    assert account.stopped is None
    assert account.cpu_ms is not None


async def test_a_crash_in_c_names_the_signal_and_says_where_on_stderr(bench: Bench):
    outcome = (await bench.run(work.segfaults)).outcome
    assert outcome.error.message == "Killed by SIGSEGV"
    assert any("in segfaults" in line for line in bench.printed("stderr"))


async def test_progress_and_checkpoints_reach_the_worker(bench: Bench):
    outcome = (await bench.run(work.tells)).outcome
    assert bench.progress == ['{"done":1,"message":"half","of":2}']
    assert bench.checkpoints == ['{"seen":7}']
    assert '"before":null,"now":{"seen":7}' in outcome.result


async def test_a_checkpoint_that_is_refused_is_an_error_in_the_task(bench: Bench):
    bench.refuse = LeaseLost("too late")
    outcome = (await bench.run(work.tells)).outcome
    assert (outcome.error.kind, outcome.error.message) == ("LeaseLost", "too late")


async def test_a_call_of_a_feature_goes_to_the_worker_and_back(bench: Bench):
    outcome = (await bench.run(work.calls, request={"n": [1, None]})).outcome
    assert json.loads(outcome.result) == {
        "answer": {"name": "shop.store", "request": {"n": [1, None]}},
        "checkpoint": {"seen": 7},
    }


@pytest.mark.parametrize(
    ("refusal", "kind", "message"),
    [
        (LeaseLost("too late"), "LeaseLost", "too late"),
        (NotFound("There is no shop."), "Invalid", "There is no shop."),
        (RuntimeError("a bug"), "Invalid", "The call failed in the worker: RuntimeError."),
    ],
)
async def test_a_call_that_is_refused_is_an_error_in_the_task(bench: Bench, refusal, kind, message):
    bench.refuse = refusal
    outcome = (await bench.run(work.calls)).outcome
    assert (outcome.error.kind, outcome.error.message) == (kind, message)


async def test_a_call_from_another_process_takes_json(bench: Bench):
    outcome = (await bench.run(work.calls, request="a set")).outcome
    assert outcome.error.kind == "Invalid"
    assert "shop.store" in outcome.error.message


async def test_all_that_is_written_is_handed_over_with_time_stream_and_execution(bench: Bench):
    running = bench.start(work.writes, lines=["one", "two", "ä ␀"])
    await bench.end(running)
    assert sorted(bench.printed()) == sorted(["one", "two", "ä ␀", "of a child"])
    assert bench.printed("stderr") == ["complaint"]
    (record,) = [line for line in bench.lines if line.stream == "log"]
    assert (record.text, record.logger, record.level) == ("a record", "shop", 30)
    assert {line.execution_id for line in bench.lines} == {running.execution_id}
    assert {line.execution_key for line in bench.lines} == {running.context.execution_key}
    assert all(abs(line.at - SystemClock().now()) < timedelta(minutes=2) for line in bench.lines)


async def test_the_lines_of_two_runs_do_not_mix(bench: Bench):
    runs = [bench.start(work.writes, lines=[f"{run}-{n}" for n in range(200)]) for run in range(6)]
    for number, running in enumerate(runs):
        await bench.end(running)
        mine = [line.text for line in bench.lines if line.execution_id == running.execution_id]
        assert [text for text in mine if "-" in text] == [f"{number}-{n}" for n in range(200)]


async def test_what_was_written_before_a_crash_is_there(bench: Bench):
    await bench.run(work.writes_and_crashes)
    assert bench.printed() == ["before the crash"]


async def test_args_that_do_not_fit_are_final_and_start_no_process(bench: Bench):
    outcome, account = await bench.run(work.echo, something=1)
    assert outcome.final
    assert account == Account()
    assert bench.pool.supervisor_pid is None


async def test_a_function_that_nobody_can_import_is_refused():
    def local() -> None:
        pass

    with pytest.raises(Invalid, match="make it a function of a module"):
        Task(local, isolation=Isolation.PROCESS)
    with pytest.raises(Invalid, match="make it a function of a module"):
        Task(lambda: None, "nameless", isolation=Isolation.PROCESS)


async def test_a_function_that_hides_under_anothers_name_fails_for_good(bench: Bench, monkeypatch):
    hidden = work.nothing
    monkeypatch.setattr(work, "nothing", work.pid)
    outcome = (await bench.run(hidden)).outcome
    assert outcome.final
    assert "cannot import" in outcome.error.message


async def test_a_run_leaves_no_process_behind_but_the_warm_ones(bench: Bench):
    first = int((await bench.run(work.pid)).outcome.result)
    assert alive(first)


async def test_a_module_that_cannot_be_imported_fails_its_runs_and_is_tried_again(bench: Bench, monkeypatch):
    missing = bench.folder / "missing"
    missing.touch()
    monkeypatch.setenv("BROKEN_WHILE", str(missing))
    bench.use(size=1, modules=["tests.isolation.broken"])
    outcome = (await bench.run(broken.works)).outcome
    assert (outcome.error.kind, outcome.error.message) == ("RuntimeError", "half of me is missing")
    assert "broken.py" in outcome.error.traceback
    missing.unlink()
    assert (await bench.run(broken.works)).outcome == Completed('"mended"')

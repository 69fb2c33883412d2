"""Steering over HTTP, and what came of it: control, executions, figures, queues, workers."""

import asyncio
from functools import partial

import pytest

from ostinato.endpoints.table import Ask
from ostinato.feature import our_features
from ostinato.service.paging import allowance
from tests.rest.conftest import during
from tests.waiting import PATIENCE, until

NOBODY = "01a1e55d-0000-7000-8000-000000000000"


def picked(answer, *names):
    return {name: answer[name] for name in names}


def let_work(app, true):
    """Let the app work until something is so."""

    during(app, lambda: until(lambda: asyncio.to_thread(true)))


def until_status(app, api, job, status):
    let_work(app, lambda: api.get(f"/jobs/{job['id']}")["status"] == status)
    return api.get(f"/jobs/{job['id']}")


# -- control


def test_pause_and_resume(api):
    job = api.make(task="fine", interval_minutes=30)
    paused = api.post(f"/jobs/{job['id']}/pause")
    assert picked(paused, "status", "is_paused", "next_run_at") == {
        "status": "paused", "is_paused": True, "next_run_at": None,
    }  # fmt: skip
    assert paused["paused_at"] >= job["created_at"]
    resumed = api.post(f"/jobs/{job['id']}/resume")
    assert picked(resumed, "status", "is_paused", "paused_at") == {
        "status": "scheduled", "is_paused": False, "paused_at": None,
    }  # fmt: skip
    assert resumed["next_run_at"] > job["next_run_at"]


@pytest.mark.parametrize(
    ("before", "verb", "state"),
    [
        ((), "resume", "scheduled"),
        ((), "retry", "scheduled"),
        ((), "restart", "scheduled"),
        (("pause",), "pause", "paused"),
        (("cancel",), "cancel", "cancelled"),
        (("cancel",), "pause", "cancelled"),
        (("cancel",), "run", "cancelled"),
    ],
)
def test_a_state_that_does_not_allow_it_is_409_and_named(api, before, verb, state):
    job = api.make(task="fine", interval_minutes=30)
    for each in before:
        api.post(f"/jobs/{job['id']}/{each}")
    assert f"This job is {state};" in api.refused("POST", f"/jobs/{job['id']}/{verb}", code=409)
    assert api.get(f"/jobs/{job['id']}")["status"] == state


def test_cancel_is_for_good(api):
    job = api.make(task="fine", interval_minutes=30)
    cancelled = api.post(f"/jobs/{job['id']}/cancel")
    assert cancelled["status"] == "cancelled"
    assert cancelled["cancelled_at"] is not None
    assert "cancelled job cannot be edited" in api.refused("PUT", f"/jobs/{job['id']}", {"name": "x"}, code=409)


def test_a_failed_job_is_retried_with_a_fresh_budget(app, api):
    job = api.make(task="bad", interval_minutes=30, first_run="now", max_retries=0)
    failed = until_status(app, api, job, "failed")
    assert picked(failed, "error_message", "next_run_at") == {"error_message": "boom", "next_run_at": None}
    assert failed["completed_at"] >= failed["started_at"]
    retried = api.post(f"/jobs/{job['id']}/retry")
    assert picked(retried, "status", "current_retry_count") == {"status": "pending", "current_retry_count": 0}
    executions = api.get(f"/jobs/{job['id']}/executions")["executions"]
    assert [(run["status"], run["retry_attempt"], run["number"]) for run in executions] == [
        ("queued", 1, 1), ("failed", 0, 1),
    ]  # fmt: skip


def test_run_is_now_with_other_args_if_given(app, api):
    app.register("echo", lambda word="usual": word)
    job = api.make(task="echo", schedule="manual")
    assert api.post(f"/jobs/{job['id']}/run", {"args": {"word": "other"}}, 202)["status"] == "pending"
    let_work(app, lambda: api.get("/executions?status=completed")["total"] == 1)
    api.post(f"/jobs/{job['id']}/run", code=202)
    let_work(app, lambda: api.get("/executions?status=completed")["total"] == 2)
    results = [run["result"] for run in api.get(f"/jobs/{job['id']}/executions")["executions"]]
    assert results == ["usual", "other"]
    assert "did you mean args?" in api.refused("POST", f"/jobs/{job['id']}/run", {"arg": {}})


def test_an_ended_job_begins_as_new(app, api):
    job = api.make(task="fine", schedule="1h", first_run="now", total_repeats=1)
    until_status(app, api, job, "completed")
    assert api.post(f"/jobs/{job['id']}/restart")["status"] == "queued"


# -- many at once


def test_bulk_by_ids_tells_what_came_of_each(api):
    one, two = (api.make(task="fine", interval_minutes=5)["id"] for _ in range(2))
    api.post(f"/jobs/{two}/pause")
    answer = api.post("/jobs/bulk", {"action": "pause", "ids": [one, two, NOBODY]})
    assert picked(answer, "succeeded", "failed", "remaining") == {"succeeded": 1, "failed": 2, "remaining": 0}
    assert [(line["id"], line["ok"], line["status_code"]) for line in answer["results"]] == [
        (one, True, 200), (two, False, 409), (NOBODY, False, 404),
    ]  # fmt: skip
    assert "This job is paused" in answer["results"][1]["detail"]


def test_bulk_by_a_filter(api):
    made = {api.make(task="fine", interval_minutes=5, tags=["a"])["id"] for _ in range(3)}
    other = api.make(task="other", interval_minutes=5)
    answer = api.post("/jobs/bulk", {"action": "cancel", "filter": {"tag": "a", "status": ["scheduled"]}})
    assert {line["id"] for line in answer["results"]} == made
    assert answer["succeeded"] == 3
    assert api.get(f"/jobs/{other['id']}")["status"] == "scheduled"


def test_bulk_does_so_many_at_once_and_tells_how_many_remain(api, monkeypatch):
    monkeypatch.setattr("ostinato.endpoints.changes.MOST_JOBS", 2)
    monkeypatch.setattr("ostinato.endpoints.changes.PAGE_LIMIT", 1)
    for _ in range(3):
        api.make(task="fine", interval_minutes=5)
    scheduled = {"action": "pause", "filter": {"status": "scheduled"}}
    answers = [api.post("/jobs/bulk", scheduled) for _ in range(3)]
    assert [(answer["succeeded"], answer["remaining"]) for answer in answers] == [(2, 1), (1, 0), (0, 0)]


@pytest.mark.parametrize(
    "body",
    [
        {"action": "pause"},
        {"action": "pause", "filter": {}},
        {"action": "pause", "filter": {"tga": "x"}},
        {"action": "pause", "ids": ["0"], "filter": {"tag": "x"}},
        {"action": "explode", "ids": []},
        {"ids": []},
        {"action": "pause", "ids": ["x"] * 1001},
    ],
)
def test_bulk_that_does_not_say_which_is_refused(api, body):
    assert api.refused("POST", "/jobs/bulk", body)


# -- executions and figures


def test_executions_have_the_names_of_the_seed_and_ours(app, api):
    job = api.make(task="fine")
    until_status(app, api, job, "completed")
    page = api.get(f"/jobs/{job['id']}/executions?limit=10&offset=0")
    assert picked(page, "total", "limit", "offset") == {"total": 1, "limit": 10, "offset": 0}
    (run,) = page["executions"]
    assert api.get(f"/executions/{run['id']}") == run
    said = {
        "job_id": job["id"], "execution_number": 1, "status": "completed", "outcome": "completed", "retry_attempt": 0,
        "error_message": None, "result": {"good": True}, "metadata": {},
    }  # fmt: skip
    assert picked(run, *said) == said
    assert isinstance(run["duration_ms"], int)
    assert run["key"] == f"sched-{job['id']}-n1-rc0"
    assert run["completed_at"] >= run["started_at"] >= run["due_at"]
    assert run["worker"] in [worker["id"] for worker in api.get("/workers")["workers"]]


def test_executions_of_all_jobs_are_filtered(app, api):
    good, bad = api.make(task="fine"), api.make(task="bad")
    until_status(app, api, bad, "failed")
    until_status(app, api, good, "completed")

    def found(question):
        return [run["job_id"] for run in api.get(f"/executions?{question}")["executions"]]

    assert found("status=failed") == [bad["id"]]
    assert sorted(found("status=failed,completed")) == sorted([good["id"], bad["id"]])
    assert found("task=fine") == [good["id"]]
    assert found(f"job={bad['id']}") == [bad["id"]]
    (failed,) = api.get("/executions?status=failed")["executions"]
    assert picked(failed, "error_kind", "error_message") == {
        "error_kind": "ValueError",
        "error_message": "boom",
    }
    assert "boom" in failed["stack_trace"]
    for wrong in ("status=asleep", "limit=999", "task=%00"):
        assert api.refused("GET", f"/executions?{wrong}")


def test_a_queued_execution_is_taken_back(api):
    job = api.make(task="fine")
    (run,) = api.get(f"/jobs/{job['id']}/executions")["executions"]
    assert run["status"] == "queued"
    assert run["reason"] == api.get(f"/jobs/{job['id']}")["reason"]
    assert run["reason"]
    assert "not running" in api.refused("POST", f"/executions/{run['id']}/release", code=409)
    taken = api.post(f"/executions/{run['id']}/cancel")
    assert picked(taken, "status", "known_dead", "stop") == {
        "status": "cancelled", "known_dead": True, "stop": "The run was withdrawn before it started.",
    }  # fmt: skip
    assert api.get(f"/jobs/{job['id']}")["status"] == "cancelled"
    assert "ended already" in api.refused("POST", f"/executions/{run['id']}/cancel", code=409)
    for path in (f"/executions/{NOBODY}", "/executions/nonsense"):
        assert api.refused("GET", path, code=404)


def test_a_running_execution_can_be_seen_and_released(app, api):
    here, go = asyncio.Event(), asyncio.Event()

    @app.task
    async def holds() -> None:
        here.set()
        await go.wait()

    job = api.make(task="holds")

    async def look():
        await asyncio.wait_for(here.wait(), PATIENCE)
        running = await asyncio.to_thread(api.get, f"/jobs/{job['id']}")
        run_id = running["lock_token"]
        released = await asyncio.to_thread(api.post, f"/executions/{run_id}/release")
        go.set()
        return running, released

    running, released = during(app, look)
    assert running["status"] == "running"
    assert running["lock_acquired_at"] == running["started_at"]
    assert released["id"] == running["lock_token"]
    assert released["status"] == "queued"


def test_pausing_a_running_job_answers_paused(app, api):
    here, go = asyncio.Event(), asyncio.Event()

    @app.task
    async def holds() -> None:
        here.set()
        await go.wait()

    job = api.make(task="holds", schedule="1h", first_run="now")

    async def pause():
        await asyncio.wait_for(here.wait(), 60)
        paused = await asyncio.to_thread(api.post, f"/jobs/{job['id']}/pause")
        running = await asyncio.to_thread(api.get, f"/jobs/{job['id']}")
        go.set()
        return paused, running

    paused, running = during(app, pause)
    assert picked(paused, "status", "is_paused") == {"status": "paused", "is_paused": True}
    assert paused["lock_token"] is not None
    assert picked(running, "status", "is_paused") == {"status": "running", "is_paused": True}


def test_statistics_are_those_of_the_seed(app, api):
    bad = api.make(task="bad")
    good = api.make(task="fine", schedule="1h", first_run="now")
    until_status(app, api, bad, "failed")
    let_work(app, lambda: api.get(f"/jobs/{good['id']}/stats")["successful_runs"] == 1)
    stats = api.get(f"/jobs/{good['id']}/stats")
    assert picked(stats, "total_executions", "successful_runs", "failed_runs", "success_rate") == {
        "total_executions": 1, "successful_runs": 1, "failed_runs": 0, "success_rate": 1.0,
    }  # fmt: skip
    assert isinstance(stats["average_duration_ms"], int)
    assert stats["last_execution_at"] is not None
    assert stats["next_scheduled_at"] == api.get(f"/jobs/{good['id']}")["next_run_at"]
    assert isinstance(api.get(f"/jobs/{bad['id']}/stats")["average_duration_ms"], int)  # all its runs failed
    metrics = api.get("/scheduler/metrics")
    assert picked(metrics["jobs"], "scheduled", "running", "completed", "failed", "cancelled") == {
        "scheduled": 1, "running": 0, "completed": 0, "failed": 1, "cancelled": 0,
    }  # fmt: skip
    assert picked(metrics["executions"], "total", "success_rate") == {"total": 2, "success_rate": 0.5}
    assert metrics["tasks"]["bad"]["failed"] == 1
    assert metrics["stale_locks_cleared"] == 0
    assert metrics["last_metrics_update"] >= metrics["last_check_at"]


def test_a_job_that_has_not_run_has_no_rate(api):
    job = api.make(task="fine", schedule="manual")
    stats = api.get(f"/jobs/{job['id']}/stats")
    assert picked(stats, "total_executions", "success_rate", "average_duration_ms", "last_execution_at") == {
        "total_executions": 0, "success_rate": None, "average_duration_ms": None, "last_execution_at": None,
    }  # fmt: skip


# -- schedules


def test_previews(api):
    answer = api.post(
        "/preview",
        {"schedule": "0 9 * * mon-fri", "timezone": "Europe/Paris", "after": "2026-11-14T00:00:00Z", "n": 2},
    )
    assert answer == {
        "schedule": {"cron": "0 9 * * mon-fri", "timezone": "Europe/Paris"},
        "description": "at 09:00 on weekdays, Europe/Paris",
        "timezone": "Europe/Paris",
        "times": ["2026-11-16T08:00:00Z", "2026-11-17T08:00:00Z"],
        "complete": True,
    }
    theirs = api.post("/preview", {"interval_minutes": 6, "interval_type": "hours", "after": "2026-11-16T00:00:00Z"})
    assert theirs["times"][:2] == ["2026-11-16T06:00:00Z", "2026-11-16T12:00:00Z"]
    assert len(theirs["times"]) == 10
    for wrong in (
        {},
        {"schedule": "0 25 * * *"},
        {"schedule": "30m", "n": 0},
        {"schedule": "30m", "n": 10**9},
    ):
        assert api.refused("POST", "/preview", wrong)


def test_the_next_times_of_a_job(api):
    job = api.make(task="fine", interval_minutes=30)
    answer = api.get(f"/jobs/{job['id']}/next?n=3")
    assert answer["times"][0] == job["next_run_at"]
    assert len(answer["times"]) == 3
    api.post(f"/jobs/{job['id']}/pause")
    assert api.get(f"/jobs/{job['id']}/next")["times"] == []
    assert api.refused("GET", f"/jobs/{job['id']}/next?n=0")


def test_a_search_for_due_times_that_takes_too_long_answers_with_what_it_found(api, monkeypatch):
    rare = {"cron": "0 0 29 2 */7"}
    job = api.make(task="fine", schedule=rare)
    assert api.post("/preview", {"schedule": rare, "n": 3})["complete"]
    assert api.get(f"/jobs/{job['id']}/next?n=3")["complete"]
    monkeypatch.setattr("ostinato.rest.endpoints.Ask", partial(Ask, allowed=lambda: allowance(0)))
    foreseen = api.post("/preview", {"schedule": rare, "n": 1000})
    assert (len(foreseen["times"]), foreseen["complete"]) == (1, False)
    foreseen = api.get(f"/jobs/{job['id']}/next?n=1000")
    assert (len(foreseen["times"]), foreseen["complete"]) == (1, False)


def test_skips_and_why(api):
    job = api.make(task="fine", schedule="1h", first_run="now")
    api.post(f"/jobs/{job['id']}/pause")
    skips = api.get(f"/jobs/{job['id']}/skips")
    assert [(skip["reason"], skip["count"]) for skip in skips["skips"]] == [("paused", 1)]
    assert skips["skipped"] == 1
    why = api.get(f"/jobs/{job['id']}/why")
    assert why["verdict"] == "skipped"
    assert any("paused" in sentence and "ann" in sentence for sentence in why["sentences"])
    early = api.get(f"/jobs/{job['id']}/why?at=2020-01-01T00:00:00Z")
    assert early["verdict"] == "before_creation"
    assert api.refused("GET", f"/jobs/{job['id']}/why?at=yesterday")


# -- queues and workers


def test_queues(api):
    api.make(task="fine", queue="slow")
    paused = api.post("/queues/slow/pause")
    assert picked(paused, "name", "is_paused", "paused_by", "queued") == {
        "name": "slow", "is_paused": True, "paused_by": "ann", "queued": 1,
    }  # fmt: skip
    assert api.post("/queues/slow/resume")["is_paused"] is False
    assert api.told(200, "PATCH", "/queues/slow", json={"max_queued": 3})["max_queued"] == 3
    assert api.told(200, "PATCH", "/queues/slow", json={"max_queued": None})["max_queued"] is None
    assert "slow" in [queue["name"] for queue in api.get("/queues")["queues"]]
    assert "queue name" in api.refused("POST", "/queues/no spaces/pause")
    for wrong in ({}, {"max_queued": 0}, {"max_queued": 2**63}, {"max": 3}):
        assert api.refused("PATCH", "/queues/slow", wrong)


def test_a_worker_is_drained(app, api):
    async def drain():
        def one():
            return [each for each in api.get("/workers")["workers"] if each["status"] == "working"]

        (found,) = await until(lambda: asyncio.to_thread(one))
        return found, await asyncio.to_thread(api.post, f"/workers/{found['id']}/drain")

    before, after = during(app, drain)
    assert set(before["tasks"]) - our_features().tasks.keys() == {"bad", "fine", "other"}
    assert after["status"] == "draining"
    assert after["drain_asked_at"] is not None
    assert "no worker" in api.refused("POST", f"/workers/{before['id']}/drain", code=404)
    assert api.refused("POST", "/workers/nonsense/drain", code=404)

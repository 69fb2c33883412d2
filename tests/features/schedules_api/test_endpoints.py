"""The schedules API, in the words of seed 001: its endpoints, fields, defaults and refusals."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import uuid4

import pytest

from ostinato.core.model import Finished
from ostinato.core.outcome import Completed, Error, Failed
from ostinato.store.workers import NewWorker

GOOD = {
    "name": "good",
    "nodes": [{"id": "t", "type": "trigger_schedule"}, {"id": "n", "task": "fine", "after": ["t"]}],
}
FIELDS = {
    "id", "name", "description", "workflow_id", "trigger_node_id", "user_profile_id", "interval_seconds",
    "total_repeats", "max_retries", "timeout_seconds", "trigger_payload", "status", "current_repeat", "current_retry",
    "last_run_at", "next_run_at", "run_count", "error_count", "last_error", "created_at", "updated_at",
}  # fmt: skip


@pytest.fixture
def workflow(api) -> int:
    return api.post("/workflows", GOOD, 201)["id"]


def body(workflow: object, **more: object) -> dict[str, object]:
    return {"name": "Daily report", "workflow_id": workflow, "interval_seconds": 86400} | more


def make(api, workflow, **more):
    return api.post("/schedules/", body(workflow, **more), 201)


# -- making


def test_the_example_of_the_seed_is_made_with_all_its_fields(api, workflow):
    made = make(
        api, workflow, trigger_node_id="t", total_repeats=0, max_retries=3, timeout_seconds=600,
        trigger_payload={"report_type": "daily"},
    )  # fmt: skip
    assert made.keys() == FIELDS
    assert made == api.get(f"/schedules/{made['id']}/") == api.get(f"/schedules/{made['id']}")
    assert (made["status"], made["user_profile_id"], made["last_error"]) == ("active", "ann", "")
    assert (made["workflow_id"], made["trigger_node_id"]) == (workflow, "t")
    assert made["trigger_payload"] == {"report_type": "daily"}
    assert (made["current_repeat"], made["current_retry"], made["run_count"], made["error_count"]) == (0,) * 4
    assert made["last_run_at"] is None


def test_the_defaults_are_those_of_the_seed(api, workflow):
    made = make(api, workflow)
    assert (made["max_retries"], made["timeout_seconds"], made["total_repeats"]) == (3, 600, 0)
    assert (made["description"], made["trigger_node_id"], made["trigger_payload"]) == ("", None, {})


def test_the_first_run_is_one_interval_after_creation(api, workflow):
    made = make(api, workflow, interval_seconds=300)
    first = datetime.fromisoformat(made["next_run_at"]) - datetime.fromisoformat(made["created_at"])
    assert first == timedelta(seconds=300)


def test_the_same_job_is_seen_by_the_jobs_api_with_the_policies_of_the_seed(api, workflow):
    made = make(api, workflow, interval_seconds=60)
    job = api.get(f"/jobs/{made['id']}")
    assert (job["task"], job["schedule"], job["when_exhausted"]) == ("workflow", {"every": "60s"}, "fail")
    assert (job["backoff"]["base"], job["backoff"]["cap"], job["backoff"]["kind"]) == (
        "1m",
        "10m",
        "exponential",
    )
    assert (job["timeout"], job["overlap"], job["first_run"]) == ("10m", "skip", "next")


def test_repeating_jobs_that_were_made_elsewhere_are_schedules_too_and_others_are_not(api):
    repeating = api.make(task="fine", schedule={"every": "5m"}, args={"a": 1}, name="x")
    once = api.make(task="fine")
    (shown,) = api.get("/schedules/")["items"]
    assert (shown["id"], shown["interval_seconds"], shown["workflow_id"]) == (repeating["id"], 300, None)
    assert shown["trigger_payload"] == {"a": 1}
    assert "does not repeat" in api.refused("GET", f"/schedules/{once['id']}/", code=404)


def test_a_workflow_may_be_named(api, workflow):
    assert make(api, "good")["workflow_id"] == workflow


WRONG = [
    ({"interval_seconds": 0}, "interval_seconds must be >= 1"),
    ({"interval_seconds": -5}, "interval_seconds must be >= 1"),
    ({"total_repeats": -1}, "total_repeats must be >= 0"),
    ({"max_retries": -1}, "max_retries must be >= 0"),
    ({"timeout_seconds": 0}, "timeout_seconds must be >= 1"),
    ({"interval_seconds": 10**12}, "interval_seconds must be <= 315360000"),
    ({"interval_seconds": "60"}, "interval_seconds"),
    ({"name": ""}, "name"),
    ({"status": "paused"}, "status is read-only"),
    ({"intervall_seconds": 3}, "did you mean interval_seconds"),
    ({"trigger_node_id": "nobody"}, "No matching trigger"),
    ({"trigger_payload": [1]}, "trigger_payload"),
]


def test_what_is_wrong_is_refused_by_its_name(api, workflow):
    for said, sentence in WRONG:
        assert sentence in api.refused("POST", "/schedules/", body(workflow, **said)), said
    for missing in ("name", "workflow_id", "interval_seconds"):
        words = body(workflow)
        del words[missing]
        assert missing in api.refused("POST", "/schedules/", words)
    assert api.get("/schedules/")["total"] == 0


def test_an_unknown_workflow_is_not_found(api, workflow):
    assert "workflow" in api.refused("POST", "/schedules/", body(999), 404)
    assert "workflow" in api.refused("POST", "/schedules/", body("nobody"), 404)
    assert "workflow" in api.refused("GET", "/schedules/?workflow_id=999", code=404)


# -- lists


def test_the_list_is_newest_first_with_total_limit_and_offset(api, workflow):
    ids = [make(api, workflow, name=str(n))["id"] for n in range(5)]
    page = api.get("/schedules/?limit=2&offset=1")
    assert ([item["id"] for item in page["items"]], page["total"]) == ([ids[3], ids[2]], 5)
    assert [item["id"] for item in api.get("/schedules")["items"]] == ids[::-1]
    assert page.keys() == {"items", "total"}


def test_the_filters_are_status_and_workflow(api, workflow):
    other = api.post("/workflows", {**GOOD, "name": "other"}, 201)["id"]
    first, second = make(api, workflow)["id"], make(api, other)["id"]
    api.post(f"/schedules/{second}/pause/")

    def found(query: str) -> list[str]:
        return [item["id"] for item in api.get(f"/schedules/?{query}")["items"]]

    assert found("status=active") == [first]
    assert found("status=paused") == [second]
    assert found("status=done") == found("status=dead") == []
    assert found(f"workflow_id={other}") == found("workflow_id=other") == [second]
    assert found(f"workflow_id={workflow}&status=paused") == []
    assert "status" in api.refused("GET", "/schedules/?status=sleeping")
    assert "did you mean status" in api.refused("GET", "/schedules/?statu=active")


# -- steering


def test_pause_and_resume_and_what_they_refuse(api, workflow):
    made = make(api, workflow, interval_seconds=60)
    path = f"/schedules/{made['id']}"
    assert "active" in api.refused("POST", f"{path}/resume/", code=400)
    paused = api.post(f"{path}/pause/")
    assert (paused["status"], paused["next_run_at"]) == ("paused", None)
    assert "paused" in api.refused("POST", f"{path}/pause/", code=400)
    resumed = api.post(f"{path}/resume")
    again = datetime.fromisoformat(resumed["next_run_at"]) - datetime.fromisoformat(resumed["updated_at"])
    assert (resumed["status"], again) == ("active", timedelta(seconds=60))
    assert "active" in api.refused("POST", f"{path}/restart/", code=400)


def test_a_cancelled_job_is_dead(api, workflow):
    made = make(api, workflow)
    api.post(f"/jobs/{made['id']}/cancel")
    assert api.get(f"/schedules/{made['id']}/")["status"] == "dead"
    for verb in ("pause", "resume", "restart"):
        assert "dead" in api.refused("POST", f"/schedules/{made['id']}/{verb}/", code=400)


def test_delete_and_batch_delete(api, workflow):
    ids = [make(api, workflow)["id"] for _ in range(4)]
    assert api.ask("DELETE", f"/schedules/{ids[0]}/").status_code == 204
    api.refused("GET", f"/schedules/{ids[0]}/", code=404)
    api.refused("DELETE", f"/schedules/{ids[0]}/", code=404)
    gone = api.ask("POST", "/schedules/batch-delete/", json={"schedule_ids": [*ids[:3], str(uuid4())]})
    assert (gone.status_code, gone.content) == (204, b"")
    assert [item["id"] for item in api.get("/schedules/")["items"]] == ids[3:]
    assert "schedule_ids" in api.refused("POST", "/schedules/batch-delete/", {"schedule_ids": ["x"]})
    assert "schedule_ids" in api.refused("POST", "/schedules/batch-delete/", {})


def test_nothing_is_there_under_an_unknown_id(api):
    nobody = f"/schedules/{uuid4()}"
    for method, path in [
        ("GET", ""),
        ("DELETE", ""),
        ("POST", "/pause/"),
        ("POST", "/resume"),
        ("POST", "/restart/"),
    ]:
        assert "There is no schedule" in api.refused(method, nobody + path, code=404)
    assert "There is no schedule" in api.refused("PATCH", nobody + "/", {"name": "x"}, 404)


# -- edits


def test_a_patch_changes_what_it_says_and_nothing_else(api, workflow):
    made = make(api, workflow, trigger_payload={"a": 1}, trigger_node_id="t")
    path = f"/schedules/{made['id']}/"
    after = api.told(200, "PATCH", path, json={"name": "new", "max_retries": 0, "description": "why"})
    changed = {"name": "new", "max_retries": 0, "description": "why", "updated_at": after["updated_at"]}
    assert after == made | changed
    after = api.told(200, "PATCH", path, json={"trigger_payload": {"b": 2}, "trigger_node_id": None})
    assert (after["trigger_payload"], after["trigger_node_id"], after["workflow_id"]) == (
        {"b": 2},
        None,
        workflow,
    )


def test_another_interval_counts_from_the_edit_and_takes_the_backoff_along(api, workflow):
    made = make(api, workflow, interval_seconds=60)
    after = api.told(200, "PATCH", f"/schedules/{made['id']}", json={"interval_seconds": 300})
    next_run = datetime.fromisoformat(after["next_run_at"]) - datetime.fromisoformat(after["updated_at"])
    assert (after["interval_seconds"], next_run) == (300, timedelta(seconds=300))
    job = api.get(f"/jobs/{made['id']}")
    assert (job["backoff"]["base"], job["backoff"]["cap"]) == ("5m", "50m")


def test_a_schedule_may_move_to_another_workflow(api, workflow):
    other = api.post("/workflows", {**GOOD, "name": "other"}, 201)["id"]
    made = make(api, workflow)
    after = api.told(200, "PATCH", f"/schedules/{made['id']}/", json={"workflow_id": "other"})
    assert after["workflow_id"] == other
    assert api.get(f"/schedules/?workflow_id={workflow}")["total"] == 0
    assert api.get(f"/schedules/?workflow_id={other}")["total"] == 1


WRONG_PATCHES = [
    ({"interval_seconds": 0}, "interval_seconds must be >= 1", 422),
    ({"name": None}, "name cannot be null", 422),
    ({"run_count": 7}, "run_count is read-only", 422),
    ({"workflow_id": 999}, "workflow", 404),
    ({"trigger_node_id": "x"}, "No matching trigger", 422),
]


def test_a_wrong_patch_changes_nothing(api, workflow):
    made = make(api, workflow)
    for said, sentence, code in WRONG_PATCHES:
        assert sentence in api.refused("PATCH", f"/schedules/{made['id']}/", said, code), said
    assert api.get(f"/schedules/{made['id']}/") == made


def test_a_job_of_another_task_has_no_workflow_to_change(api):
    made = api.make(task="fine", schedule={"every": "5m"})
    path = f"/schedules/{made['id']}/"
    assert "runs the task 'fine'" in api.refused("PATCH", path, {"workflow_id": 1}, 409)
    assert api.told(200, "PATCH", path, json={"trigger_payload": {"x": 1}})["trigger_payload"] == {"x": 1}
    assert api.get(f"/jobs/{made['id']}")["args"] == {"x": 1}


# -- counters


def settle(app, outcome, times: int = 1) -> None:
    """Fire and run what is due of the one job there is, without a worker."""
    store, chance = app.parts.store, app.parts.chance
    for _ in range(times):
        (view,) = app.jobs.list()
        now = view.next_run_at
        store.queue.fire_due(lambda now=now: now, timedelta(0), 10)
        store.queue.time_has_come(now, 10)
        me = NewWorker(chance.id(now), "", "h", 1, "", ("fine",), (), 1)
        store.workers.join(me, now, timedelta(hours=1))
        claim = store.queue.claim(me.id, ("fine",), (), lambda now=now: now, 1)
        store.queue.settle([Finished(each.live, outcome, now, each.definition) for each in claim.claimed])
        store.workers.leave(me.id, now)


FAILED = Failed(Error("ValueError", "it broke"))


def test_counters_status_and_errors_through_a_life_and_a_restart(app, api):
    made = api.make(
        task="fine",
        schedule={"every": "1m"},
        max_retries=1,
        when_exhausted="fail",
        total_repeats=3,
        backoff="1m",
    )
    path = f"/schedules/{made['id']}"
    settle(app, Completed())
    settle(app, FAILED)
    now = api.get(path)
    assert (now["run_count"], now["current_repeat"], now["error_count"], now["current_retry"]) == (1, 1, 1, 1)
    assert (now["last_error"], now["status"]) == ("it broke", "active")
    settle(app, Completed())
    now = api.get(path)
    assert (now["run_count"], now["current_repeat"], now["error_count"], now["current_retry"]) == (2, 2, 1, 0)
    assert now["last_error"] == "it broke"  # the most recent one, though it is mended
    settle(app, FAILED, 2)
    now = api.get(path)
    assert (now["status"], now["error_count"], now["current_retry"], now["next_run_at"]) == (
        "dead",
        3,
        2,
        None,
    )
    assert [item["id"] for item in api.get("/schedules?status=dead")["items"]] == [made["id"]]
    assert "dead" in api.refused("POST", f"{path}/pause", code=400)

    again = api.post(f"{path}/restart/")
    assert again["status"] == "active"
    for counter in ("run_count", "current_repeat", "error_count", "current_retry"):
        assert again[counter] == 0, counter
    assert again["last_error"] == ""
    settle(app, Completed(), 3)
    done = api.get(path)
    assert (done["status"], done["run_count"], done["current_repeat"]) == ("done", 3, 3)
    assert "done" in api.refused("POST", f"{path}/resume/", code=400)
    assert api.get(f"/jobs/{made['id']}")["counters"]["completed"] == 5  # G9 goes on


def test_fewer_repeats_than_are_done_end_it_at_the_next_success(app, api):
    made = api.make(task="fine", schedule={"every": "1m"}, total_repeats=10)
    settle(app, Completed(), 3)
    api.told(200, "PATCH", f"/schedules/{made['id']}/", json={"total_repeats": 2})
    assert api.get(f"/schedules/{made['id']}/")["status"] == "active"
    settle(app, Completed())
    now = api.get(f"/schedules/{made['id']}/")
    assert (now["status"], now["current_repeat"]) == ("done", 4)

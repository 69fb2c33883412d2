"""Jobs over HTTP: made in either vocabulary, listed, edited, deleted."""

from datetime import UTC, datetime, timedelta

import pytest

from ostinato.core.access import Role

A_CRAWL = {"source_name": "example.com", "url": "https://example.com"}
NOBODY = "01a1e55d-0000-7000-8000-000000000000"


def instant(text):
    return datetime.fromisoformat(text)


def picked(answer, *names):
    return {name: answer[name] for name in names}


# -- making


def test_a_job_in_our_words(api):
    job = api.make(
        task="fine", args={"a": [1, None, "ü"]}, schedule={"cron": "0 9 * * mon-fri", "timezone": "Europe/Paris"},
        key="nightly", name="Nightly", description="at night", queue="slow", priority=2, tags=["a", "b"],
        metadata={"team": "x"}, owner="ann", end_at="2099-01-01T00:00:00+01:00", jitter="5s", catch_up="none",
        late_after="2m", overlap="allow", max_overlap=3, max_retries=7, backoff={"kind": "linear", "base": "10s"},
        timeout="10m", when_exhausted="fail", on_lost="fail", keep_executions=10, keep_days=3,
        window={"days": "mon-fri", "from": "09:00", "to": "17:00", "timezone": "UTC"},
    )  # fmt: skip
    assert job["schedule"] == {"cron": "0 9 * * mon-fri", "timezone": "Europe/Paris"}
    assert job["schedule_description"] == "at 09:00 on weekdays, Europe/Paris"
    assert picked(job, "schedule_time", "timezone", "schedule_enabled") == {
        "schedule_time": "0 9 * * mon-fri", "timezone": "Europe/Paris", "schedule_enabled": True,
    }  # fmt: skip
    assert job["args"] == {"a": [1, None, "ü"]}
    assert job["end_at"] == "2098-12-31T23:00:00Z"
    assert job["backoff"]["kind"] == "linear"
    assert job["backoff"]["base"] == "10s"
    assert job["window"]["days"] == ["mon", "tue", "wed", "thu", "fri"]
    assert picked(job, "timeout", "late_after", "overlap", "max_overlap", "keep_days", "priority", "owner") == {
        "timeout": "10m", "late_after": "2m", "overlap": "allow", "max_overlap": 3, "keep_days": 3, "priority": 2,
        "owner": "ann",
    }  # fmt: skip
    assert api.get(f"/jobs/{job['id']}") == job
    assert api.get("/jobs/nightly") == job


@pytest.mark.parametrize(
    ("given", "period", "back"),
    [
        ({"interval_minutes": 30}, timedelta(minutes=30), (30, "minutes")),
        ({"interval_minutes": 60, "interval_type": "minutes"}, timedelta(hours=1), (60, "minutes")),
        ({"interval_minutes": 6, "interval_type": "hours"}, timedelta(hours=6), (6, "hours")),
        ({"interval_minutes": 1, "interval_type": "days"}, timedelta(days=1), (1, "days")),
        ({"schedule": {"every": "2w"}}, timedelta(weeks=2), (14, "days")),
        ({"schedule": {"every": "1h30m"}}, timedelta(minutes=90), (90, "minutes")),
        ({"schedule": "90s"}, timedelta(seconds=90), (None, None)),
    ],
)
def test_an_interval_comes_back_as_it_was_said(api, given, period, back):
    job = api.make(task="fine", **given)
    assert instant(job["next_run_at"]) - instant(job["created_at"]) == period
    assert (job["interval_minutes"], job["interval_type"]) == back
    assert job["status"] == "scheduled"


def test_an_interval_may_begin_at_a_specific_time(api):
    start = (datetime.now(UTC) + timedelta(days=2)).replace(hour=3, minute=0, second=0, microsecond=0)
    job = api.make(**A_CRAWL, interval_minutes=1, interval_type="days", start_at=start.isoformat())
    assert instant(job["next_run_at"]) == start


def test_the_words_of_a_source_are_its_args(api):
    job = api.make(source_id="news", **A_CRAWL, interval_minutes=5)
    assert job["task"] == "crawl"
    assert job["args"] == {"source_id": "news", **A_CRAWL}
    assert picked(job, "source_id", "source_name", "url") == {"source_id": "news", **A_CRAWL}


def test_the_url_of_another_task_may_be_any_arg_of_its_own(api):
    job = api.make(task="fine", args={"url": "s3://bucket"}, schedule="manual")
    assert job["url"] == "s3://bucket"
    assert api.put(f"/jobs/{job['id']}", job | {"name": "Named"})["args"] == {"url": "s3://bucket"}


def test_their_words_bring_their_defaults_and_ours_bring_ours(api):
    theirs = api.make(task="fine", interval_minutes=5)
    assert picked(theirs, "max_retries", "when_exhausted") == {"max_retries": 3, "when_exhausted": "fail"}
    ours = api.make(task="fine", schedule="5m")
    assert picked(ours, "max_retries", "when_exhausted") == {"max_retries": 3, "when_exhausted": "continue"}
    once = api.make(task="fine")
    assert picked(once, "max_retries", "schedule_enabled", "status") == {
        "max_retries": 0, "schedule_enabled": False, "status": "pending",
    }  # fmt: skip


def test_both_vocabularies_mix_freely(api):
    job = api.make(task="fine", schedule_enabled=False, max_retries=1)
    assert picked(job, "task", "status", "max_retries", "when_exhausted") == {
        "task": "fine", "status": "pending", "max_retries": 1, "when_exhausted": "fail",
    }  # fmt: skip
    same = api.make(task="fine", schedule={"every": "30m"}, interval_minutes=30, retry_backoff_seconds=5, backoff="5s")
    assert picked(same, "retry_backoff_seconds", "interval_minutes") == {
        "retry_backoff_seconds": 5, "interval_minutes": 30,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"schedule": {"every": "6h"}, "interval_minutes": 30}, "schedule"),
        ({"schedule": {"every": "6h"}, "schedule_enabled": False}, "schedule"),
        ({"schedule": "manual", "schedule_enabled": True}, "schedule"),
        ({"backoff": "10s", "retry_backoff_seconds": 20}, "retry_backoff_seconds"),
        ({"args": {"url": "https://a.example"}, "url": "https://b.example"}, "url"),
    ],
)
def test_the_same_thing_said_twice_and_differently_is_refused(api, body, field):
    answer = api.post("/jobs", {"task": "fine", **body}, 422)
    assert "say different things" in answer["detail"]
    assert [line["field"] for line in answer["errors"]] == [field]


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({}, "A job needs a task"),
        ({"source_name": "x", "interval_minutes": 3}, "A job needs a task to run, or a url"),
        ({"url": "https://x", "schedule_enabled": True}, "needs interval_minutes, schedule_time"),
        ({"task": "fine", "interval_type": "hours"}, "interval_type needs interval_minutes"),
        ({"task": "fine", "interval_minutes": 0}, "interval_minutes"),
        ({"task": "fine", "interval_minutes": 1.5}, "interval_minutes"),
        ({"task": "fine", "interval_minutes": True}, "interval_minutes"),
        ({"task": "fine", "interval_minutes": 3, "interval_type": "weeks"}, "'minutes', 'hours' or 'days'"),
        ({"task": "fine", "interval_minutes": 40_000, "interval_type": "days"}, "100 years"),
        ({"task": "fine", "interval_minutes": 100_000_000, "interval_type": "days"}, "calendar"),
        ({"task": "fine", "schedule_time": "every noon"}, "cron"),
        ({"task": "fine", "schedule_time": "0 9 * * *", "timezone": "Mars/Base"}, "Mars/Base"),
        ({"task": "fine", "interval_minutes": 30, "schedule_time": "nonsense"}, "cron"),
        (
            {"task": "fine", "schedule": "1h", "timezone": "Europe/Paris"},
            "Only a cron schedule has a time zone",
        ),
        ({"task": "fine", "timezone": "Europe/Paris"}, "Only a cron schedule has a time zone"),
        (
            {"task": "fine", "schedule": {"cron": "@daily", "timezone": "UTC"}, "timezone": "Asia/Tokyo"},
            "different things",
        ),
        ({"task": "fine", "schedule": {"at": "0001-01-01T00:00:00Z"}}, "before 1900"),
        ({"task": "fine", "schedule": "1h", "start_at": "0001-01-01T00:00:00Z"}, "before 1900"),
        ({"task": "fine", "schedule": "1h", "end_at": "0001-01-01T00:00:00+14:00"}, "beyond the calendar"),
        ({"task": "fine", "backoff": []}, "at least one step"),
        ({"task": "fine", "schedule": {"evry": "6h"}}, "A schedule is one of"),
        ({"task": "fine", "schedule": {"every": "6h", "at": "2026-01-01"}}, "A schedule is one of"),
        ({"task": "fine", "schedule": "0.1s"}, "shortest interval"),
        ({"task": "fine", "schedule": 30}, "schedule"),
        ({"url": "ftp://example.com"}, "http:// or https://"),
        ({"task": "fine", "url": "ftp://example.com"}, "http:// or https://"),
        ({"task": "crawl"}, "A crawl needs a url"),
        ({"task": "crawl", "args": {"url": "ftp://example.com"}}, "http:// or https://"),
        ({"task": "crawl", "args": {"url": 3}}, "http:// or https://"),
        ({"url": "https://"}, "http:// or https://"),
        ({"url": "example.com"}, "http:// or https://"),
        ({"url": "https://exa mple.com"}, "http:// or https://"),
        ({"url": "https://example.com:99999"}, "http:// or https://"),
        ({"url": "https://example.com", "source_name": " "}, "source_name"),
        ({"url": "https://example.com", "source_name": "x" * 300}, "source_name"),
        ({"url": "https://example.com", "source_name": 3}, "source_name"),
        ({"task": "fine", "start_at": "2026-01-01T00:00:00"}, "no time zone"),
        ({"task": "fine", "start_at": "tomorrow"}, "not an instant"),
        ({"task": "fine", "timeout": "soon"}, "not a duration"),
        ({"task": "fine", "timeout": "0s"}, "timeout must be longer than 0 s"),
        ({"task": "fine", "priority": 11}, "priority"),
        ({"task": "fine", "queue": "no spaces"}, "queue name"),
        ({"task": "fine", "args": [1]}, "args"),
        ({"task": "fine", "window": {"from": "9", "to": "x"}}, "time of day"),
        ({"task": "fine", "backoff": {"bas": "3s"}}, "did you mean base?"),
        ({"task": "fine", "tags": ["x"] * 51}, "tags"),
        ({"task": "fine", "max_retries": -1}, "max_retries"),
        ({"task": "fine", "max_retries": 10**30}, "max_retries"),
        ({"task": "fnie"}, "Did you mean 'fine'?"),
        ({"task": "fine", "intervall_minutes": 3}, "did you mean interval_minutes?"),
        ({"task": "fine", "status": "paused"}, "status is read-only"),
        ([], "JSON object"),
        ("x", "JSON object"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(api, body, sentence):
    assert sentence in api.refused("POST", "/jobs", body)
    assert api.get("/jobs")["total"] == 0


def test_every_wrong_field_is_named(api):
    answer = api.post("/jobs", {"task": 3, "priority": "x", "tags": "x"}, 422)
    assert {line["field"] for line in answer["errors"]} == {"task", "priority", "tags"}


def test_a_task_that_nobody_knows_is_accepted_only_when_somebody_says_so(api):
    assert "no worker" in api.refused("POST", "/jobs", {"task": "elsewhere"})
    job = api.post("/jobs?allow_unknown=true", {"task": "elsewhere"}, 201)
    assert job["task"] == "elsewhere"


def test_a_key_that_is_held_gives_the_job_that_holds_it(api):
    first = api.make(task="fine", schedule="manual", key="one")
    second = api.post("/jobs", {"task": "other", "schedule": "1h", "key": "one"}, 200)
    assert second == first


def test_a_new_job_says_where_it_is_and_which_version(api):
    answer = api.ask("POST", "/jobs", json={"task": "fine", "schedule": "1h"})
    assert answer.headers["location"] == f"/api/v1/jobs/{answer.json()['id']}"
    assert answer.headers["etag"] == '"1"'


# -- lists


def test_a_list_has_its_total_and_pages(api):
    made = [api.make(task="fine", schedule="manual", name=f"n{n}")["id"] for n in range(5)]
    page = api.get("/jobs?limit=2")
    assert [job["id"] for job in page["jobs"]] == made[:2:-1]
    assert picked(page, "total", "limit", "offset") == {"total": 5, "limit": 2, "offset": 0}
    assert [job["id"] for job in api.get("/jobs?limit=2&offset=4")["jobs"]] == made[:1]
    seen = [job["id"] for job in page["jobs"]]
    while page["cursor"]:
        page = api.get("/jobs", params={"limit": 2, "cursor": page["cursor"]})
        seen += [job["id"] for job in page["jobs"]]
    assert seen == made[::-1]
    assert [job["name"] for job in api.get("/jobs?sort=name&limit=1")["jobs"]] == ["n0"]


def test_filters_are_all_applied(api):
    api.make(task="fine", schedule="1h", queue="slow", tags=["a"], name="Report")
    paused = api.make(task="other", schedule="1d", tags=["a", "b"])
    api.post(f"/jobs/{paused['id']}/pause")
    by_hand = api.make(task="fine", schedule="manual")

    def found(question):
        return {job["id"] for job in api.get(f"/jobs?{question}")["jobs"]}

    assert found("status=paused") == {paused["id"]}
    assert found("status=paused,pending") == found("status=paused&status=pending") == {paused["id"], by_hand["id"]}
    assert len(found("task=fine")) == 2
    assert len(found("task=fine&queue=slow")) == 1
    assert found("tag=b") == {paused["id"]}
    assert len(found("search=REPO")) == 1
    soon = (datetime.now(UTC) + timedelta(hours=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert len(found(f"due_before={soon}")) == 1
    assert found(f"due_after={soon}") == set()
    counts = api.get("/jobs/status-counts")
    assert picked(counts, "paused", "pending", "scheduled", "failed") == {
        "paused": 1, "pending": 1, "scheduled": 1, "failed": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    "question",
    ["limit=0", "limit=251", "limit=x", "offset=-1", "offset=99999999999999999999", "status=asleep", "sort=colour",
     "due_before=noon", "statsu=failed", "search=%00"],
)  # fmt: skip
def test_a_question_that_cannot_be_is_refused(api, question):
    assert api.refused("GET", f"/jobs?{question}")


@pytest.mark.parametrize(
    "path", ["/next?m=3", "/skips?limits=3", "/why?when=2026-01-01T00:00:00Z", "/executions?state=x"]
)
def test_a_misspelt_question_about_a_job_is_refused(api, path):
    job = api.make(task="fine", schedule="manual")
    name = path.partition("?")[2].partition("=")[0]
    assert f"{name} does not exist" in api.refused("GET", f"/jobs/{job['id']}{path}")
    assert "did you mean allow_unknown?" in api.refused("POST", "/jobs?alow_unknown=true", {"task": "fine"})


# -- editing


def test_an_edit_changes_what_it_says_and_nothing_else(api):
    job = api.make(**A_CRAWL, interval_minutes=30, metadata={"category": "news"})
    edited = api.put(f"/jobs/{job['id']}", {"max_retries": 5, "retry_backoff_seconds": 120})
    assert picked(edited, "max_retries", "retry_backoff_seconds", "version") == {
        "max_retries": 5, "retry_backoff_seconds": 120, "version": 2,
    }  # fmt: skip
    untouched = set(job) - {"max_retries", "retry_backoff_seconds", "backoff", "version", "updated_at"}
    assert picked(edited, *untouched) == picked(job, *untouched)
    assert api.told(200, "PATCH", f"/jobs/{job['id']}", json={"queue": "slow"})["queue"] == "slow"


def test_get_edit_put(api):
    job = api.make(**A_CRAWL, interval_minutes=30, key="k")
    assert api.put(f"/jobs/{job['id']}", job) == job
    edited = api.put(f"/jobs/{job['id']}", job | {"interval_minutes": 45, "name": "Named"})
    assert picked(edited, "schedule", "name", "version") == {
        "schedule": {"every": "45m"},
        "name": "Named",
        "version": 2,
    }
    edited = api.put(f"/jobs/{job['id']}", edited | {"schedule_time": "0 9 * * *"})
    assert edited["schedule"] == {"cron": "0 9 * * *", "timezone": "UTC"}
    edited = api.put(f"/jobs/{job['id']}", edited | {"timezone": "Europe/Paris"})
    assert edited["schedule"] == {"cron": "0 9 * * *", "timezone": "Europe/Paris"}
    edited = api.put(f"/jobs/{job['id']}", edited | {"schedule": {"every": "6h"}})
    assert picked(edited, "interval_minutes", "interval_type", "schedule_time") == {
        "interval_minutes": 6, "interval_type": "hours", "schedule_time": None,
    }  # fmt: skip
    edited = api.put(f"/jobs/{job['id']}", edited | {"url": "https://example.org"})
    assert edited["args"]["url"] == "https://example.org"
    edited = api.put(f"/jobs/{job['id']}", edited | {"key": None, "timeout": "1m"})
    assert picked(edited, "key", "timeout") == {"key": None, "timeout": "1m"}
    assert api.put(f"/jobs/{job['id']}", edited | {"timeout": None})["timeout"] is None


def test_the_zone_of_a_cron_schedule_can_be_said_beside_it(api):
    job = api.make(task="fine", schedule="0 9 * * *", timezone="Asia/Tokyo")
    assert job["schedule"] == {"cron": "0 9 * * *", "timezone": "Asia/Tokyo"}
    edited = api.put(f"/jobs/{job['id']}", {"timezone": "Europe/Paris", "name": "In Paris"})
    assert edited["schedule"] == {"cron": "0 9 * * *", "timezone": "Europe/Paris"}
    edited = api.put(f"/jobs/{job['id']}", {"schedule_time": "0 10 * * *"})
    assert edited["schedule"] == {"cron": "0 10 * * *", "timezone": "Europe/Paris"}


def test_an_interval_in_an_edit_is_minutes_unless_it_says_otherwise(api):
    job = api.make(task="fine", schedule="6h")
    assert api.put(f"/jobs/{job['id']}", {"interval_minutes": 45})["schedule"] == {"every": "45m"}
    assert api.put(f"/jobs/{job['id']}", {"interval_type": "hours"})["schedule"] == {"every": "45h"}


def test_switching_the_schedule_off_leaves_a_job_to_be_run_by_hand(api):
    job = api.make(task="fine", interval_minutes=5)
    off = api.put(f"/jobs/{job['id']}", {"schedule_enabled": False})
    assert picked(off, "schedule", "status", "next_run_at") == {
        "schedule": {"manual": True}, "status": "pending", "next_run_at": None,
    }  # fmt: skip
    assert "needs interval_minutes" in api.refused("PUT", f"/jobs/{job['id']}", {"schedule_enabled": True})
    on = api.put(f"/jobs/{job['id']}", {"schedule_enabled": True, "interval_minutes": 7})
    assert on["schedule"] == {"every": "7m"}


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"status": "paused"}, "status is read-only"),
        ({"id": NOBODY}, "id is read-only"),
        ({"is_paused": True}, "is_paused is read-only"),
        ({"next_run_at": "2030-01-01T00:00:00Z"}, "next_run_at is read-only"),
        ({"app": "other"}, "app is read-only"),
        ({"versoin": 1}, "did you mean version?"),
        ({"schedule": None}, "schedule cannot be null"),
        ({"interval_minutes": None}, "interval_minutes cannot be null"),
        ({"max_retries": None}, "max_retries cannot be null"),
        ({"schedule": {"every": "1h"}, "interval_minutes": 7}, "say different things"),
        ({"args": {"url": "https://a.example"}, "url": "https://b.example"}, "say different things"),
        ({"timezone": "Europe/Paris"}, "Only a cron schedule has a time zone"),
        ({"timezone": "Europe/Paris", "interval_minutes": 7}, "Only a cron schedule has a time zone"),
        ({"url": "nowhere"}, "http:// or https://"),
        ({"task": "crawl"}, "A crawl needs a url"),
        ({"priority": 0}, "priority"),
        ({"task": "fnie"}, "Did you mean 'fine'?"),
    ],
)
def test_an_edit_that_cannot_be_changes_nothing(api, body, sentence):
    job = api.make(task="fine", interval_minutes=5)
    assert sentence in api.refused("PUT", f"/jobs/{job['id']}", body)
    assert api.get(f"/jobs/{job['id']}") == job


def test_what_moves_by_itself_may_be_old_in_an_edit(api):
    job = api.make(task="fine", interval_minutes=5)
    old = job | {"counters": {}, "updated_at": "2020-01-01T00:00:00Z", "error_message": "x", "name": "New"}
    assert api.put(f"/jobs/{job['id']}", old)["name"] == "New"


def test_an_answer_may_be_sent_back_though_the_job_has_moved_since(api):
    job = api.make(task="fine", interval_minutes=5)
    api.post(f"/jobs/{job['id']}/pause")
    edited = api.put(f"/jobs/{job['id']}", job | {"name": "New"})
    assert picked(edited, "name", "status", "is_paused") == {
        "name": "New",
        "status": "paused",
        "is_paused": True,
    }
    assert "status is read-only" in api.refused("PUT", f"/jobs/{job['id']}", edited | {"status": "scheduled"})
    assert "id is read-only" in api.refused("PUT", f"/jobs/{job['id']}", job | {"version": 2, "id": NOBODY})


def test_a_stale_edit_is_412(api):
    job = api.make(task="fine", interval_minutes=5)
    path = f"/jobs/{job['id']}"
    api.put(path, {"name": "first"}, headers={"If-Match": '"1"'})
    assert api.put(path, {"name": "second"}, 412, headers={"If-Match": '"1"'})["detail"]
    assert api.put(path, job | {"name": "second"}, 412)["detail"]
    assert api.get(path)["name"] == "first"
    assert api.put(path, {"name": "third"}, headers={"If-Match": "*"})["version"] == 3
    assert api.put(path, {"name": "fourth"}, headers={"If-Match": 'W/"2", "3"'})["version"] == 4


# -- deleting, and nobody


def test_a_deleted_job_is_gone_from_every_answer(api):
    job = api.make(task="fine")
    (execution,) = api.get(f"/jobs/{job['id']}/executions")["executions"]
    assert "deleted" in api.told(200, "DELETE", f"/jobs/{job['id']}")["message"]
    for path in ("", "/executions", "/stats", "/next", "/skips", "/why"):
        assert api.refused("GET", f"/jobs/{job['id']}{path}", code=404)
    assert api.refused("DELETE", f"/jobs/{job['id']}", code=404)
    assert api.refused("GET", f"/executions/{execution['id']}", code=404)
    assert api.get("/jobs")["total"] == api.get("/executions")["total"] == 0


@pytest.mark.parametrize("ref", [NOBODY, "no-such-key", "%FF", "a" * 200])
def test_nobody_is_404(api, ref):
    for method, path in [("GET", ""), ("DELETE", ""), ("GET", "/executions"), ("GET", "/stats"), ("GET", "/next"),
                         ("GET", "/skips"), ("GET", "/why"), ("POST", "/pause"), ("POST", "/run")]:  # fmt: skip
        assert api.refused(method, f"/jobs/{ref}{path}", code=404), (method, path)
    assert api.refused("PUT", f"/jobs/{ref}", {}, code=404)


def test_roles(api, as_role):
    job = api.make(task="fine", schedule="1h")
    viewer, operator = as_role(Role.VIEWER), as_role(Role.OPERATOR)
    assert viewer.get("/jobs")["total"] == 1
    assert "needs the role operator" in viewer.refused("POST", f"/jobs/{job['id']}/pause", code=403)
    assert operator.post(f"/jobs/{job['id']}/pause")["status"] == "paused"
    for method, path, body in [("POST", "/jobs", {"task": "fine"}), ("PUT", f"/jobs/{job['id']}", {}),
                               ("DELETE", f"/jobs/{job['id']}", None)]:  # fmt: skip
        assert "needs the role admin" in operator.refused(method, path, body, code=403)
    bulk = {"action": "delete", "ids": [job["id"]]}
    assert "admin" in operator.refused("POST", "/jobs/bulk", bulk, code=403)
    assert api.post("/jobs/bulk", bulk)["succeeded"] == 1

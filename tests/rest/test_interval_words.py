"""A cron expression beside an interval, in the words of seed 003: the interval wins, the expression is kept."""

from datetime import timedelta

from tests.rest.test_jobs import A_CRAWL, instant, picked


def test_an_interval_wins_over_a_cron_expression(api):
    job = api.make(**A_CRAWL, interval_minutes=6, interval_type="hours", schedule_time="0 * * * *")
    assert picked(job, "interval_minutes", "interval_type", "schedule_time", "timezone") == {
        "interval_minutes": 6, "interval_type": "hours", "schedule_time": "0 * * * *", "timezone": "UTC",
    }  # fmt: skip
    assert instant(job["next_run_at"]) - instant(job["created_at"]) == timedelta(hours=6)
    assert api.make(**A_CRAWL, schedule_time="0 * * * *")["schedule"] == {
        "cron": "0 * * * *",
        "timezone": "UTC",
    }


def test_schedule_time_is_kept_beside_an_interval_for_a_rollback(api):
    job = api.make(**A_CRAWL, interval_minutes=45, schedule_time="0 9 * * *", timezone="Europe/Paris")
    path = f"/jobs/{job['id']}"
    edits = ({"schedule": "45m"}, {"interval_minutes": 30}, {"name": "Named"}, {"interval_type": "hours"})
    for edit in edits:
        job = api.put(path, edit)
        assert picked(job, "schedule_time", "timezone") == {
            "schedule_time": "0 9 * * *", "timezone": "Europe/Paris",
        }  # fmt: skip
    assert job["interval_minutes"] == 30
    assert api.put(path, job) == job
    back = api.put(path, job | {"interval_minutes": None, "interval_type": None})
    assert back["schedule"] == {"cron": "0 9 * * *", "timezone": "Europe/Paris"}
    assert back["interval_minutes"] is None


def test_an_interval_that_replaces_a_cron_expression_keeps_it(api):
    job = api.make(**A_CRAWL, schedule_time="0 * * * *")
    job = api.put(f"/jobs/{job['id']}", {"interval_minutes": 60})
    assert picked(job, "interval_minutes", "schedule_time") == {
        "interval_minutes": 60, "schedule_time": "0 * * * *",
    }  # fmt: skip
    copy = api.make(**{name: job[name] for name in ("url", "schedule", "interval_minutes", "schedule_time")})
    assert copy["schedule"] == job["schedule"]

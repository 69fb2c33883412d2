"""The backoff of short schedules at each door: bounded in our own words, the seeds' figures in theirs."""

from ostinato.core.lifecycle import backoff_of
from tests.build import HOUR, MINUTE, SECOND
from tests.rest.test_jobs import A_CRAWL


def waits(job):
    return job["backoff"]["base"], job["backoff"]["cap"]


def test_a_job_in_our_words_waits_at_most_its_period(api):
    job = api.make(task="fine", schedule="10s")
    assert waits(job) == ("10s", "10s")
    path = f"/jobs/{job['id']}"
    assert api.put(path, job) == job
    assert waits(api.put(path, {"schedule": "5m"})) == ("1m", "5m")  # it follows the schedule
    assert waits(api.put(path, {"schedule": "1d"})) == ("1m", "1h")
    assert waits(api.put(path, {"backoff": {"jitter": 0.1}, "schedule": "20s"})) == ("20s", "20s")
    assert waits(api.put(path, {"backoff": "1m"})) == ("1m", "1h")  # chosen
    assert waits(api.make(task="fine", schedule="10s", backoff="30s")) == ("30s", "1h")
    assert waits(api.make(task="fine", schedule="*/2 * * * *")) == ("1m", "2m")


def test_the_doors_of_the_seeds_keep_their_figures(api, app):
    job = api.make(**A_CRAWL, interval_minutes=1)
    assert (job["retry_backoff_seconds"], *waits(job)) == (60, "1m", "1h")
    assert waits(api.make(task="fine", interval_minutes=30)) == ("1m", "1h")


def test_declared_jobs_wait_at_most_their_period(app):
    @app.task
    def work() -> None: ...

    app.schedule(work, every="10s", key="short")
    app.schedule(work, every="10s", key="chosen", backoff="1m")
    app.schedule(work, every="10s", key="capped", backoff_cap="2m")
    app.schedule(work, cron="*/5 * * * *", key="cron")
    app.apply_declarations()
    found = {key: app.jobs.get(key) for key in ("short", "chosen", "capped", "cron")}
    told = {key: backoff_of(job.definition, job.facts) for key, job in found.items()}
    assert {key: (each.base, each.cap) for key, each in told.items()} == {
        "short": (10 * SECOND, 10 * SECOND),
        "chosen": (MINUTE, HOUR),
        "capped": (MINUTE, 2 * MINUTE),
        "cron": (MINUTE, 5 * MINUTE),
    }

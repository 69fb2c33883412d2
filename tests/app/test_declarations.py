"""Declared jobs: applied when an app starts to work, changed only when the declaration differs from the last one."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from ostinato import Ostinato, Window
from ostinato.core.errors import NotFound
from ostinato.core.model import Status
from ostinato.core.policy import Backoff, Policies
from ostinato.core.schedule import Cron, Every
from ostinato.service.declarations import fingerprint
from tests.app.conftest import NewApp, during


def work(region: str = "eu") -> str:
    return region


def declaring(new_app: NewApp, name: str = "shop", **options) -> Ostinato:
    app = new_app(name)
    app.task(**{"every": "1h"} | options)(work)
    return app


def test_nothing_is_made_by_import(new_app):
    app = declaring(new_app)
    assert [each.key for each in app.declared] == ["work"]
    assert app.jobs.list() == []


def test_a_declaration_is_created_once(new_app):
    app = declaring(new_app)
    assert app.apply_declarations().created == ("work",)
    job = app.jobs.get("work")
    assert (job.status, job.definition.schedule) == (Status.SCHEDULED, Every(timedelta(hours=1)))
    assert job.definition.policies.max_retries == 3, "a scheduled job is retried three times"
    again = declaring(new_app).apply_declarations()
    assert (again.created, again.changed, again.unchanged) == ((), (), ("work",))
    assert app.jobs.get("work") == job


def test_a_changed_schedule_starts_at_its_next_time_never_at_once(new_app):
    declaring(new_app).apply_declarations()
    app = declaring(new_app, every="2h", first_run="now")
    before = app.now()
    assert app.apply_declarations().changed == ("work",)
    job = app.jobs.get("work")
    assert job.next_run_at >= before + timedelta(hours=2)
    assert (job.facts.version, job.lives) == (2, ())


def test_the_events_say_that_a_declaration_asked(new_app):
    declaring(new_app).apply_declarations()
    app = declaring(new_app, priority=1)
    app.apply_declarations()
    newest = app.jobs.events("work")[0]
    assert (newest.kind, newest.by) == ("job.edited", "declaration")


def test_what_an_operator_paused_or_edited_stays(new_app):
    app = declaring(new_app)
    app.apply_declarations()
    app.jobs.pause("work", by="ops")
    app.jobs.edit("work", lambda d: replace(d, priority=9, schedule=Cron("0 3 * * *")), by="ops")
    assert declaring(new_app).apply_declarations().unchanged == ("work",)
    job = app.jobs.get("work")
    assert (job.status, job.definition.priority) == (Status.PAUSED, 9)
    assert job.definition.schedule == Cron("0 3 * * *")


def test_a_changed_declaration_wins_over_an_edit_but_not_over_a_pause(new_app):
    app = declaring(new_app)
    app.apply_declarations()
    app.jobs.edit("work", lambda d: replace(d, priority=9), by="ops")
    app.jobs.pause("work", by="ops")
    assert declaring(new_app, queue="prices").apply_declarations().changed == ("work",)
    job = app.jobs.get("work")
    assert (job.status, job.definition.priority, job.definition.queue) == (Status.PAUSED, 5, "prices")


def test_a_declaration_that_has_gone_is_reported_and_pruned_only_on_request(new_app):
    declaring(new_app).apply_declarations()
    other = new_app()
    assert other.apply_declarations().gone == ("work",)
    assert other.jobs.get("work").status is Status.SCHEDULED
    assert other.apply_declarations(prune=True).gone == ("work",)
    with pytest.raises(NotFound, match="There is no job with the key 'work' in the app 'shop'"):
        other.jobs.get("work")
    assert other.apply_declarations().gone == ()


def test_a_job_that_has_ended_stays_ended_until_its_declaration_changes(new_app):
    past = datetime(2020, 1, 1, tzinfo=UTC)
    app = declaring(new_app, end_at=past)
    app.apply_declarations()
    first = app.jobs.get("work")
    assert first.status is Status.COMPLETED
    assert declaring(new_app, end_at=past).apply_declarations().unchanged == ("work",)
    assert app.jobs.get("work").status is Status.COMPLETED
    assert declaring(new_app).apply_declarations().changed == ("work",)
    job = app.jobs.get("work")
    assert (job.id, job.status) == (first.id, Status.SCHEDULED)
    assert declaring(new_app).apply_declarations().unchanged == ("work",)


def test_a_process_that_died_half_way_through_is_finished_by_the_next(new_app, monkeypatch):
    past = datetime(2020, 1, 1, tzinfo=UTC)
    declaring(new_app, end_at=past).apply_declarations()
    app = declaring(new_app)
    with monkeypatch.context() as dying:
        dying.setattr(app.jobs, "restart", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            app.apply_declarations()
    assert declaring(new_app).apply_declarations().changed == ("work",)
    assert app.jobs.get("work").status is Status.SCHEDULED


def test_a_job_that_was_cancelled_stays_so(new_app):
    app = declaring(new_app)
    app.apply_declarations()
    app.jobs.cancel("work", by="ops")
    assert declaring(new_app, every="2h").apply_declarations().unchanged == ("work",)
    assert app.jobs.get("work").status is Status.CANCELLED


def test_two_apps_with_the_same_task_name_do_not_collide(new_app):
    shop, bank = declaring(new_app, "shop"), declaring(new_app, "bank", every="2h")
    assert shop.apply_declarations().created == ("work",)
    assert bank.apply_declarations().created == ("work",)
    assert shop.jobs.get("work").definition.schedule == Every(timedelta(hours=1))
    assert bank.jobs.get("work").definition.schedule == Every(timedelta(hours=2))
    assert [job.definition.app for job in shop.jobs.list()] == ["shop"]
    assert shop.apply_declarations().gone == ()


def test_a_job_that_holds_the_key_already_is_taken_over(new_app):
    app = declaring(new_app, key="nightly")
    held = app.registry.get("work").using(key="nightly").enqueue_in("1h", region="us")
    applied = app.apply_declarations()
    assert (applied.created, applied.changed) == ((), ("nightly",))
    job = app.jobs.get("nightly")
    assert (job.id, job.definition.schedule) == (held.id, Every(timedelta(hours=1)))
    assert app.apply_declarations().unchanged == ("nightly",)


def test_one_task_on_several_schedules_is_several_jobs(new_app):
    app = declaring(new_app)
    task = app.registry.get("work")
    app.schedule(task.bind(region="us"), cron="0 9 * * mon-fri", timezone="Europe/Paris", key="prices-us")
    app.schedule(task, key="by-hand")
    assert app.apply_declarations().created == ("work", "prices-us", "by-hand")
    job = app.jobs.get("prices-us")
    assert job.definition.schedule == Cron("0 9 * * mon-fri", "Europe/Paris")
    assert job.args == {"region": "us"}
    assert app.jobs.get("by-hand").status is Status.PENDING


def test_two_declarations_with_one_key_are_refused(new_app):
    app = declaring(new_app)
    with pytest.raises(ValueError, match="Two jobs of this app have the key 'work'"):
        app.schedule(app.registry.get("work"), every="2h")


def test_a_cron_without_a_zone_has_that_of_the_app(new_app):
    app = new_app(timezone="Asia/Tokyo")
    app.task(cron="0 9 * * *")(work)
    assert app.declared[0].schedule == Cron("0 9 * * *", "Asia/Tokyo")


def test_a_declared_job_runs(new_app):
    app, ran = new_app(), asyncio.Event()

    @app.task(every="1h", first_run="now")
    def tick(region: str = "eu") -> str:
        return region

    async def body():
        loop = asyncio.get_running_loop()
        app.on("job:complete")(lambda event: loop.call_soon_threadsafe(ran.set))
        if not app.jobs.get("tick").facts.completed:
            await ran.wait()
        (execution,) = app.executions.list(job="tick")
        assert (execution.status, execution.result) == ("completed", "eu")

    during(app, body)


# -- the hash of a declaration


@pytest.fixture
def plain():
    app = Ostinato("shop")
    app.task(every="1h")(work)
    return app.declared[0]


@pytest.mark.parametrize(
    "change",
    [
        {"args": '{"region":"us"}'}, {"queue": "other"}, {"priority": 1}, {"tags": ("a",)}, {"name": "Work"},
        {"schedule": Every(timedelta(hours=2))}, {"metadata": '{"a":1}'}, {"owner": "ops"},
        {"policies": Policies(max_retries=2)}, {"policies": Policies(backoff=Backoff(factor=3))},
        {"policies": Policies(timeout=timedelta(minutes=1))},
        {"policies": Policies(window=Window.from_json({"from": "09:00", "to": "17:00"}))},
    ],
    ids=str,
)  # fmt: skip
def test_whatever_a_declaration_says_is_in_its_hash(plain, change):
    assert fingerprint(replace(plain, **change)) != fingerprint(plain)


def test_what_it_does_not_say_is_not(plain):
    """A version of Ostinato with more policies must not take every declaration for a changed one."""
    assert fingerprint(replace(plain, declared="other")) == "aff17b574e2aa54c2d4939660b905570"

"""A declared job that was deleted stays deleted until its declaration changes, or until it is asked for."""

from datetime import timedelta

import pytest

from ostinato import Ostinato
from ostinato.app.starting import banner
from ostinato.core.errors import Conflict, NotFound
from ostinato.core.model import DeclinedJob, Status
from ostinato.features.sources.service import SourceService
from ostinato.features.workflows.rows import Workflows
from ostinato.features.workflows.service import WorkflowService
from ostinato.service.declarations import fingerprint
from tests.app.test_declarations import declaring, work
from tests.sources import a_source

SEVENTEEN = 17


@pytest.fixture
def deleted(new_app) -> Ostinato:
    """An app whose one declared job an operator has deleted."""
    app = declaring(new_app)
    app.apply_declarations()
    app.jobs.delete("work", by="ops")
    return app


def test_seventeen_deleted_jobs_stay_deleted_at_every_start(new_app):
    def shop() -> Ostinato:
        app = new_app()
        task = app.task(work)
        for number in range(SEVENTEEN + 1):
            app.schedule(task, every="1h", key=f"job-{number}")
        return app

    app = shop()
    assert len(app.apply_declarations().created) == SEVENTEEN + 1
    for number in range(SEVENTEEN):
        app.jobs.delete(f"job-{number}", by="ops")
    for _ in range(3):
        applied = shop().apply_declarations()
        assert (applied.created, applied.unchanged) == ((), (f"job-{SEVENTEEN}",))
        assert applied.declined == tuple(f"job-{number}" for number in range(SEVENTEEN))
    assert [job.key for job in app.jobs.list()] == [f"job-{SEVENTEEN}"]


def test_it_comes_back_when_its_declaration_changes_and_only_then(deleted, new_app):
    assert declaring(new_app).apply_declarations().declined == ("work",)
    assert declaring(new_app, every="2h").apply_declarations().created == ("work",)
    assert deleted.jobs.get("work").status is Status.SCHEDULED
    assert deleted.scheduler.declarations.declined() == []


def test_it_comes_back_when_it_is_asked_for(deleted, new_app):
    row = deleted.scheduler.declarations.redeclare("work", by="ops")
    assert (row.app, row.key, row.by) == ("shop", "work", "ops")
    assert declaring(new_app).apply_declarations().created == ("work",)
    newest = deleted.scheduler.events(None, ["job.redeclared"], 1)[0]
    assert (newest.by, newest.data) == ("ops", '{"app": "shop", "key": "work"}')


def test_a_job_made_by_hand_under_its_key_ends_it(deleted, new_app):
    made = deleted.registry.get("work").using(key="work").enqueue_in("1h", region="us")
    assert deleted.scheduler.declarations.declined() == []
    applied = declaring(new_app).apply_declarations()
    assert (applied.changed, applied.declined) == (("work",), ())
    assert deleted.jobs.get("work").id == made.id


def test_an_older_job_of_the_same_key_does_not_bring_it_back(new_app):
    app = declaring(new_app)
    app.registry.get("work").using(key="work").enqueue_in("1h").cancel()
    assert app.apply_declarations().created == ("work",)
    app.jobs.delete("work", by="ops")
    assert declaring(new_app).apply_declarations().declined == ("work",)


def test_pruning_declines_nothing(new_app):
    declaring(new_app).apply_declarations()
    new_app().apply_declarations(prune=True)
    assert declaring(new_app).apply_declarations().created == ("work",)


def test_deleting_a_job_that_no_code_declares_declines_nothing(new_app):
    app = declaring(new_app)
    app.registry.get("work").using(key="work").enqueue_in("1h")
    app.jobs.delete("work", by="ops")
    assert app.scheduler.declarations.declined() == []


def test_the_record_names_the_app_the_key_the_declaration_and_the_caller(deleted):
    (row,) = deleted.scheduler.declarations.declined()
    said = fingerprint(deleted.declared[0])
    assert row == DeclinedJob("shop", "work", said, row.at, "ops")
    assert deleted.now() - row.at < timedelta(minutes=1)


def test_it_is_written_with_the_delete_or_not_at_all(new_app, monkeypatch):
    app = declaring(new_app)
    app.apply_declarations()
    monkeypatch.setattr("ostinato.store.jobs.decline", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        app.jobs.delete("work", by="ops")
    assert app.jobs.get("work").status is Status.SCHEDULED


def test_apps_decline_for_themselves(new_app):
    for name in ("shop", "bank"):
        declaring(new_app, name).apply_declarations()
    app = declaring(new_app, "shop")
    app.jobs.delete("work", by="ops")
    assert declaring(new_app, "bank").apply_declarations().unchanged == ("work",)
    operator = new_app("").scheduler.declarations
    assert operator.redeclare("work").app == "shop", "only one app has it"


def test_a_key_that_several_apps_have_deleted_needs_the_app(new_app):
    for name in ("shop", "bank"):
        app = declaring(new_app, name)
        app.apply_declarations()
        app.jobs.delete("work", by="ops")
    operator = new_app("").scheduler.declarations
    with pytest.raises(Conflict, match="The apps bank, shop each have deleted 'work': say which app"):
        operator.redeclare("work")
    assert operator.redeclare("work", app="bank").app == "bank"
    with pytest.raises(NotFound, match="'work' of the app 'bank' is not among the declared jobs"):
        operator.redeclare("work", app="bank")


def test_a_new_job_that_follows_a_deleted_one_waits_for_it(deleted, new_app):
    def following() -> Ostinato:
        app = declaring(new_app)
        app.schedule(app.registry.get("work"), after="work", key="then")
        return app

    applied = following().apply_declarations()
    assert (applied.created, applied.declined, applied.blocked) == ((), ("work",), ("then",))
    assert any("then" in line and "runs after a deleted job" in line for line in banner(following(), applied, True))
    deleted.scheduler.declarations.redeclare("work")
    assert following().apply_declarations().created == ("work", "then")


def test_the_banner_says_what_stays_deleted_and_how_to_bring_it_back(deleted, new_app):
    app = declaring(new_app)
    said = "\n".join(banner(app, app.apply_declarations(), True))
    assert "  work was deleted and stays deleted. To bring it back: ostinato job redeclare work" in said


def test_a_source_that_was_deleted_stays_deleted(new_app):
    def shop() -> Ostinato:
        app = new_app()
        app.source(a_source())
        return app

    app = shop()
    assert len(app.apply_declarations().created) == 1
    app.scheduler.part(SourceService).delete("us_gdp", by="ops")
    assert shop().apply_declarations().declined == (app.declared[0].key,)


# -- processes that declare at once


def test_a_job_deleted_between_the_look_and_the_change_is_settled(new_app, monkeypatch):
    declaring(new_app).apply_declarations()
    app = declaring(new_app, every="2h")
    looked = app.parts.store.jobs.declared

    def then_deleted(name):
        found = looked(name)
        if found:
            monkeypatch.undo()
            app.jobs.delete("work", by="ops")
        return found

    monkeypatch.setattr(app.parts.store.jobs, "declared", then_deleted)
    assert app.apply_declarations().created == ("work",), "its declaration has changed"


def test_two_processes_that_declare_one_new_workflow_agree(new_app, monkeypatch):
    def drawing() -> Ostinato:
        app = new_app()
        task = app.task(work)
        app.workflow(name="report")(lambda flow: flow.step(task))
        return app

    app, other = drawing(), drawing()
    looked = app.parts.store.part(Workflows).get

    def then_made(name):
        found = looked(name)
        if found is None:
            monkeypatch.undo()
            other.apply_declarations()
        return found

    monkeypatch.setattr(app.parts.store.part(Workflows), "get", then_made)
    app.apply_declarations()
    assert [view.name for view in app.scheduler.part(WorkflowService).list()] == ["report"]


def test_what_does_not_settle_is_raised_in_the_end(new_app):
    app = new_app()
    app.schedule(app.task(work), after="nothing", key="then")
    with pytest.raises(NotFound, match="after: There is no job with the key 'nothing'"):
        app.apply_declarations()

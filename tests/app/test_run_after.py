"""`after=`: declared in Python, created over HTTP, edited; cycles are refused."""

import pytest

from ostinato import Invalid, NotFound
from tests.app.conftest import during
from tests.rest.conftest import Client
from tests.waiting import until


def test_a_declared_job_runs_when_the_other_has_completed(app):
    ran = []

    @app.task(every="1h")
    def first():
        ran.append("first")

    @app.task(after="first")
    def second():
        ran.append("second")

    async def until_both():
        app.jobs.run("first")
        await until(lambda: len(ran) >= 2)

    during(app, until_both)
    assert ran == ["first", "second"]
    view = app.jobs.get("second")
    assert (view.definition.policies.after, view.definition.key) == ("first", "second")


def test_who_follows_whom_is_checked(app):
    app.register("work", lambda: None)
    api = Client(app)
    one = api.post("/jobs", {"task": "work", "key": "one", "schedule": {"manual": True}}, 201)
    two = api.post("/jobs", {"task": "work", "key": "two", "after": "one"}, 201)
    assert (two["after"], two["schedule"], two["status"]) == ("one", {"manual": True}, "pending")
    assert "after: There is no job" in api.refused("POST", "/jobs", {"task": "work", "after": "nobody"}, 404)
    assert "neither would ever begin" in api.refused("PUT", "/jobs/one", {"after": "two"})
    assert "neither would ever begin" in api.refused("PUT", "/jobs/one", {"after": one["id"]})
    assert api.put("/jobs/two", {"after": None})["after"] is None
    assert api.put("/jobs/one", {"after": "two"})["after"] == "two"


def test_a_circle_of_declarations_is_refused(app):
    app.register("work", lambda: None)
    app.schedule(app.call("work"), key="a", after="b")
    app.schedule(app.call("work"), key="b", after="a")
    with pytest.raises(Invalid, match="after each other"):
        app.apply_declarations()


def test_a_declaration_after_nobody_is_refused(app):
    app.register("work", lambda: None)
    app.schedule(app.call("work"), key="a", after="nobody")
    with pytest.raises(NotFound, match="after"):
        app.apply_declarations()

"""The form of a job: create, edit with a diff, errors beside their fields, and no typed value is lost."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import Any, Literal

import pytest

from ostinato import Ostinato
from ostinato.core.access import Role
from ostinato.core.model import Definition
from ostinato.core.payload import encode
from ostinato.core.policy import UNNAMED, Policies
from ostinato.core.schedule import Cron, Every, Manual
from tests.dashboard.conftest import Visitor

NEW = "/jobs/new"
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"


@pytest.fixture
def visitor(sqlite_url: str) -> Iterator[Visitor]:
    """A visitor on SQLite only: forms do not depend on the database, and the service is tested on both."""
    app = Ostinato("shop", database_url=sqlite_url)
    app.open(upgrade=True)

    @app.task
    def greet(name: str, times: int = 1, loud: bool = False, share: float = 0.5, how: Literal["a", "b"] = "a") -> None:
        """Say hello.

        More about it.
        """

    @app.task
    def anything(payload) -> None: ...

    @app.task
    def open_ended(first: str, **others: Any) -> None: ...

    yield Visitor(app)
    app.close()


def the_job(visitor: Visitor, answer: Any) -> Any:
    return visitor.app.jobs.get(answer.headers["location"].removeprefix("/jobs/"))


def make(visitor: Visitor, **fields: Any) -> Any:
    given = {"task": "greet", "arg:name": "Ann", "do": "save"} | fields
    return the_job(visitor, visitor.send(NEW, on=NEW, **given))


def refused(visitor: Visitor, code: int = 422, path: str = NEW, **fields: Any) -> str:
    given = {"task": "greet", "arg:name": "Ann", "do": "save"} | fields
    return unescape(visitor.send(path, code, on=NEW, **given).text)


def beside(page: str, field: str) -> str:
    """Return the error beside a field."""
    found = re.search(rf'<p class="trouble small" id="w-{re.escape(field)}">(.*?)</p>', page, re.DOTALL)
    assert found, f"nothing beside {field}"
    return found[1]


def value_in(page: str, field: str) -> str:
    """Return the text of a line of the form."""
    found = re.search(rf'<input id="f-{re.escape(field)}" [^>]*? value="([^"]*)"', page)
    assert found, f"no line {field}"
    return unescape(found[1])


def shown(visitor: Visitor, path: str) -> dict[str, str]:
    """Return all fields of a page as a browser would send them unchanged."""
    page = visitor.see(path)
    texts = {
        name: unescape(text) for name, text in re.findall(r'<input id="[^"]*" name="([^"]*)".*? value="([^"]*)"', page)
    }
    texts |= {
        name: unescape(text) for name, text in re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)"', page)
    }
    areas = re.findall(r'<textarea id="[^"]*" name="([^"]*)"[^>]*>\n(.*?)</textarea>', page, re.DOTALL)
    texts |= {name: unescape(text) for name, text in areas}
    for name, options in re.findall(r'<select id="[^"]*" name="([^"]*)".*?>(.*?)</select>', page, re.DOTALL):
        chosen = re.search(r'<option value="([^"]*)" selected>', options) or re.search(
            r'<option value="([^"]*)">', options
        )
        texts[name] = unescape(chosen[1])
    return texts


# -- new


def test_what_was_left_empty_keeps_its_default(visitor):
    view = make(visitor, schedule="30m")
    assert view.definition.schedule == Every.of("30m")
    assert view.definition.policies == Policies(backoff=UNNAMED)
    assert view.args == {"name": "Ann"}


def test_a_job_that_runs_once_is_not_retried_unless_it_is_said(visitor):
    assert make(visitor).definition.policies.max_retries == 0
    assert make(visitor, max_retries="2").definition.policies.max_retries == 2


def test_every_policy_can_be_said(visitor):
    said = {
        "name": "Greeter", "description": "two\nlines", "key": "k", "tags": "a, b", "owner": "ann", "queue": "mail",
        "priority": "2", "metadata": '{"a": 1}', "schedule": "0 9 * * mon-fri", "timezone": "Europe/Paris",
        "first_run": "now", "start_at": "2026-01-01T00:00:00Z", "end_at": "2036-01-01T00:00:00Z", "fixed_delay": "true",
        "total_repeats": "7", "jitter": "5s", "window.days": "mon-fri", "window.from": "08:00", "window.to": "18:00",
        "window.timezone": "Europe/Paris", "catch_up": "all", "late_after": "2m", "catch_up_limit": "9",
        "catch_up_within": "1d", "overlap": "allow", "max_overlap": "3", "max_retries": "5", "backoff.kind": "steps",
        "backoff.base": "10s", "backoff.cap": "2h", "backoff.factor": "3", "backoff.steps": "1m, 5m",
        "backoff.jitter": "0.5", "backoff.never_retry": "ValueError, KeyError", "retry_reset_period": "1d",
        "when_exhausted": "wait_reset", "on_lost": "fail", "timeout": "10m", "keep_executions": "5", "keep_days": "3",
        "max_concurrency": "2", "concurrency_key": "x", "rate_limit": "10/m", "cpu_limit": "1m",
        "memory_limit_mb": "100", "open_files_limit": "50", "output_limit_mb": "10",
    }  # fmt: skip
    view = make(visitor, **said)
    answer = visitor.ask(f"/api/v1/jobs/{view.id}").json()
    assert answer["tags"] == ["a", "b"]
    assert answer["description"] == "two\nlines"
    assert answer["window"]["from"] == "08:00"
    assert answer["backoff"]["steps"] == ["1m", "5m"]
    assert answer["backoff"]["never_retry"] == ["ValueError", "KeyError"]
    assert view.definition.schedule == Cron("0 9 * * mon-fri", "Europe/Paris")
    same = {name: value for name, value in answer.items() if name in said and isinstance(value, str | int)}
    assert {name: str(value).lower() for name, value in same.items()} == {name: said[name].lower() for name in same}
    again = shown(visitor, f"/jobs/{view.id}/edit")
    page = visitor.send(f"/jobs/{view.id}/edit", 200, on=NEW, **again, do="review").text
    assert "No changes" in page


def test_the_arguments_of_a_task_have_fields_of_their_own_and_types(visitor):
    page = visitor.see(f"{NEW}?task=greet")
    assert "Say hello." in page
    for name in ("name", "times", "loud", "share", "how"):
        assert f'name="arg:{name}"' in page
    view = make(visitor, **{"arg:times": "3", "arg:loud": "true", "arg:share": "0.25", "arg:how": "b"})
    assert view.args == {"name": "Ann", "times": 3, "loud": True, "share": 0.25, "how": "b"}


def test_a_missing_or_wrong_argument_is_told_beside_it(visitor):
    page = refused(visitor, **{"arg:name": "", "arg:times": "many"})
    assert "It is required" in beside(page, "arg:name")
    assert "whole number, not 'many'" in beside(page, "arg:times")
    assert value_in(page, "arg:times") == "many"


def test_tasks_that_take_anything_are_told_in_json(visitor):
    assert make(visitor, task="anything", args='{"a": [1]}').args == {"a": [1]}
    view = make(visitor, task="open_ended", **{"arg:first": "x"}, args='{"b": null}')
    assert view.args == {"first": "x", "b": None}
    assert "not JSON: Expecting value in line 1, column 7" in beside(refused(visitor, args='{"a": }'), "args")
    assert "set it once" in beside(refused(visitor, args='{"name": "Bob"}'), "arg:name")
    assert "takes no b; it takes name" in beside(refused(visitor, args='{"b": 1}'), "args")


def test_built_in_tasks_have_fields_too_and_are_refused_where_they_are_wrong(visitor):
    page = visitor.see("/jobs/arguments?task=http")
    assert "URL to call" in page
    assert '<option value="POST">' in page
    view = make(visitor, task="http", **{"arg:url": "https://example.org/", "arg:method": "POST", "arg:body": "a\nb"})
    assert view.args == {"url": "https://example.org/", "method": "POST", "body": "a\nb"}
    page = refused(visitor, task="http", **{"arg:url": "https://example.org/", "arg:timeout": "never"})
    assert "cannot be read" in beside(page, "arg:timeout")
    assert "private" in beside(refused(visitor, task="http", **{"arg:url": "http://127.0.0.1/"}), "arg:url")
    assert "OSTINATO_ALLOW_COMMANDS" in visitor.see("/jobs/arguments?task=command")


@pytest.mark.parametrize(
    ("field", "text", "told"),
    [
        ("schedule", "61 * * * *", "61"),
        ("schedule", "soon", "is not a schedule"),
        ("max_retries", "many", "valid integer, not \"many\""),
        ("priority", "11", "less than or equal to 10"),
        ("timeout", "long", "long"),
        ("start_at", "2026-01-01", "no time zone"),
        ("window.from", "9 o'clock", "not a time of day"),
        ("backoff.base", "x", "x"),
        ("backoff.steps", "1m, x", "x"),
        ("queue", "no good", "queue name"),
        ("metadata", "[]", "JSON object"),
        ("when_exhausted", "wait_reset", "retry_reset_period"),
        ("task", "gret", "Did you mean 'greet'?"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_beside_its_field_and_nothing_typed_is_lost(visitor, field, text, told):
    extra = {"window.to": "17:00"} if field.startswith("window") else {}
    page = refused(visitor, **{"owner": "somebody", "schedule": "30m", field: text, **extra})
    place = "window.days" if field == "window.from" else field
    assert told in beside(page, place)
    assert value_in(page, "owner") == "somebody"
    assert text in page
    assert visitor.ask("/api/v1/jobs").json()["total"] == 0


def test_a_task_that_nobody_knows_may_be_insisted_on(visitor):
    page = refused(visitor, task="later", **{"arg:name": ""})
    assert 'name="allow_unknown"' in page
    assert make(visitor, task="later", allow_unknown="1", args='{"a": 1}').args == {"a": 1}


def test_a_key_that_is_taken_leads_to_the_job_that_has_it(visitor):
    first = make(visitor, key="k", schedule="1h")
    assert make(visitor, key="k", schedule="2h").id == first.id


def test_a_zone_does_not_keep_an_interval_from_being_one(visitor):
    assert make(visitor, schedule="30m", timezone="Europe/Paris").definition.schedule == Every.of("30m")


def test_a_new_job_can_begin_like_another(visitor):
    view = make(visitor, key="k", schedule="0 9 * * *", timezone="Asia/Tokyo", **{"arg:times": "2"})
    page = visitor.see(f"{NEW}?like={view.id}")
    assert value_in(page, "schedule") == "0 9 * * *"
    assert value_in(page, "timezone") == "Asia/Tokyo"
    assert value_in(page, "arg:times") == "2"
    assert value_in(page, "key") == ""


# -- during typing


def test_the_schedule_is_previewed_in_words_and_times_or_told_what_is_wrong_with_it(visitor):
    found = visitor.see("/jobs/preview?schedule=0+9+*+*+mon-fri&timezone=Europe/Paris")
    assert "At 09:00 on weekdays, Europe/Paris" in found
    assert found.count("<li>") == 5
    assert "09:00:00 Europe/Paris" in found
    assert "is not a schedule" in unescape(visitor.see("/jobs/preview?schedule=soon"))
    assert "Once, as soon as it is saved" in visitor.see("/jobs/preview?schedule=")
    assert "<html" not in found
    assert "Unknown" in (wrong := visitor.see("/jobs/preview?schedule=@daily&timezone=Mars/Base")) or "Mars" in wrong


def test_without_scripts_buttons_show_the_preview_and_the_arguments(visitor):
    page = unescape(visitor.send(NEW, 200, on=NEW, task="greet", schedule="@hourly", owner="me", do="preview").text)
    assert "At minute 0 of every hour" in page
    assert 'name="arg:times"' in page
    assert value_in(page, "owner") == "me"
    assert visitor.ask("/api/v1/jobs").json()["total"] == 0


# -- edit


def review(visitor: Visitor, view: Any, code: int = 200, **changed: Any) -> tuple[str, dict[str, str]]:
    texts = shown(visitor, f"/jobs/{view.id}/edit") | changed
    page = visitor.send(f"/jobs/{view.id}/edit", code, on=NEW, **texts | {"do": "review"}).text
    again = re.search(r'name="reviewed" value="([^"]*)"', page)
    version = re.search(r'name="version" value="([^"]*)"', page)[1]
    return unescape(page), texts | {"reviewed": again[1] if again else "", "version": version}


def test_an_edit_is_shown_before_it_is_saved(visitor):
    view = make(visitor, schedule="30m", tags="a", **{"arg:times": "2"})
    page, texts = review(visitor, view, schedule="0 9 * * *", max_retries="5", tags="a, b", **{"arg:times": "3"})
    for name, before, after in [
        ("schedule", "every: 30m", "cron: 0 9 * * *, timezone: UTC"),
        ("backoff.cap", "30m", "1h"),  # at most the period
        ("max_retries", "3", "5"),
        ("tags", "a", "a, b"),
        ("args.times", "2", "3"),
    ]:
        assert re.search(rf"<code>{name}</code>.*?<del>{re.escape(before)}</del>.*?<ins>{re.escape(after)}</ins>", page)
    assert page.count("<ins>") == 5
    assert visitor.app.jobs.get(view.id).facts.version == view.facts.version
    visitor.send(f"/jobs/{view.id}/edit", on=NEW, **texts, do="save")
    saved = visitor.app.jobs.get(view.id)
    assert saved.definition.schedule == Cron("0 9 * * *")
    assert saved.args == {"name": "Ann", "times": 3}
    assert saved.definition.policies.max_retries == 5


def test_what_was_not_looked_at_is_not_saved(visitor):
    view = make(visitor, schedule="30m")
    _, texts = review(visitor, view, max_retries="5")
    page = visitor.send(f"/jobs/{view.id}/edit", 200, on=NEW, **texts | {"max_retries": "6", "do": "save"}).text
    assert "<ins>6</ins>" in page
    assert visitor.app.jobs.get(view.id).definition.policies.max_retries == 3


def test_an_edit_of_a_job_that_somebody_else_has_changed_is_told_and_kept(visitor):
    view = make(visitor, schedule="30m")
    _, texts = review(visitor, view, max_retries="5")
    visitor.ask(f"/api/v1/jobs/{view.id}", "PATCH", json={"priority": 1})
    answer = visitor.send(f"/jobs/{view.id}/edit", 412, on=NEW, **texts | {"do": "save"})
    page = unescape(answer.text)
    assert "This job was changed during your edit" in page
    assert "<ins>5</ins>" in page
    assert value_in(page, "max_retries") == "5"
    assert visitor.app.jobs.get(view.id).definition.policies.max_retries == 3


def test_fields_can_be_emptied(visitor):
    view = make(
        visitor,
        schedule="30m",
        name="n",
        tags="a",
        timeout="5m",
        key="k",
        **{"window.from": "1:00", "window.to": "2:00"} | {"window.from": "01:00", "window.to": "02:00"},
    )
    empty = dict.fromkeys(
        ("name", "tags", "timeout", "key", "window.days", "window.from", "window.to", "window.timezone"), ""
    )
    _, texts = review(visitor, view, **empty)
    visitor.send(f"/jobs/{view.id}/edit", on=NEW, **texts, do="save")
    saved = visitor.app.jobs.get(view.id).definition
    assert (saved.name, saved.tags, saved.policies.timeout, saved.key, saved.policies.window) == (
        "",
        (),
        None,
        None,
        None,
    )


def test_what_cannot_be_empty_says_so(visitor):
    view = make(visitor, schedule="30m")
    page, _ = review(visitor, view, 422, max_retries="", queue="")
    assert "cannot be null" in page


def test_a_schedule_can_become_manual(visitor):
    view = make(visitor, schedule="0 9 * * *", timezone="Asia/Tokyo")
    _, texts = review(visitor, view, schedule="manual")
    visitor.send(f"/jobs/{view.id}/edit", on=NEW, **texts, do="save")
    assert visitor.app.jobs.get(view.id).definition.schedule == Manual()


def test_values_that_a_field_could_not_give_back_stay_json(visitor):
    args = encode({"name": 5, "times": 2, "loud": None, "strange": "x"})  # older than the task
    (made,) = visitor.app.jobs.create([Definition("greet", Every.of("1h"), args)])
    page = visitor.see(f"/jobs/{made}/edit")
    assert value_in(page, "arg:times") == "2"
    texts = shown(visitor, f"/jobs/{made}/edit")
    assert "strange" in texts["args"]
    answer = visitor.send(f"/jobs/{made}/edit", 200, on=NEW, **texts | {"do": "review"}).text
    assert "No changes" in answer


# -- safety


def test_whatever_a_job_says_is_text_in_its_form(visitor):
    body = {
        "task": "open_ended", "args": {"first": HOSTILE, HOSTILE: HOSTILE}, "name": HOSTILE,
        "description": f"{HOSTILE}\n", "owner": HOSTILE, "tags": [HOSTILE], "metadata": {HOSTILE: HOSTILE},
        "schedule": "1h", "key": HOSTILE, "concurrency_key": "<b>", "max_concurrency": 1,
    }  # fmt: skip
    made = visitor.ask("/api/v1/jobs", "POST", json=body).json()
    page = visitor.see(f"/jobs/{made['id']}/edit")
    assert "<script>alert" not in page
    assert "<img" not in page
    assert (
        re.search(r"<style|style=|<script(?! src=)|\son[a-z]+=[^&]|javascript:", page.replace("onerror=alert", ""))
        is None
    )
    texts = shown(visitor, f"/jobs/{made['id']}/edit")
    answer = visitor.send(f"/jobs/{made['id']}/edit", 200, on=NEW, **texts | {"do": "review"}).text
    assert "No changes" in answer


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR])
def test_only_an_admin_makes_and_edits_jobs(stranger, role):
    stranger.log_in(role)
    assert "needs the role admin" in stranger.see(NEW, 403)
    answer = stranger.ask(NEW, "POST", data={"form_token": stranger.token("/"), "task": "x", "do": "save"})
    assert answer.status_code == 403


def test_what_operators_may_set_is_typed_shown_and_taken_back(visitor):
    job = make(visitor, run_args="name, times")
    assert job.definition.policies.run_args == ("name", "times")
    page = visitor.see(f"/jobs/{job.id}")
    assert re.search(r"Operators may set.*?name, times", page, re.DOTALL)
    assert 'value="name, times"' in visitor.see(f"/jobs/{job.id}/edit")
    url = {"task": "http", "arg:url": "https://example.org", "schedule": "manual"}
    assert "run_args cannot name url" in refused(visitor, run_args="url", **url)


def test_a_secret_that_is_not_granted_here_is_told_when_the_job_is_made(visitor):
    auth = '{"type": "bearer", "token": "env:PARTNER_TOKEN"}'
    fields = {
        "task": "http",
        "arg:url": "https://example.org",
        "arg:auth": auth,
        "schedule": "manual",
        "do": "save",
    }
    answer = visitor.send(NEW, on=NEW, **fields)
    assert "Add env:PARTNER_TOKEN to OSTINATO_SECRETS" in visitor.follow(answer)

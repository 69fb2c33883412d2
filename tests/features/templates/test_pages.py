"""Job templates in the dashboard: the list, and the form that creates a job."""

from __future__ import annotations

import re
from html import unescape

from ostinato.core.access import Role
from ostinato.features.templates.service import TemplateService


def fill(visitor, code=303, **fields):
    return visitor.send("/templates/ping/jobs", code, on="/templates/ping", **fields)


def save(visitor):
    visitor.app.scheduler.part(TemplateService).save(
        {
            "name": "ping",
            "description": "Call <b>it</b>.",
            "parameters": [
                {"name": "url", "type": "url", "description": "Whom to call."},
                {"name": "times", "type": "integer", "default": 3},
            ],
            "job": {
                "task": "http",
                "args": {"url": "{{ params.url }}"},
                "schedule": "1h",
                "max_retries": "{{ params.times }}",
            },
        }
    )


def test_templates_are_listed_and_a_job_is_made_of_one(visitor):
    save(visitor)
    assert "url, times" in visitor.see("/templates")
    assert "<b>it</b>" not in visitor.see("/templates/ping")
    made = fill(visitor, **{"arg:url": "https://example.org/", "name": "Pinger", "schedule": "2h"})
    view = visitor.app.jobs.get(made.headers["location"].removeprefix("/jobs/"))
    assert view.args == {"url": "https://example.org/"}
    assert (view.definition.name, view.definition.policies.max_retries) == ("Pinger", 3)


def test_what_is_wrong_stands_beside_its_field(visitor):
    save(visitor)
    page = unescape(fill(visitor, 422, **{"arg:url": "", "arg:times": "many", "name": "kept"}).text)
    assert re.search(r'id="w-arg:url">It is required', page)
    assert re.search(r'id="w-arg:times">It must be a whole number', page)
    assert 'value="kept"' in page
    page = unescape(fill(visitor, 422, **{"arg:url": "https://example.org/", "schedule": "often"}).text)
    assert 'id="w-schedule"' in page


def test_a_viewer_sees_templates_and_no_form(stranger):
    save(stranger)
    stranger.log_in(Role.VIEWER)
    assert "Create job" not in stranger.see("/templates/ping")

"""Jobs and their runs, watched and steered in a browser."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.place import Place
from tests.waiting import eventually


@pytest.fixture
def held(place: Place, request: pytest.FixtureRequest) -> dict:
    """A job of its own for each test, run only by hand, that goes on until it is told; and the files it looks at."""
    name = request.node.name.partition("[")[0][5:45]
    job = place.job(task="holds", name=name, schedule="manual", args={"path": name}, max_retries=0)
    return {**job, "path": name}


def run(place: Place, job: dict) -> dict:
    """Let it run, and wait until it does."""
    code, _ = place("POST", f"/api/v1/jobs/{job['id']}/run")
    assert code < 300
    return eventually(lambda: place.get(f"/jobs/{job['id']}/executions?status=running")["executions"] or None)[0]


def shifts(page: Page) -> None:
    """Begin to count how much of the page moves by itself."""
    page.evaluate(
        """() => { window.moved = 0; new PerformanceObserver((list) => {
            for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.moved += entry.value;
        }).observe({ type: "layout-shift" }); }"""
    )


def test_a_job_is_run_and_watched_until_it_has_ended(place, open_page, held):
    page = open_page(f"{place.address}/jobs/{held['id']}")
    page.get_by_role("button", name="Run now").click()
    expect(page.get_by_role("status")).to_contain_text("A run is queued.")
    state = page.locator("[data-live=state]")
    history = page.locator("[data-live=history]")
    expect(state).to_contain_text("running")
    expect(history).to_contain_text("running")  # each part is renewed on its own
    shifts(page)
    place.touch(f"{held['path']}.go")
    expect(history).to_contain_text("completed")
    expect(state).to_contain_text("pending")
    assert page.evaluate("window.moved") < 0.1


def test_the_log_of_a_run_is_followed_with_its_progress_until_the_result(place, open_page, held):
    execution = run(place, held)
    page = open_page(f"{place.address}/executions/{execution['id']}")
    log = page.get_by_label("Log", exact=True)
    expect(log).to_contain_text("it has begun")
    place.touch(f"{held['path']}.talk")
    expect(log).to_contain_text("somebody asked me to talk")
    expect(page.locator("[data-progress]")).to_contain_text("talking")
    expect(page.locator("[data-progress]")).to_contain_text("words said 1,204")
    page.get_by_label("Lowest level").select_option("warning")
    page.get_by_role("button", name="Show").click()
    expect(log).to_contain_text("somebody asked me to talk")
    expect(log).not_to_contain_text("it has begun")
    place.touch(f"{held['path']}.go")
    expect(page.locator("[data-live=result]")).to_contain_text("held")
    expect(page.locator("[data-live=state]")).to_contain_text("completed")
    expect(page.get_by_role("button", name="Run again")).to_be_visible()
    expect(page.locator("[data-live=facts]")).to_contain_text("Words said")


def test_a_running_one_is_cancelled(place, open_page, held):
    execution = run(place, held)
    page = open_page(f"{place.address}/executions/{execution['id']}")
    page.get_by_role("button", name="Cancel this run").click()
    expect(page.locator("[data-live=state]")).to_contain_text("cancelled")
    page.get_by_role("button", name="Run again").click()
    page.wait_for_url(re.compile("/executions/(?!" + execution["id"] + ")"))
    place.touch(f"{held['path']}.go")
    expect(page.locator("[data-live=state]")).to_contain_text("completed")


def test_a_failed_one_is_retried_when_its_cause_is_mended(place, open_page):
    job = place.job(task="fails", name="mended", schedule="now", args={"path": "mended"}, max_retries=0)
    eventually(lambda: place.get(f"/jobs/{job['id']}")["status"] == "failed")
    page = open_page(f"{place.address}/jobs/{job['id']}")
    expect(page.locator("[data-live=history]")).to_contain_text("the printer is on fire")
    page.get_by_role("link", name="#1").click()
    expect(page.locator("[data-live=error]")).to_contain_text("ConnectionError: the printer is on fire")
    expect(page.locator("details pre")).to_contain_text("Traceback")
    page.get_by_role("link", name="mended").click()
    place.touch("mended.mended")
    page.get_by_role("button", name="Retry").click()
    expect(page.locator("[data-live=state]")).to_contain_text("completed")
    expect(page.locator("[data-live=history]")).to_contain_text("#1, retry 1")


def test_a_job_is_paused_resumed_and_cancelled_by_its_buttons(place, open_page):
    job = place.job(task="greet", name="steered", schedule={"every": "1h"}, args={"name": "ann"})
    page = open_page(f"{place.address}/jobs/{job['id']}")
    state = page.locator("[data-live=state]")
    page.get_by_role("button", name="Pause").click()
    expect(state).to_contain_text("paused")
    expect(page.get_by_text("no due times until the job is resumed")).to_be_visible()
    page.get_by_role("button", name="Resume").click()
    expect(state).to_contain_text("scheduled")
    page.locator("summary", has_text="Cancel…").click()
    expect(page.get_by_text("The job stops for good")).to_be_visible()
    page.get_by_role("button", name="Cancel job").click()
    expect(state).to_contain_text("cancelled")
    expect(page.locator("[data-live=events]")).to_contain_text("job.cancelled")
    expect(page.get_by_role("button", name="Run now")).to_have_count(0)


def test_jobs_are_filtered_ticked_and_steered_together(place, open_page):
    for n in range(3):
        place.job(task="greet", name=f"bulk {n}", schedule={"every": "1h"}, args={"name": "ann"}, tags=["bulk"])
    page = open_page(f"{place.address}/jobs")
    page.get_by_label("Search").fill("bulk")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("tbody tr")).to_have_count(3)
    page.get_by_label("Select all on this page").check()
    page.get_by_role("button", name="Pause…").click()
    expect(page.get_by_role("heading", name="Pause 3 jobs?")).to_be_visible()
    page.get_by_role("button", name="Pause 3 jobs").click()
    expect(page.get_by_role("status")).to_contain_text("3 jobs paused.")
    page.get_by_label("Status").select_option("paused")
    page.get_by_label("Tag").fill("bulk")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("tbody tr")).to_have_count(3)
    page.get_by_label("bulk 1").check()
    page.get_by_role("button", name="Delete…").click()
    page.get_by_role("button", name="Delete 1 job").click()
    expect(page.locator("tbody tr")).to_have_count(2)


def test_everything_but_live_updates_works_without_scripts(place, open_page):
    job = place.job(task="greet", name="plain", schedule={"every": "1h"}, args={"name": "ann"})
    page = open_page(f"{place.address}/jobs?text=plain", java_script_enabled=False)
    page.get_by_label("plain", exact=True).check()
    page.get_by_role("button", name="Run…").click()
    page.get_by_role("button", name="Run 1 job").click()
    expect(page.get_by_role("status")).to_contain_text("1 job run.")
    eventually(lambda: place.get(f"/jobs/{job['id']}")["counters"]["completed"] == 1)
    page.get_by_role("link", name="plain").first.click()
    expect(page.locator("[data-live=history]")).to_contain_text("by hand")
    page.locator("summary", has_text="Delete…").click()
    page.get_by_role("button", name="Delete job").click()
    expect(page.get_by_role("status")).to_contain_text("The job is deleted.")


def test_the_calendar_leads_to_the_jobs_of_an_hour_and_the_workers_page_shows_who_runs_what(place, open_page, held):
    place.job(task="greet", name="by the hour", schedule={"every": "1h"}, args={"name": "ann"})
    page = open_page(f"{place.address}/calendar")
    page.locator(".heat a").last.click()
    expect(page.locator("#hour")).to_contain_text("by the hour")
    execution = run(place, held)
    page.goto(f"{place.address}/workers")
    page.get_by_role("link", name=f"{held['path']} #1").click()
    expect(page).to_have_url(re.compile(execution["id"]))
    place.touch(f"{held['path']}.go")


def test_the_steps_of_a_workflow_are_seen_with_what_became_of_them(place, open_page):
    nodes = [
        {"id": "begin", "type": "trigger_manual"},
        {"id": "hello", "task": "greet", "args": {"name": "ann"}, "after": ["begin"]},
        {"id": "wait", "task": "holds", "args": {"path": "steps"}, "after": ["hello"]},
        {"id": "print", "task": "fails", "args": {"path": "steps"}, "after": ["wait"]},
        {"id": "send", "task": "greet", "args": {"name": "bob"}, "after": ["print"]},
    ]
    code, workflow = place("POST", "/api/v1/workflows", {"name": "daily", "nodes": nodes})
    assert code == 201, workflow
    code, started = place("POST", "/api/v1/workflows/daily/run", {})
    assert code < 300, started
    job = started["job_id"]
    run = eventually(lambda: place.get(f"/executions?job={job}&status=running")["executions"])[0]
    page = open_page(f"{place.address}/executions/{run['id']}")
    steps = page.locator("[data-live=steps]")
    expect(steps.get_by_role("row", name="wait holds")).to_contain_text("running")
    expect(steps.get_by_role("row", name="send greet")).to_contain_text("waiting")
    place.touch("steps.go")
    expect(steps.get_by_role("row", name="print fails")).to_contain_text("the printer is on fire")
    expect(steps.get_by_role("row", name="send greet")).to_contain_text("skipped")
    expect(steps.locator("svg.graph .node")).to_have_count(4)
    steps.get_by_role("link", name="wait").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("wait")
    expect(page.get_by_label("Log", exact=True)).to_contain_text("it has begun")

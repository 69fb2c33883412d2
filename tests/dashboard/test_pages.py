"""Every page renders with any content, and shows actions only to roles that may use them."""

import re
from dataclasses import replace
from html import escape, unescape
from html.parser import HTMLParser

import pytest

from ostinato.core.access import Role
from ostinato.core.account import account_text
from ostinato.core.model import Change, Ending, Status
from ostinato.core.outcome import OutcomeKind
from ostinato.dashboard.app import routes_of
from ostinato.feature import our_features
from tests.build import HOUR, SECOND
from tests.dashboard.busy import EVIL, Busy
from tests.dashboard.conftest import Visitor

EMPTY = [
    "/", "/?span=7d", "/?span=x", "/jobs", "/jobs?status=paused&text=x&task=y&queue=z&tag=t&sort=name", "/executions",
    "/executions?state=failed&task=x", "/calendar", "/calendar?show=past", "/calendar?hour=2026-11-16T12:00:00Z",
    "/calendar?hour=rubbish", "/workers", "/events", "/events?kind=job.*&by=a",
]  # fmt: skip
FORMS = re.compile(r'<form[^>]*method="post"[^>]*action="([^"]+)"')
OURS = [
    route
    for route in routes_of(our_features())
    if route.method == "POST" and re.match(r"/(jobs|executions|workers|queues)/", route.path)
]


class Inline(HTMLParser):
    """Parser that finds inline scripts and styles, which no page may have."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag in ("style", "img", "iframe") or (tag == "script" and "src" not in given):
            self.found.append(tag)
        self.found += [name for name in given if name == "style" or name.startswith("on")]

    @classmethod
    def found_in(cls, page: str) -> list[str]:
        looking = cls()
        looking.feed(page)
        return looking.found


@pytest.fixture
def busy(visitor: Visitor) -> Busy:
    return Busy(visitor)


def status(busy: Busy, job=None) -> Status:
    return busy.visitor.app.jobs.get((job or busy.job).id).status


def test_every_page_renders_where_nothing_has_happened_yet(visitor):
    for path in EMPTY:
        assert "<h1" in visitor.see(path)


def test_every_page_escapes_its_values(busy):
    for path in busy.pages:
        page = busy.visitor.see(path)
        assert Inline.found_in(page) == [], path
        assert "<script>alert" not in page
        assert "5029788241" not in page  # what a template would make of it
    assert EVIL in unescape(busy.visitor.see(f"/jobs/{busy.job.id}"))


def test_times_have_a_tooltip_of_both_zones(busy):
    busy.visitor.client.cookies.set("ostinato_zone", "Asia%2FTokyo")
    page = busy.visitor.see(f"/jobs/{busy.job.id}")
    assert re.search(r'<time class="at" datetime="[^"]+Z" title="[^"]+ Asia/Tokyo\n[^"]+ UTC">', page)


# -- roles


@pytest.fixture
def watched(stranger: Visitor) -> Busy:
    return Busy(stranger)


def test_a_viewer_sees_no_buttons(watched):
    watched.visitor.log_in(Role.VIEWER)
    for path in watched.pages:
        assert set(FORMS.findall(watched.visitor.see(path))) <= {"/logout", "/jobs/bulk?"}, path
        assert "<button name=" not in watched.visitor.see(path)


def test_an_operator_steers_and_does_not_delete(watched):
    watched.visitor.log_in(Role.OPERATOR)
    page = watched.visitor.see(f"/jobs/{watched.job.id}")
    assert f"/jobs/{watched.job.id}/pause" in page
    assert "/delete" not in page
    answer = watched.visitor.send(f"/jobs/{watched.job.id}/delete", 403, on="/")
    assert "needs the role admin" in answer.text
    for path in ("/jobs/bulk", "/jobs/bulk/sure"):
        watched.visitor.send(path, 403, on="/", action="delete", job=str(watched.job.id))
    assert status(watched) is Status.RUNNING


def test_nothing_is_done_without_the_token_or_the_role(watched):
    form = {"action": "cancel", "job": str(watched.job.id)}
    paths = [route.path.replace("{id}", str(watched.job.id)).replace("{name}", "odd") for route in OURS]
    assert len(paths) > 12
    watched.visitor.log_in(Role.ADMIN)
    for path in paths:
        assert watched.visitor.ask(path, "POST", data=form).status_code == 403, path
    watched.visitor.client.cookies.clear()
    watched.visitor.log_in(Role.VIEWER)
    for path in paths:
        watched.visitor.send(path, 403, on="/", **form)
    assert status(watched) is Status.RUNNING


# -- one job


def test_a_job_is_paused_resumed_and_cancelled_and_the_page_offers_possible_actions(busy):
    visitor, path = busy.visitor, f"/jobs/{busy.job.id}"
    page = visitor.follow(visitor.send(f"{path}/pause", on=path))
    assert "The job is paused." in page
    assert f'action="{path}/resume"' in page
    assert f'action="{path}/pause"' not in page
    assert "The job is resumed." in visitor.follow(visitor.send(f"{path}/resume", on=path))
    assert "The job is cancelled." in visitor.follow(visitor.send(f"{path}/cancel", on=path))
    assert status(busy) is Status.CANCELLED
    assert f'action="{path}/run"' not in visitor.see(path)
    page = visitor.send(f"{path}/run", 409, on=path).text
    assert "a cancelled job cannot be run" in unescape(page)
    assert 'id="trouble-actions"' in page


def test_a_failed_job_is_retried_or_begins_as_new_and_a_deleted_one_is_gone(busy):
    visitor = busy.visitor
    for action in ("retry", "restart", "run"):
        job = busy.add(key=None, ended_at=busy.now, ended_as=Ending.FAILED, last_number=1, last_execution_number=1)
        busy.ended(job, 1, OutcomeKind.FAILED)
        path = f"/jobs/{job.id}"
        visitor.send(f"{path}/{action}", on=path)
        assert status(busy, job) is not Status.FAILED
    answer = visitor.send(f"{path}/delete", on=path)
    assert answer.headers["location"] == "/jobs"
    visitor.see(path, 404)
    visitor.send(f"{path}/pause", 404, on="/jobs")


def test_the_history_of_a_job_has_its_skips_in_between(busy):
    page = busy.visitor.see(f"/jobs/{busy.job.id}")
    history = page[page.index("<h2>History") :]
    wanted = [f"/executions/{busy.running.id}", "Another run was live", f'/executions/{busy.done.id}">#2']
    wanted += [f"/executions/{busy.retried.id}", f"/executions/{busy.failed.id}"]
    places = [history.index(each) for each in wanted]
    assert places == sorted(places)


def test_a_job_is_found_by_its_key_too_and_rubbish_is_not_found(busy):
    busy.add(key="nightly", name="by key", app="shop")
    assert "by key" in busy.visitor.see("/jobs/nightly")
    busy.visitor.see("/jobs/nothing-like-that", 404)
    busy.visitor.see("/executions/nothing", 404)
    busy.visitor.see(f"/executions/{busy.job.id}", 404)
    assert "cursor" in busy.visitor.see(f"/jobs/{busy.job.id}?cursor=x", 404)


# -- many jobs


def test_jobs_are_paged_sorted_and_looked_through(busy):
    busy.jobs(60)
    for sort in ("-created_at", "name", "next_run_at", "status"):
        first = busy.visitor.see(f"/jobs?sort={sort}&text=job")
        more = unescape(re.search(r'href="([^"]+)" rel="next"', first)[1])
        second = busy.visitor.see(more)
        shown = [set(re.findall(r">(job \d{3})<", page)) for page in (first, second)]
        assert [len(each) for each in shown] == [50, 10]
        assert not shown[0] & shown[1]
    assert "job 007" in busy.visitor.see("/jobs?text=JOB+007")
    assert "No jobs match these filters" in busy.visitor.see("/jobs?status=paused")
    assert "There is no status" in busy.visitor.see("/jobs?status=asleep", 422)
    assert "cursor" in busy.visitor.see("/jobs?cursor=rubbish", 404)


def test_many_jobs_are_steered_after_a_question_that_names_them(busy):
    jobs, visitor = busy.jobs(3), busy.visitor
    ended = busy.add(name="over", key=None, ended_at=busy.now, ended_as=Ending.COMPLETED)
    ticked = [str(job.id) for job in (*jobs, ended)]
    page = visitor.send("/jobs/bulk", 200, on="/jobs", action="pause", job=ticked).text
    assert "Pause 3 jobs?" in page
    assert "Unchanged jobs" in page
    assert all(status(busy, job) is Status.SCHEDULED for job in jobs)
    done = visitor.send("/jobs/bulk/sure?status=scheduled", on="/jobs", action="pause", job=ticked)
    assert done.headers["location"] == "/jobs?status=scheduled"
    assert "3 jobs paused. 1 not: This job is completed" in unescape(visitor.follow(done))
    assert all(status(busy, job) is Status.PAUSED for job in jobs)


def test_all_that_match_are_steered_together(busy):
    busy.jobs(55)
    page = busy.visitor.send("/jobs/bulk?text=job", 200, on="/jobs", action="delete", all="1").text
    assert "Delete 55 jobs?" in page
    assert "This cannot be undone." in page
    assert len(re.findall(r'type="hidden" name="job"', page)) == 55


@pytest.mark.parametrize("form", [{"action": "explode"}, {}, {"action": "pause", "job": "rubbish"}])
def test_a_form_that_makes_no_sense_is_refused(busy, form):
    busy.visitor.send("/jobs/bulk", 422, on="/jobs", **form)


def test_an_action_without_selected_jobs_shows_a_message(busy):
    assert "Select some first" in busy.visitor.follow(busy.visitor.send("/jobs/bulk", on="/jobs", action="pause"))


# -- executions


def test_an_execution_shows_its_attempts_its_end_and_its_log_by_level(busy):
    page = unescape(busy.visitor.see(f"/executions/{busy.failed.id}"))
    assert f"/executions/{busy.retried.id}" in page
    assert "info " in page
    grave = busy.visitor.see(f"/executions/{busy.failed.id}?level=error")
    assert "grave" in grave
    assert "info &" not in grave
    running = unescape(busy.visitor.see(f"/executions/{busy.running.id}"))
    assert 'value="3"' in running
    assert "3 of 4 · <script>" in running


def test_a_run_shows_its_progress_and_counters(busy):
    page = unescape(busy.visitor.see(f"/executions/{busy.running.id}"))
    assert "3 of 4 · <script>" in page
    assert "<script> 1,204" in page
    assert "<dd>1,204</dd>" in page
    account = account_text(1, None, None, None, None, None, (("bytes_sent", 5),))
    ended = busy.ended(busy.job, 3, OutcomeKind.COMPLETED, attempt=1, account=account)
    page = busy.visitor.see(f"/executions/{ended.id}")
    assert "<dt>Bytes sent</dt><dd>5</dd>" in page


@pytest.mark.parametrize(
    ("task", "args", "called"),
    [
        ("crawl", '{"url": "https://a.example/", "source_name": "The <b>shop</b>"}', "The <b>shop</b>"),
        ("crawl", '{"url": "https://a.example/"}', "https://a.example/"),
        ("crawl", "{}", "crawl"),
        ("http", '{"url": "https://a.example/ping"}', "https://a.example/ping"),
        ("command", '{"argv": ["pg_dump", "--file", "x"]}', "pg_dump --file x"),
        ("command", '{"script": "ls | wc"}', "ls | wc"),
        ("python", '{"function": "shop:nightly"}', "shop:nightly"),
        ("python", '{"function": 7}', "7"),
        ("mine", '{"url": "https://a.example/"}', "mine"),
    ],
)
def test_a_job_without_a_name_shows_its_task_and_args(busy, task, args, called):
    job = busy.add(task=task, key=None, name="", args=args)
    assert f"<h1>{escape(called)}</h1>" in busy.visitor.see(f"/jobs/{job.id}")


def test_a_due_time_that_has_passed_shows_as_due_now(busy):
    job = busy.add(name="late one", key="late")
    late = replace(job.facts, next_due_at=busy.now - 4 * SECOND)
    busy.store.jobs.change(job.id, lambda job, lives, last: Change(replace(job, facts=late)))
    for path in ("/", "/jobs", f"/jobs/{job.id}"):
        page = busy.visitor.see(path)
        times = re.findall(r'<time class="ago soon"[^>]*>([^<]*)</time>', page)
        assert "now" in times, path
        assert not any("ago" in each for each in times), path


def test_a_job_that_is_cancelled_says_that_its_run_still_runs(busy):
    visitor, path = busy.visitor, f"/jobs/{busy.job.id}"
    told = visitor.follow(visitor.send(f"{path}/cancel", on=path))
    assert "The job is cancelled. The run was asked to stop and is still running." in told
    other = busy.add(name="other", key=None)
    busy.run(other)
    done = visitor.send("/jobs/bulk/sure", on="/jobs", action="delete", job=str(other.id))
    assert "1 job deleted. 1 of them: The run was asked to stop" in visitor.follow(done)


def test_a_running_one_is_asked_to_stop_and_one_that_ended_is_run_again(busy):
    visitor = busy.visitor
    path = f"/executions/{busy.running.id}"
    told = visitor.follow(visitor.send(f"{path}/cancel", on=path))
    assert "The run was asked to stop and is still running." in told
    assert "a thread cannot be killed" in visitor.see(path)
    ended = f"/executions/{busy.done.id}"
    page = visitor.send(f"{ended}/cancel", 409, on=ended).text
    assert "has ended already" in page
    job = busy.add(name="again", key=None)
    run = busy.ended(job, 1, OutcomeKind.COMPLETED, args='{"own": 1}')
    again = visitor.send(f"/executions/{run.id}/run", on=f"/executions/{run.id}").headers["location"]
    assert again.startswith("/executions/")
    assert "&#34;own&#34;: 1" in visitor.see(again)


# -- workers, queues, events


def test_a_worker_is_drained_and_a_queue_paused_and_resumed(busy):
    visitor = busy.visitor
    assert "claims no more" in visitor.follow(visitor.send(f"/workers/{busy.worker.id}/drain", on="/workers"))
    assert "draining" in visitor.see("/workers")
    assert "is paused" in visitor.follow(visitor.send("/queues/odd/pause", on="/workers"))
    assert "/queues/odd/resume" in visitor.see("/workers")
    assert "is resumed" in visitor.follow(visitor.send("/queues/odd/resume", on="/workers"))
    visitor.send(f"/workers/{busy.job.id}/drain", 404, on="/workers")


def test_events_are_filtered_and_paged(busy):
    for n in range(60):
        busy.tell("queue.paused", by="ann" if n % 2 else "bob", at=n * HOUR / 3600)
    page = busy.visitor.see("/events?kind=queue.*&by=ANN")
    assert page.count("<code>queue.paused</code>") == 30
    first = busy.visitor.see("/events?kind=queue.*")
    assert first.count("<code>queue.paused</code>") == 50
    more = unescape(re.search(r'href="([^"]+)" rel="next"', first)[1])
    assert busy.visitor.see(more).count("<code>queue.paused</code>") == 10
    busy.visitor.see("/events?job=nobody", 404)
    busy.visitor.see("/events?before=x", 422)


# -- the overview


def test_the_overview_lists_problems(busy):
    assert "No problems found" in busy.visitor.see("/")
    job = busy.add(task="nobody_knows", key=None)
    page = unescape(busy.visitor.see("/"))
    assert "No problems found" not in page
    assert "1 job of the task 'nobody_knows'" in page
    assert f"/jobs/{job.id}" in page
    assert f"/executions/{busy.failed.id}" in page
    assert f"/executions/{busy.running.id}" in page
    assert "75.0%" in page


def test_the_overview_names_a_job_that_fails_above_its_usual_rate(busy):
    job = busy.add(task=EVIL, name="nightly sync", key=None)
    for number in (1, 2, 3):
        busy.ended(job, number, OutcomeKind.FAILED, error="refused")
    page = busy.visitor.see("/")
    assert "No problems found" not in page
    assert "nightly sync: 3 of the last 3 runs failed; 3 times: refused" in page

"""`http` in a worker, with a real server: its requests, its outcomes and its results."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from ostinato import Ostinato
from ostinato.core.payload import encode
from ostinato.core.schedule import Once
from ostinato.options import define
from ostinato.service.views import ExecutionView
from tests.app.conftest import during, new_app
from tests.tasks.server import Answer, Server, serving
from tests.waiting import PATIENCE, until

__all__ = ["new_app"]

DUE = datetime(2026, 3, 1, 6, 30, tzinfo=UTC)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.fixture
def app(sqlite_url) -> Iterator[Ostinato]:
    """A test on one database: requests do not depend on it."""
    app = Ostinato("shop", database_url=sqlite_url, poll_interval="1s", allow_private_addresses=True)
    app.open(upgrade=True)
    yield app
    app.close()


def run(app: Ostinato, args: dict[str, Any], **options: Any) -> ExecutionView:
    """The last execution of a job that runs once."""
    definition = define("http", encode(args), Once(DUE), {"backoff": "10ms", **options}, app.name, 0)

    async def body() -> ExecutionView:
        (handle,) = app.put([definition])
        return await handle.await_(PATIENCE)

    return during(app, body)


def test_a_call_says_what_it_is_and_keeps_the_answer(app, server):
    server.answers = [Answer(200, b'{"fine": [1, 2]}')]
    ended = run(
        app,
        {"url": f"{server.url}/a/{{{{ due.date }}}}?who={{{{ args.values.who }}}}&at={{{{ due_at }}}}",
         "method": "POST", "headers": {"X-Name": "{{ job.name }} {{ number }}", "Accept": "application/json"},
         "json": {"n": "{{ args.values.n }}", "text": "no. {{ args.values.n }}", "tags": "{{ job.tags }}",
                  "odd": "{{ args.values.who }}", "of": "{{ job.metadata.of }}"},
         "values": {"who": 'a/b&c "d"', "n": 17}},
        name="The job", tags=["x", "y"], metadata={"of": {"deep": True}},
    )  # fmt: skip
    (asked,) = server.asked
    assert ended.result == {"status": 200, "json": {"fine": [1, 2]}}
    assert asked.method == "POST"
    assert asked.path == "/a/2026-03-01?who=a%2Fb%26c%20%22d%22&at=2026-03-01T06%3A30%3A00Z"
    assert asked.headers["x-name"] == "The job 1"
    assert asked.headers["content-type"] == "application/json"
    assert json.loads(asked.body) == {
        "n": 17, "text": "no. 17", "tags": ["x", "y"], "odd": 'a/b&c "d"', "of": {"deep": True},
    }  # fmt: skip
    key = f"sched-{ended.job_id}-n1"
    assert asked.headers["idempotency-key"] == key
    assert asked.headers["x-execution-key"] == f"{key}-rc0"
    assert asked.headers["x-job-id"] == str(ended.job_id)
    assert asked.headers["x-attempt"] == "0"


def test_what_it_has_counted_is_kept_with_every_attempt(app, server):
    server.answers = [Answer(302, b"", {"location": "/there"}), Answer(503, b"no", {"retry-after": "0"})]
    server.at["/there"] = Answer(200, b"y" * 5000)
    ended = run(app, {"url": server.url, "method": "PUT", "body": "x" * 300}, retries=0)
    counters = dict(ended.counters)
    assert counters.pop("answered_after_ms") >= 0
    assert counters == {"bytes_sent": 300, "status": 200, "requests": 2, "bytes_received": 5000}
    server.answers = [Answer(503, b"not now")]
    ended = run(app, {"url": server.url}, retries=0)
    assert (ended.status, ended.counters["status"], ended.counters["bytes_received"]) == ("failed", 503, 7)
    ended = run(app, {"url": "http://127.0.0.1:1/"}, retries=0)
    assert (ended.status, ended.counters) == ("failed", {"bytes_sent": 0})


def test_it_tells_whom_it_waits_for(app, server):
    server.answers = [Answer(seconds=60)]
    definition = define("http", encode({"url": server.url}), Once(DUE), {}, app.name, 0)

    async def body() -> Any:
        (handle,) = app.put([definition])
        (progress,) = await until(lambda: [e.progress for e in app.jobs.get(handle.id).lives if e.progress])
        server.over.set()
        return json.loads(progress)

    assert during(app, body) == {
        "done": 0,
        "message": f"calling {server.url.removeprefix('http://').partition(':')[0]}",
        "counters": {"bytes_sent": 0},
    }


def test_every_attempt_sends_the_same_idempotency_key(new_app, server):
    app = new_app(allow_private_addresses=True)
    server.answers = [Answer(503), Answer(500), Answer(429), Answer(201, b"made")]
    ended = run(app, {"url": server.url, "method": "POST", "body": "{{ attempt }}"}, retries=5)
    assert (ended.status, ended.attempt, ended.result) == ("completed", 3, {"status": 201, "body": "made"})
    assert len({asked.headers["idempotency-key"] for asked in server.asked}) == 1
    assert len({asked.headers["x-execution-key"] for asked in server.asked}) == 4
    assert [asked.headers["x-attempt"] for asked in server.asked] == ["0", "1", "2", "3"]
    assert [asked.body for asked in server.asked] == [b"0", b"1", b"2", b"3"]


def test_a_status_that_no_retry_can_help_ends_it_at_once(app, server):
    server.answers = [Answer(404, b"no such report")]
    ended = run(app, {"url": server.url}, retries=5)
    assert (ended.status, len(server.asked)) == ("failed", 1)
    assert "The answer was 404: no such report" in str(ended.error)


def test_rules_by_status_are_the_jobs_own(app, server):
    server.answers = [Answer(404), Answer(302, headers={"location": "/elsewhere"})]
    ended = run(app, {"url": server.url, "expect": [302], "retry": ["4xx"], "redirects": 0, "keep": 0}, retries=1)
    assert (ended.status, ended.attempt, ended.result) == ("completed", 1, {"status": 302})


def test_retry_after_is_obeyed(app, server):
    server.answers = [Answer(503, headers={"Retry-After": "0"}), Answer(200, b"")]
    ended = run(app, {"url": server.url}, retries=1, backoff="1h")
    assert (ended.status, ended.attempt, ended.result) == ("completed", 1, {"status": 200})


def test_redirects_are_followed_as_often_as_allowed(app, server):
    server.at = {f"/{n}": Answer(302, headers={"location": f"/{n + 1}"}) for n in range(3)}
    assert run(app, {"url": f"{server.url}/0", "redirects": 3}).status == "completed"
    ended = run(app, {"url": f"{server.url}/0", "redirects": 2}, retries=3)
    assert ended.status == "failed"
    assert "redirects more than 2 times" in str(ended.error)


def test_a_redirect_to_where_we_may_not_go_is_refused(app, server):
    server.answers = [Answer(302, headers={"location": "http://169.254.169.254/latest/meta-data"})]
    ended = run(app, {"url": server.url}, retries=3)
    assert (ended.status, len(server.asked)) == ("failed", 1)
    assert "link-local" in str(ended.error)


def test_the_answer_is_kept_up_to_a_cap(app, server):
    server.answers = [Answer(200, b"x" * 10_000)]
    assert run(app, {"url": server.url, "keep": 100}).result == {
        "status": 200,
        "body": "x" * 100,
        "cut": True,
    }
    server.answers = [Answer(200, gzip.compress(b'{"packed": 1}'), {"content-encoding": "gzip"})]
    assert run(app, {"url": server.url}).result == {"status": 200, "json": {"packed": 1}}


def test_a_slow_answer_is_a_failure_that_is_tried_again(app, server):
    server.answers = [Answer(seconds=60), Answer(200, b"quick")]
    ended = run(app, {"url": server.url, "timeout": "500ms"}, retries=1)
    assert (ended.status, ended.attempt) == ("completed", 1)


def test_nobody_there_is_a_failure_that_is_tried_again(app):
    ended = run(app, {"url": "http://127.0.0.1:1/"}, retries=2)
    assert (ended.status, ended.attempt) == ("failed", 2)


def test_a_secret_is_sent_and_shown_nowhere(app, server, monkeypatch):
    monkeypatch.setenv("SECRET_PARTNER_TOKEN", "hunter2hunter2")
    server.answers = [Answer(200, b'{"you sent": "Bearer hunter2hunter2"}')]
    ended = run(app, {"url": server.url, "auth": {"type": "bearer", "token": "env:SECRET_PARTNER_TOKEN"}})
    assert server.asked[0].headers["authorization"] == "Bearer hunter2hunter2"
    assert ended.result == {"status": 200, "json": {"you sent": "Bearer ***"}}
    server.answers = [Answer(400, b"bad: hunter2hunter2")]
    ended = run(app, {"url": server.url, "auth": {"type": "bearer", "token": "env:SECRET_PARTNER_TOKEN"}})
    assert "hunter2" not in str(ended.error)
    assert "bad: ***" in str(ended.error)


def test_a_secret_that_is_not_there(app, server):
    ended = run(app, {"url": server.url, "auth": {"type": "bearer", "token": "env:SECRET_NO_SUCH_TOKEN"}}, retries=3)
    assert (ended.status, server.asked) == ("failed", [])
    assert "env:SECRET_NO_SUCH_TOKEN" in str(ended.error)


def test_metadata_that_is_not_there_when_it_runs(app, server):
    ended = run(app, {"url": f"{server.url}/{{{{ job.metadata.nope }}}}"}, retries=3)
    assert (ended.status, server.asked) == ("failed", [])
    assert "{{ job.metadata.nope }}" in str(ended.error)


@pytest.mark.parametrize(
    ("path", "it"), [("/files/{{ X }}/list", ".."), ("/files/{{ X }}", "."), ("/a/.{{ X }}/", ".")]
)
def test_a_value_cannot_lead_to_another_folder(app, server, path, it):
    url = server.url + path.replace("X", "job.metadata.it")
    ended = run(app, {"url": url}, metadata={"it": it}, retries=3)
    assert (ended.status, server.asked) == ("failed", [])
    assert "would lead to another folder" in str(ended.error)


def test_a_value_cannot_become_a_second_header(app, server):
    args = {"url": server.url, "headers": {"X-It": "{{ job.metadata.it }}"}}
    ended = run(app, args, metadata={"it": "a\r\nX-More: b"}, retries=3)
    assert (ended.status, server.asked) == ("failed", [])


def test_a_worker_checks_by_its_own_settings(new_app, server):
    generous, strict = new_app(allow_private_addresses=True), new_app()
    definition = define("http", encode({"url": server.url}), Once(DUE), {}, "shop", 3)
    (handle,) = generous.put([definition])

    async def body() -> ExecutionView:
        return await handle.await_(PATIENCE)

    ended = during(strict, body)
    assert (ended.status, ended.attempt, server.asked) == ("failed", 0, [])
    assert "OSTINATO_ALLOW_PRIVATE_ADDRESSES" in str(ended.error)

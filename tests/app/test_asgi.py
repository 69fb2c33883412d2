"""`app.asgi()`: REST API and dashboard under a prefix, and the doors of a mount that may be public."""

from __future__ import annotations

import re
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

from ostinato import Invalid, Ostinato
from ostinato.access import mounting
from ostinato.access.mounting import PROXIES
from ostinato.app.listening import REASON
from ostinato.app.mounted import CANNOT_START, NO_ENGINE
from ostinato.config import extras
from ostinato.core.access import Role
from ostinato.core.errors import MissingExtra, StoreUnavailable, Unauthorized
from ostinato.feature import our_features

HERE = ("127.0.0.1", 50000)
SECRET = "a secret of at least 32 bytes, for tests"
PAGE = {"accept": "text/html"}


def host(app: Ostinato, prefix: str = "/ops", caller=None, *, working: bool = False, **options) -> FastAPI:
    """A FastAPI application with the mount."""

    @asynccontextmanager
    async def lifespan(_):
        if working:
            async with app.running():
                yield
        else:
            yield

    found = FastAPI(lifespan=lifespan, **options)
    found.mount(prefix, app.asgi(caller))
    return found


def client(application, **options) -> TestClient:
    return TestClient(application, **{"client": HERE, "base_url": "http://127.0.0.1:8000"} | options)


def ann(scope) -> tuple[str, str] | None:
    """The log-in of a host: the name and role are in its cookie."""
    found = re.search(r"user=(\w+):(\w+)", dict(scope["headers"]).get(b"cookie", b"").decode())
    return None if found is None else (found[1], found[2])


# -- addresses


INSIDE = ("{{ root }}", "#", "?", "data:", "{{ trace_page(")  # the last is a page of the tracing system
LINK = re.compile(r'(?:href|action|src|data-stream|data-log|data-fragment)="([^"]*)"')


def templates() -> list[Path]:
    rooms = [Path("src/ostinato/dashboard/templates"), *our_features().folders("templates").values()]
    return [file for room in rooms for file in sorted(Path(room).glob("*.html"))]


@pytest.mark.parametrize("file", templates(), ids=lambda file: file.name)
def test_no_template_has_an_address_without_the_prefix(file):
    """`{{ root }}` begins each address of this site; addresses inside a page and outside of the site have none."""
    text = file.read_text()
    found = re.findall(r'\s(?:href|action|src|data-stream|data-log|data-fragment)="([^"]*)', text)
    assert [each for each in found if each and not each.startswith(INSIDE)] == []


def test_no_script_names_an_address_of_the_site():
    for file in Path("src/ostinato/dashboard/static").glob("*.js"):
        assert re.findall(r"""[("'`=]/(?:api|static|jobs|executions|docs)\b""", file.read_text()) == []
        assert "path=/;" not in file.read_text()


@pytest.fixture
def busy(app: Ostinato) -> Ostinato:
    """An app with a job, an execution and some objects to link to."""
    app.task(name="greet", every="1h")(lambda: None)
    app.apply_declarations()
    app.jobs.run("greet")
    return app


def pages(app: Ostinato) -> list[str]:
    job = app.jobs.get("greet").id
    run = app.executions.list()[0].id
    plain = "/ /jobs /jobs/new /executions /calendar /calendar?show=past /workers /events /settings /sources"
    more = "/sources/new /pages /workflows /workflows/new /templates /providers /docs /nowhere"
    return [*plain.split(), *more.split(), f"/jobs/{job}", f"/jobs/{job}/edit", f"/executions/{run}"]


@pytest.mark.parametrize("prefix", ["/ops", "/jobs", "/a/b"])
def test_every_link_of_every_page_has_the_prefix(busy, prefix):
    """`/jobs` is also a path of ours."""
    with client(host(busy, prefix)) as web:
        for page in pages(busy):
            answer = web.get(prefix + page, headers=PAGE)
            assert answer.status_code == (404 if page == "/nowhere" else 200), page
            links = [link for link in LINK.findall(answer.text) if link and not link.startswith(("#", "?", "data:"))]
            assert links, page
            assert [link for link in links if not link.startswith(f"{prefix}/")] == [], page


def test_a_page_without_a_prefix_is_what_it_was(busy):
    with client(busy.asgi()) as web:
        answer = web.get("/jobs", headers=PAGE)
    assert 'href="/jobs/new"' in answer.text
    assert 'data-root=""' in answer.text


@pytest.mark.parametrize("prefix", ["/ops", "/jobs"])
def test_redirects_cookies_and_locations_have_the_prefix(busy, prefix):
    with client(host(busy, prefix), follow_redirects=False) as web:
        page = web.get(f"{prefix}/jobs", headers=PAGE)
        assert f"Path={prefix}/;" in page.headers["set-cookie"]
        token = re.search(r'name="form_token" value="(\w+)"', page.text)[1]
        job = busy.jobs.get("greet").id
        done = web.post(f"{prefix}/jobs/{job}/pause", data={"form_token": token})
        assert (done.status_code, done.headers["location"]) == (303, f"{prefix}/jobs/{job}")
        made = web.post(f"{prefix}/api/v1/jobs", json={"task": "greet", "schedule": "1h"})
        assert made.headers["location"] == f"{prefix}/api/v1/jobs/{made.json()['id']}"
        assert web.get(made.headers["location"]).status_code == 200


def test_the_document_names_the_prefix_as_its_server(busy):
    with client(host(busy)) as web:
        for path in ("/ops/openapi.json", "/ops/docs/openapi.json"):
            assert web.get(path).json()["servers"] == [{"url": "/ops"}]
    with client(busy.asgi()) as web:
        assert "servers" not in web.get("/openapi.json").json()


@pytest.mark.parametrize("in_path", ["", "/shop"])
def test_a_proxy_before_the_host_adds_its_prefix(busy, in_path):
    """`uvicorn --root-path /shop` leaves the prefix in the path; other servers name a prefix that the path lacks."""
    application = host(busy)

    async def served(scope, receive, send):
        if scope["type"] == "http":
            scope = {**scope, "root_path": "/shop", "path": in_path + scope["path"]}
        await application(scope, receive, send)

    with client(served) as web:
        page = web.get("/ops/jobs", headers=PAGE)
        assert page.status_code == 200
        assert 'href="/shop/ops/jobs/new"' in page.text


def test_a_prefix_of_two_slashes_leads_to_no_other_host(busy):
    application = busy.asgi()

    async def odd(scope, receive, send):
        await application({**scope, "root_path": "//evil.example", "path": "//evil.example/jobs"}, receive, send)

    with TestClient(odd, client=HERE, base_url="http://127.0.0.1") as web:
        assert 'href="/evil.example/jobs/new"' in web.get("/", headers=PAGE).text


def test_mounts_in_starlette_and_the_slash_at_the_end(busy):
    with client(Starlette(routes=[Mount("/ops", busy.asgi())])) as web:
        assert web.get("/ops", headers=PAGE).url.path == "/ops/"
        assert web.get("/ops/", headers=PAGE).status_code == 200


def test_the_state_of_the_host_is_not_ours(busy):
    """A host may keep anything in `scope["state"]`; a caller that stands there lets nobody in."""

    @asynccontextmanager
    async def lifespan(_):
        yield {"caller": "root", "admission": "root", "session": "x"}

    application = Starlette(routes=[Mount("/ops", busy.asgi(lambda scope: None))], lifespan=lifespan)
    with client(application) as web:
        assert web.get("/ops/api/v1/jobs").status_code == 401


# -- doors: without auth and without caller=


def test_only_this_host_gets_in_without_auth(busy, caplog):
    with client(host(busy)) as web:
        assert web.get("/ops/api/v1/jobs").status_code == 200
    assert "Without auth, a mounted dashboard answers only requests that come from this host" in caplog.text


@pytest.mark.parametrize("path", ["/", "/jobs", "/api/v1/jobs", "/docs", "/healthz", "/readyz", "/static/live.js"])
@pytest.mark.parametrize("who", [("203.0.113.7", 1), ("testclient", 1), None, ("172.17.0.1", 1), ("", 0)])
def test_no_door_is_open_for_other_hosts_whatever_host_they_name(busy, path, who):
    application = host(busy)

    async def from_there(scope, receive, send):
        await application(scope | ({"client": who} if scope["type"] == "http" else {}), receive, send)

    with client(from_there, base_url="http://localhost") as web:
        answer = web.get(f"/ops{path}", headers=PAGE)
    assert answer.status_code == 403
    assert "Set OSTINATO_AUTH_SECRET" in answer.json()["detail"]


@pytest.mark.parametrize("header", PROXIES)
def test_what_a_proxy_passes_on_is_not_from_this_host(busy, header):
    with client(host(busy)) as web:
        assert web.get("/ops/api/v1/jobs", headers={header: "127.0.0.1"}).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [{"host": "evil.example"}, {"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site"}],
    ids=["rebinding", "origin", "cross-site"],
)
def test_pages_of_other_sites_do_not_get_in_from_this_host(busy, headers):
    with client(host(busy)) as web:
        assert web.post("/ops/api/v1/jobs/greet/pause", headers=headers).status_code == 403
        assert web.get("/ops/jobs", headers=headers).status_code == 403
    assert busy.jobs.get("greet").status != "paused"


# -- doors: our own auth


def test_with_auth_a_key_is_required_and_a_log_in_stays_under_the_prefix(new_app):
    app = new_app(auth_secret=SECRET)
    key = app.scheduler.keys.create("vera", Role.VIEWER).text
    with client(host(app), client=("203.0.113.7", 1), base_url="https://shop.example", follow_redirects=False) as web:
        assert web.get("/ops/healthz").status_code == 200
        assert web.get("/ops/api/v1/jobs").status_code == 401
        assert web.get("/ops/api/v1/jobs", headers={"x-api-key": key}).status_code == 200
        asked = web.get("/ops/executions?state=failed", headers=PAGE)
        assert asked.headers["location"] == "/ops/login?next=%2Fexecutions%3Fstate%3Dfailed"
        page = web.get(asked.headers["location"])
        token = re.search(r'name="form_token" value="(\w+)"', page.text)[1]
        done = web.post("/ops/login", data={"form_token": token, "credential": key, "next": "/executions?state=failed"})
        assert done.headers["location"] == "/ops/executions?state=failed"
        assert {"Path=/ops/", "Secure", "HttpOnly", "SameSite=strict"} <= set(done.headers["set-cookie"].split("; "))
        assert "vera" in web.get("/ops/executions", headers=PAGE).text


# -- doors: the host's log-in


def test_the_log_in_of_the_host_is_the_caller(busy):
    with client(host(busy, caller=ann), client=("203.0.113.7", 1), base_url="https://shop.example") as web:
        web.headers["cookie"] = "user=ann:operator"
        assert web.post("/ops/api/v1/jobs/greet/pause").status_code == 200
        assert busy.jobs.events("greet")[0].by == "ann"
        page = web.get("/ops/jobs", headers=PAGE).text
        assert "ann" in page
        assert "Log out" not in page
        assert web.post("/ops/api/v1/jobs", json={"task": "greet", "schedule": "1h"}).status_code == 403
        assert web.get("/ops/login", follow_redirects=False).headers["location"] == "/ops/"


def test_without_a_log_in_of_the_host_nobody_gets_in(busy):
    with client(host(busy, caller=ann)) as web:
        assert web.get("/ops/api/v1/jobs").status_code == 401
        page = web.get("/ops/jobs", headers=PAGE)
        assert page.status_code == 401
        assert "Log in to the application" in page.text
        assert "data-stream" not in page.text
        assert web.post("/ops/login", data={"credential": "x"}).status_code == 401
        assert web.get("/ops/healthz").status_code == 200


def test_a_key_still_works_where_the_host_knows_nobody(new_app):
    app = new_app(auth_required=True)
    key = app.scheduler.keys.create("ci", Role.VIEWER).text
    with client(host(app, caller=ann), client=("203.0.113.7", 1)) as web:
        assert web.get("/ops/api/v1/jobs", headers={"x-api-key": key}).status_code == 200
        assert web.get("/ops/api/v1/jobs").status_code == 401
        assert web.get("/ops/api/v1/jobs", headers={"cookie": "user=ann:viewer"}).status_code == 200


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"origin": "https://evil.example"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site", "origin": "https://other.shop.example"}, 403),
        ({"sec-fetch-site": "same-origin", "origin": "https://shop.example"}, 200),
        ({"origin": "https://shop.example"}, 200),
        ({}, 200),
    ],
)
def test_the_cookie_of_the_host_does_not_let_pages_of_other_sites_act(busy, headers, code):
    with client(host(busy, caller=ann), base_url="https://shop.example") as web:
        answer = web.post("/ops/api/v1/jobs/greet/pause", headers={"cookie": "user=ann:admin", **headers})
        assert answer.status_code == code
    assert (busy.jobs.get("greet").status == "paused") is (code == 200)


def test_a_caller_may_be_async_and_sees_the_session_of_the_host(busy):
    async def caller(scope):
        return Request(scope).headers["x-user"], "viewer"

    with client(host(busy, caller=caller)) as web:
        assert web.get("/ops/api/v1/jobs", headers={"x-user": "ann"}).status_code == 200


@pytest.mark.parametrize("found", ["ann", ("ann", "boss"), ("", "admin"), ("ann",), True])
def test_a_caller_that_answers_something_else_is_an_error_and_lets_nobody_in(busy, found):
    with client(host(busy, caller=lambda scope: found)) as web, pytest.raises(Invalid, match="must return None or"):
        web.get("/ops/api/v1/jobs")


@pytest.mark.parametrize("name", ["anonymous", "declaration", "key:deploy"])
def test_a_name_of_our_own_is_refused(busy, name):
    with client(host(busy, caller=lambda scope: (name, "admin"))) as web:
        assert web.get("/ops/api/v1/jobs").status_code == 403


# -- the engine


def test_the_mount_starts_nothing_and_says_so(busy):
    with client(host(busy)) as web:
        answer = web.get("/ops/readyz")
        assert (answer.status_code, answer.json()["reasons"]) == (503, [NO_ENGINE])
        assert web.get("/ops/metrics").status_code == 200


def test_the_lifespan_of_the_host_holds_the_engine_and_the_end_drains_it(app):
    ended = []

    @app.task
    def slow() -> None:
        begun.set()
        go.wait()
        ended.append("slow")

    import threading

    begun, go = threading.Event(), threading.Event()
    with client(host(app, working=True)) as web:
        assert web.get("/ops/readyz").status_code == 200
        slow.enqueue()
        begun.wait()
        assert "ostinato_claims_total 1.0" in web.get("/ops/metrics").text
        threading.Timer(0.2, go.set).start()
    assert ended == ["slow"]
    with client(host(app)) as web:
        assert web.get("/ops/readyz").json()["reasons"] == [NO_ENGINE]


def test_the_api_lives_on_after_another_event_loop(busy):
    """Each `TestClient` has its own loop."""
    application = host(busy)
    for _ in range(2):
        with client(application) as web:
            assert web.get("/ops/api/v1/jobs").status_code == 200
    assert client(application).get("/ops/api/v1/jobs").status_code == 200


def test_a_database_that_is_away_is_told_and_tried_again(tmp_path, monkeypatch):
    app = Ostinato("shop", database_url=f"sqlite:///{tmp_path}/shop.db")
    open_really, away = app.open, [StoreUnavailable("away")] * 3

    def open_later(*, upgrade: bool = False):
        if away:
            raise away.pop()
        return open_really(upgrade=upgrade)

    monkeypatch.setattr(app, "open", open_later)
    with client(host(app)) as web:
        assert web.get("/ops/healthz").status_code == 200
        assert web.get("/ops/readyz").json() == {"ready": False, "reasons": [REASON]}
        assert web.get("/ops/api/v1/jobs").json() == {"detail": REASON}
        assert web.get("/ops/api/v1/jobs").status_code == 200
    app.close()


def test_a_database_that_cannot_be_used_is_told_in_the_log_only(tmp_path, caplog):
    app = Ostinato("shop", database_url=f"sqlite:///{tmp_path}/no/such/folder/shop.db")
    with client(host(app)) as web:
        answer = web.get("/ops/api/v1/jobs")
    assert (answer.status_code, answer.json()) == (503, {"detail": CANNOT_START})
    assert "no/such/folder" in caplog.text


def test_other_routes_of_the_host_are_untouched(busy):
    routes = [Route("/jobs", lambda _: PlainTextResponse("mine")), Mount("/ops", busy.asgi())]
    with client(Starlette(routes=routes), client=("203.0.113.7", 1)) as web:
        assert web.get("/jobs", headers=PAGE).text == "mine"


def test_without_the_extra_the_command_is_told(app, monkeypatch):
    monkeypatch.setattr(extras, "is_installed", lambda module: module != "jinja2")
    with pytest.raises(MissingExtra, match=r'app.asgi\(\) needs jinja2: pip install "ostinato\[server\]"'):
        app.asgi()


def test_a_stream_of_a_log_in_of_the_host_ends_after_a_minute_so_that_the_host_is_asked_again(monkeypatch):
    found = mounting.admitted(("ann", "viewer"), {"type": "http", "headers": []})
    assert found.check().caller.name == "ann"
    monkeypatch.setattr(mounting.time, "monotonic", lambda: found.until + 1)
    with pytest.raises(Unauthorized, match="must be checked again"):
        found.check()

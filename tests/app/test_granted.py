"""Grants of secrets: a worker reads only the secrets that its host grants; a real server records the requests."""

import asyncio
import base64
import json

import pytest
from starlette.testclient import TestClient

from ostinato.app.starting import announce
from ostinato.core.auth import InHeader
from ostinato.core.times import HOUR
from ostinato.features.notifications.rules import NoticeKind
from ostinato.features.notifications.service import HookService, NewHook
from ostinato.features.providers.rules import Provider
from ostinato.features.providers.service import ProviderService
from ostinato.features.sources.service import SourceContext, SourceService
from ostinato.features.workflows.service import WorkflowService
from ostinato.service.doctor import FindingState
from ostinato.wiring import build_api
from tests.app.conftest import during
from tests.playground import answered
from tests.rest.conftest import NoEngine
from tests.sources import a_source
from tests.waiting import PATIENCE, until

ENV = {"type": "bearer", "token": "env:PARTNER_TOKEN"}


@pytest.fixture
def app(new_app, playground, monkeypatch, tmp_path):
    """An app whose host grants the default secrets; two other secrets exist and are not granted."""
    monkeypatch.setenv("PARTNER_TOKEN", "s3cret-of-the-host")
    (tmp_path / "passwd").write_text("s3cret-of-the-host")
    playground.route("/good", lambda _: answered(b"{}"))
    return new_app(allow_private_addresses=True, allow_commands=True)


def ended(app, task, **args):
    """Run a job once and return its last execution."""

    async def body():
        (handle,) = app.enqueue([app.call(task, **args)])
        return await handle.await_(PATIENCE)

    return during(app, body)


def api_of(app):
    return TestClient(build_api(app.parts, app.scheduler, NoEngine()), base_url="http://127.0.0.1:8060")


def test_an_http_job_sends_no_secret_that_is_not_granted(app, playground, tmp_path):
    for reference in ("env:PARTNER_TOKEN", f"file:{tmp_path}/passwd"):
        for auth in (
            {"type": "bearer", "token": reference},
            {"type": "basic", "username": "x", "password": reference},
            {"type": "header", "name": "X-Key", "value": reference},
            {"type": "query", "name": "key", "value": reference},
            {"type": "oauth2_client_credentials", "tokenUrl": playground.url("/good"), "clientId": "c",
             "clientSecret": reference},
        ):  # fmt: skip
            run = ended(app, "http", url=playground.url("/good"), auth=auth)
            assert (run.status, run.attempt) == ("failed", 0)
            assert f"Add {reference} to OSTINATO_SECRETS" in str(run.error)
    assert playground.requests == []


def test_the_key_of_tokens_is_sent_nowhere_though_a_grant_matches_it(new_app, playground, monkeypatch, capsys):
    monkeypatch.setenv("SECRET_AUTH", "our-own-signing-key-0123456789-0123456789")
    playground.route("/good", lambda _: answered(b"{}"))
    app = new_app(allow_private_addresses=True, allow_commands=True, auth_secret="env:SECRET_AUTH")
    token = {"type": "bearer", "token": "env:SECRET_AUTH"}
    for task, args in (
        ("http", {"url": playground.url("/good"), "auth": token}),
        ("command", {"argv": ["env"], "secrets": {"P": "env:SECRET_AUTH"}}),
    ):
        run = ended(app, task, **args)
        assert run.status == "failed", task
        assert "The secret env:SECRET_AUTH is one of Ostinato's settings" in str(run.error), task
    assert playground.requests == []
    service = app.scheduler
    service.part(HookService).create(NewHook("https://a.org", (NoticeKind.FINISH,), secret="env:SECRET_AUTH"))
    assert service.warnings(["env:SECRET_AUTH"]) == [
        "The secret env:SECRET_AUTH is one of Ostinato's settings and is never granted. Name another secret."
    ]
    (finding,) = [each for each in service.check_up() if each.subject == "secrets"]
    assert (finding.state, finding.advice) == (
        FindingState.LOOK,
        "It is one of Ostinato's settings: name another secret.",
    )
    capsys.readouterr()
    announce(app, app.apply_declarations(), worker=True)
    assert "is not granted on this host. It is one of Ostinato's settings" in capsys.readouterr().out


def test_a_user_name_is_text_and_never_a_reference(app, playground, monkeypatch):
    monkeypatch.setenv("SECRET_WORD", "word")
    monkeypatch.setenv("OSTINATO_AUTH_SECRET", "s3cret-of-ours")
    auth = {"type": "basic", "username": "env:OSTINATO_AUTH_SECRET", "password": "env:SECRET_WORD"}
    assert ended(app, "http", url=playground.url("/good"), auth=auth).status == "completed"
    (request,) = playground.requests
    sent = base64.b64decode(request.headers["authorization"].removeprefix("Basic ")).decode()
    assert sent == "env:OSTINATO_AUTH_SECRET:word"


def test_what_the_host_grants_is_sent(new_app, playground, monkeypatch, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "token").write_text("granted\n")
    playground.route("/good", lambda _: answered(b"{}"))
    app = new_app(allow_private_addresses=True, secrets=[f"file:{tmp_path}/folder/*"])
    token = {"type": "bearer", "token": f"file:{tmp_path}/folder/token"}
    assert ended(app, "http", url=playground.url("/good"), auth=token).status == "completed"
    assert playground.requests[0].headers["authorization"] == "Bearer granted"


def test_a_program_gets_no_secret_that_is_not_granted(app):
    run = ended(app, "command", argv=["true"], secrets={"P": "env:PARTNER_TOKEN"})
    assert run.status == "failed"
    assert "Add env:PARTNER_TOKEN to OSTINATO_SECRETS" in str(run.error)


def test_a_source_sends_and_opens_nothing_that_is_not_granted(app, playground):
    here = SourceContext(permits=app.settings.permits)
    by_token = a_source(name="a", url=playground.url("/good"), auth=ENV)
    by_database = a_source(name="b", url=playground.url("/good"), database="env:PARTNER_TOKEN")
    for definition in (by_token, by_database):
        app.scheduler.part(SourceService).create(definition, here)
    with pytest.raises(ValueError, match="Add env:PARTNER_TOKEN to OSTINATO_SECRETS"):
        app.scheduler.part(SourceService).test(by_token, here)

    def errors():
        return [str(run.error) for run in app.scheduler.executions.search(states=["failed"]).items]

    during(app, lambda: until(lambda: asyncio.to_thread(lambda: len(errors()) == 2)))
    assert all("Add env:PARTNER_TOKEN to OSTINATO_SECRETS" in error for error in errors())
    assert [each for each in playground.requests if "authorization" in each.headers] == []


def test_a_provider_sends_no_key_that_is_not_granted(app, playground):
    provider = Provider("127.0.0.1", 100, HOUR, InHeader("X-Key", "env:PARTNER_TOKEN"))
    app.scheduler.part(ProviderService).create(provider)
    run = ended(app, "http", url=playground.url("/good"))
    assert "Add env:PARTNER_TOKEN to OSTINATO_SECRETS" in str(run.error)
    assert playground.requests == []


def test_a_hook_is_not_signed_with_a_secret_that_is_not_granted(app, playground):
    app.register("fine", lambda: None)
    hook = app.scheduler.part(HookService).create(
        NewHook(playground.url("/good"), (NoticeKind.FINISH,), secret="env:PARTNER_TOKEN"),
        egress=app.settings.allow_private_addresses,
    )

    async def body():
        app.enqueue([app.call("fine")])
        found = app.scheduler.part(HookService).deliveries
        return await until(lambda: [each for each in found(hook.hook.id) if each.error])

    (delivery,) = during(app, body)
    assert "Add env:PARTNER_TOKEN to OSTINATO_SECRETS" in delivery.error
    assert playground.requests == []


# -- warnings before a run


def test_the_door_refuses_only_what_no_host_could_grant_and_warns_of_the_rest(app, playground):
    api = api_of(app)

    def make(reference):
        auth = {"type": "basic", "username": "x", "password": reference}
        args = {"url": playground.url("/good"), "auth": auth}
        return api.post("/api/v1/jobs", json={"task": "http", "args": args, "schedule": "manual"})

    for reference in (
        "file:/proc/self/environ",
        "file:/run/../proc/self/environ",
        "env:OSTINATO_AUTH_SECRET",
    ):
        refused = make(reference)
        assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "args.auth.password")
    for reference in ("env:PARTNER_TOKEN", "file:/etc/passwd"):
        made = make(reference)
        assert made.status_code == 201
        assert f"Add {reference} to OSTINATO_SECRETS" in made.headers["warning"]
    granted = make("env:SECRET_TOKEN")
    assert "warning" not in granted.headers
    edited = api.patch(f"/api/v1/jobs/{granted.json()['id']}", json={"args": {"url": "http://a.org", "auth": ENV}})
    assert "env:PARTNER_TOKEN" in edited.headers["warning"]


def test_hooks_sources_and_providers_are_warned_of_too(app, playground):
    api = api_of(app)
    key = {"type": "header", "name": "X-Key", "value": "env:PARTNER_TOKEN"}
    given = {
        "/hooks": {"url": playground.url("/good"), "kinds": ["failure"], "secret": "env:PARTNER_TOKEN"},
        "/sources": a_source(auth=ENV),
        "/providers": {"domain": "a.org", "limit": 1, "period": "1m", "key": key},
    }
    for path, body in given.items():
        answer = api.post(f"/api/v1{path}", json=body)
        assert answer.status_code == 201, answer.text
        assert "env:PARTNER_TOKEN" in answer.headers["warning"], path
    wrong = replace_secret(given, "file:/proc/self/environ")
    for path, body in wrong.items():
        assert api.post(f"/api/v1{path}", json=body).status_code == 422, path


def replace_secret(given, reference):
    return json.loads(json.dumps(given).replace("env:PARTNER_TOKEN", reference))


def stored(app):
    """One reference of each kind that is not granted, and one that is."""
    service = app.scheduler
    for number, reference in enumerate(("env:OF_A_JOB", "env:SECRET_TOKEN")):
        args = {"url": "https://a.org", "auth": {"type": "bearer", "token": reference}}
        app.schedule(app.call("http", **args), every="1h", key=f"job-{number}")
    app.apply_declarations()
    service.part(HookService).create(NewHook("https://a.org", (NoticeKind.FINISH,), secret="env:OF_A_HOOK"))
    service.part(ProviderService).create(Provider("a.org", 1, HOUR, InHeader("X-Key", "env:OF_A_PROVIDER")))
    service.part(SourceService).create(a_source(auth={"type": "bearer", "token": "env:OF_A_SOURCE"}), SourceContext())
    call = {"url": "https://a.org", "auth": {"type": "bearer", "token": "env:OF_A_STEP"}}
    service.part(WorkflowService).create("flow", [{"id": "call", "task": "http", "args": call}])


def test_the_doctor_and_the_start_line_list_what_is_not_granted(app, capsys):
    def finding():
        return next(each for each in app.scheduler.check_up() if each.subject == "secrets")

    assert finding().state is FindingState.OK
    stored(app)
    assert {each.reference for each in app.scheduler.ungranted()} == {
        f"env:OF_A_{user}" for user in ("JOB", "HOOK", "PROVIDER", "SOURCE", "STEP")
    }
    assert finding().state is FindingState.LOOK
    assert "env:OF_A_JOB (job job-0)" in finding().finding
    assert "add them to OSTINATO_SECRETS: env:OF_A_HOOK,env:OF_A_JOB" in finding().advice
    capsys.readouterr()
    announce(app, app.apply_declarations(), worker=True)
    out = capsys.readouterr().out
    assert "env:OF_A_JOB (job job-0) is not granted on this host. Add it to OSTINATO_SECRETS" in out
    assert "and 2 more" in out  # of five
    assert "SECRET_TOKEN" not in out


def test_a_warning_names_three_secrets_and_counts_the_others(app):
    named = [f"env:TOKEN_{number}" for number in range(700)]
    told = app.scheduler.warnings(named)
    assert [*told[:3], told[3]] == told
    assert told[3] == "and 697 more"
    secrets = {name[4:]: name for name in named[:99]} | {"LONG": f"file:/{'é' * 3000}"}
    args = {"argv": ["true"], "secrets": secrets}
    made = api_of(app).post("/api/v1/jobs", json={"task": "command", "args": args, "schedule": "manual"})
    assert made.status_code == 201, made.text
    assert len(made.headers["warning"]) < 5_000

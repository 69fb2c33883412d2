"""Sources over HTTP: made, looked at, changed, tried, applied, deleted."""

import socket

import pytest
from starlette.testclient import TestClient

from ostinato.core.access import Admission, Caller, Role
from ostinato.features.sources import databases
from ostinato.rest.app import create_app
from tests.played_api import PlayedApi, a_source_of
from tests.sources import a_source

SOURCES = "/api/v1/sources"


@pytest.fixture
def settings_api(new_app):
    """The API of an app with other settings."""

    def client(**settings):
        app = new_app(**settings)
        me = Caller("ann", Role.ADMIN)
        return TestClient(create_app(app.scheduler, app.settings, recognise=lambda _: Admission(me)))

    return client


@pytest.fixture
def api(settings_api):
    return settings_api()


def test_a_source_is_made_once_and_shown_as_it_was_written(api):
    written = a_source(auth={"type": "bearer", "token": "env:SECRET_GDP_TOKEN"}, schedule="interval:30m")
    made = api.post(SOURCES, json=written)
    assert made.status_code == 201
    body = made.json()
    assert api.get(f"/api/v1/jobs/{body['id']}").json()["key"] == "source:us_gdp"
    assert (body["status"], body["schedule"], body["definition"]) == ("active", "every 30 minutes", written)
    assert (body["retry_count"], body["period_start"], body["next_retry_at"]) == (0, None, None)
    assert api.post(SOURCES, json=written).status_code == 409
    assert [each["name"] for each in api.get(SOURCES).json()["sources"]] == ["us_gdp"]
    assert api.get(f"{SOURCES}/us_gdp").json()["id"] == body["id"]
    assert api.get(f"{SOURCES}/nobody").status_code == 404


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"url": "gopher://example.org"}, "url"),
        ({"url": "http://127.0.0.1/x"}, "private network"),
        ({"database": "postgresql://127.0.0.1:5432/x"}, "private network"),
        ({"database": "postgresql://169.254.169.254/x"}, "metadata service"),
        ({"database": "postgresql:///x"}, "Unix sockets"),
        ({"database": "postgresql://h/x?service=y"}, "service"),
        ({"database": "sqlite:////etc/passwd"}, "data folder"),
        ({"database": "sqlite:////tmp/never-made-by-a-test.db"}, "data folder"),
        ({"database": "sqlite:///text.db"}, "cannot be used"),
        ({"table": "jobs"}, "table"),
        ({"schedule": "sometimes"}, "schedule"),
        ({"response": {}}, "response.fields"),
        ({"auth": {"type": "bearer", "token": "hunter2"}}, "auth.token"),
        ({"unknown": 1}, "unknown"),
    ],
)
def test_what_is_wrong_is_refused_with_the_name_of_the_field(settings_api, tmp_path, wrong, named):
    (tmp_path / "text.db").write_text("This is not a database. " * 100)
    api = settings_api(data_folder=str(tmp_path))
    refused = api.post(SOURCES, json=a_source(**wrong))
    assert refused.status_code == 422
    assert named in refused.json()["detail"]
    assert "hunter2" not in refused.text
    assert api.get(SOURCES).json()["total"] == 0


def test_a_source_is_replaced_edited_and_deactivated(api):
    api.post(SOURCES, json=a_source())
    replaced = api.put(f"{SOURCES}/us_gdp", json=a_source(schedule="hourly", description="by the hour"))
    assert (replaced.json()["schedule"], replaced.json()["description"]) == ("every hour", "by the hour")
    edited = api.patch(f"{SOURCES}/us_gdp", json={"description": None, "execution": {"maxRetries": 2}})
    assert (edited.json()["description"], edited.json()["max_retries"]) == ("", 2)
    assert api.patch(f"{SOURCES}/us_gdp", json={"name": "other"}).status_code == 422
    off = api.patch(f"{SOURCES}/us_gdp", json={"status": "off"}).json()
    assert (off["status"], off["job_status"], off["next_run_at"]) == ("off", "paused", None)
    assert api.post(f"{SOURCES}/us_gdp/run").status_code == 409
    on = api.patch(f"{SOURCES}/us_gdp", json={"status": "active"}).json()
    assert (on["status"], on["job_status"]) == ("active", "pending"), "it has never run: at once"


def test_apply_says_what_it_would_do_and_does_it(api):
    api.post(SOURCES, json=a_source(name="old"))
    wanted = [a_source(), a_source(name="other")]

    def applied(**more):
        answer = api.post(f"{SOURCES}/apply", json={"sources": wanted, **more})
        assert answer.status_code == 200, answer.text
        return {each["name"]: each["change"] for each in answer.json()["plan"]}

    new = {"us_gdp": "created", "other": "created"}
    assert applied(dry_run=True) == new | {"old": "kept"}
    assert applied() == new | {"old": "kept"}
    wanted[0] = a_source(schedule="hourly")
    assert applied(prune=True) == {"us_gdp": "changed", "other": "unchanged", "old": "deleted"}
    assert [each["name"] for each in api.get(SOURCES).json()["sources"]] == ["other", "us_gdp"]
    assert api.post(f"{SOURCES}/apply", json={"sources": [wanted[0], wanted[0]]}).status_code == 422


def test_a_definition_is_tried_without_a_trace(settings_api):
    api = settings_api(allow_private_addresses=True)
    with PlayedApi() as played:
        tried = api.post(f"{SOURCES}/test", json=a_source_of(played.url("/gzip"))).json()
        assert (tried["columns"], tried["rows"][0]) == (["number", "amount", "title"], [0, 0.5, "record 0"])
        assert (tried["records"], tried["distinct"], tried["rejected"], tried["more"]) == (5, 5, 0, False)
        refused = api.post(f"{SOURCES}/test", json=a_source_of(played.url("/500")))
        assert refused.status_code == 422
        assert "500" in refused.json()["detail"]
    assert api.get(SOURCES).json()["total"] == 0


def test_there_are_no_records_before_the_first_run(api):
    api.post(SOURCES, json=a_source(table="never_made"))
    assert api.get(f"{SOURCES}/us_gdp/records").json() == {"records": [], "table": "never_made", "limit": 20}
    assert api.get(f"{SOURCES}/us_gdp/records?limit=0").status_code == 422
    assert api.delete(f"{SOURCES}/us_gdp?with_data=true").json()["rows_deleted"] == 0


def test_a_viewer_reads_records_of_no_address_that_is_not_allowed(settings_api, monkeypatch, caplog):
    with socket.create_server(("127.0.0.1", 0)) as trap:
        trap.settimeout(0)
        monkeypatch.setenv("SECRET_DATABASE", f"postgresql://ann:hunter2@127.0.0.1:{trap.getsockname()[1]}/x")
        api = settings_api()
        assert api.post(SOURCES, json=a_source(database="env:SECRET_DATABASE")).status_code == 201
        refused = api.get(f"{SOURCES}/us_gdp/records")
        with pytest.raises(BlockingIOError):
            trap.accept()
    assert refused.status_code == 409
    assert "cannot be used; the log of the server says why" in refused.json()["detail"]
    assert "must not lead into a private network" in caplog.text
    assert not any(part in refused.text for part in ("hunter2", "127.0.0.1"))  # the reference hides its URL


@pytest.mark.parametrize("hidden", ["postgresql://inner.example/x?service=tok3n", "mysql://tok3n@h/x"])
def test_a_url_behind_a_reference_is_not_told_in_parts(settings_api, monkeypatch, hidden):
    monkeypatch.setenv("SECRET_DATABASE", hidden)
    api = settings_api()
    assert api.post(SOURCES, json=a_source(database="env:SECRET_DATABASE")).status_code == 201
    refused = api.get(f"{SOURCES}/us_gdp/records")
    assert refused.status_code == 409
    assert refused.json()["detail"] == (
        "database: the database of the source 'us_gdp' cannot be used; the log of the server says why."
    )
    monkeypatch.delenv("SECRET_DATABASE")
    assert "There is no secret at env:SECRET_DATABASE" in api.get(f"{SOURCES}/us_gdp/records").text


def test_databases_that_do_not_answer_hold_few_threads_and_not_for_long(settings_api, monkeypatch):
    monkeypatch.setattr(databases, "ANSWER_WITHIN", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://ann@127.0.0.1:{silent.getsockname()[1]}/x"
        api = settings_api(allow_private_addresses="127.0.0.0/8")
        assert api.post(SOURCES, json=a_source(database=url)).status_code == 201  # the first call
        answers = [api.get(f"{SOURCES}/us_gdp/records") for _ in range(databases.CALLS_AT_ONCE)]
    assert [answer.status_code for answer in answers] == [503] * databases.CALLS_AT_ONCE
    assert "does not answer" in answers[0].json()["detail"]
    assert answers[-1].json()["detail"] == "3 calls to databases of sources are running; try again."


def test_a_database_that_fails_is_told_in_a_sentence_without_the_words_of_its_driver(
    settings_api, monkeypatch, tmp_path, caplog
):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    monkeypatch.setenv("SECRET_DATABASE", f"postgresql://ann@127.0.0.1:{port}/x")
    api = settings_api(allow_private_addresses="127.0.0.0/8", data_folder=str(tmp_path))
    assert api.post(SOURCES, json=a_source(database="env:SECRET_DATABASE")).status_code == 201
    away = api.get(f"{SOURCES}/us_gdp/records")
    assert away.status_code == 503
    assert "does not answer" in away.json()["detail"]
    assert str(port) not in away.text
    assert str(port) in caplog.text

    (tmp_path / "text.db").write_text("This is not a database. " * 100)
    monkeypatch.setenv("SECRET_DATABASE", f"sqlite:///{tmp_path}/text.db")
    no_database = api.get(f"{SOURCES}/us_gdp/records")
    assert no_database.status_code == 409
    assert "cannot be used" in no_database.json()["detail"]
    assert api.request("DELETE", f"{SOURCES}/us_gdp", params={"with_data": True}).status_code == 409
    assert api.get(f"{SOURCES}/us_gdp").status_code == 200

"""How commands reach the front desk, and what they say when they do not."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from ostinato.cli.client import ApiReply, Request, path, read
from ostinato.core.errors import (
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    OstinatoError,
    StoreUnavailable,
    Unauthorized,
)


def test_a_request_says_what_was_asked_for_and_no_more():
    asked = Request("GET", path("jobs", "a/b ?"), {"status": ["x", "y"], "n": 3, "none": None, "yes": True})
    assert asked.target == "/api/v1/jobs/a%2Fb%20%3F?status=x&status=y&n=3&yes=true"


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, Invalid), (401, Unauthorized), (403, Forbidden), (404, NotFound), (409, Conflict), (412, Conflict),
     (413, Invalid), (422, Invalid), (503, StoreUnavailable), (500, OstinatoError), (418, OstinatoError)],
)  # fmt: skip
def test_a_refusal_is_an_error_of_ours_with_the_sentence_of_the_api(status, kind):
    with pytest.raises(kind, match=r"^No\.$") as caught:
        read(ApiReply(status, b'{"detail": "No."}', {}))
    assert type(caught.value) is kind


@pytest.mark.parametrize("content", [b"<html>", b"[]", b'{"detail": 3}', b"\xff"])
def test_a_refusal_in_other_words(content):
    with pytest.raises(NotFound, match="answered 404, but not like Ostinato: check its address"):
        read(ApiReply(404, content, {}))


def test_an_answer_that_is_not_json():
    with pytest.raises(OstinatoError, match="check the address of the server"):
        read(ApiReply(200, b"<html>", {}))


def test_no_content_is_nothing():
    assert read(ApiReply(204, b"", {})) is None


# -- servers


class Stranger(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path.startswith("/moved"):
            self.send_response(307)
            self.send_header("Location", "http://127.0.0.1:1/elsewhere")
            self.end_headers()
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<html>hello</html>")

    def log_message(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def stranger():
    """An HTTP server that is not ours."""
    server = HTTPServer(("127.0.0.1", 0), Stranger)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_server_that_does_not_answer(ostinato):
    answer = ostinato("job", "list", "--server", "http://127.0.0.1:1")
    assert (answer.code, answer.out) == (5, "")
    assert answer.err.startswith("No answer from http://127.0.0.1:1: ")
    assert len(answer.err.splitlines()) == 1


def test_a_server_that_is_not_ours(ostinato, stranger):
    answer = ostinato("job", "list", "--server", stranger)
    assert (answer.code, answer.out) == (1, "")
    assert "check the address of the server" in answer.err


def test_a_token_is_not_carried_elsewhere(ostinato, stranger):
    answer = ostinato("job", "list", "--server", f"{stranger}/moved", "--token", "t")
    assert (answer.code, answer.out) == (1, "")


@pytest.mark.parametrize(
    "server",
    ["localhost:8060", "ftp://host", "http://", "http://me:pass@host", "http://host?x", "http://[::1", ""],
)
def test_an_address_that_cannot_be(ostinato, server):
    answer = ostinato("job", "list", "--server", server)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("--server is the address of a server")


# -- databases


def test_a_database_that_is_away(ostinato):
    answer = ostinato("job", "list", "--database", "postgresql://me:secret@127.0.0.1:1/none")
    assert (answer.code, answer.out) == (5, "")
    assert "secret" not in answer.err
    assert len(answer.err.splitlines()) == 1


def test_a_schema_that_is_behind(ostinato, empty_postgres_url):
    answer = ostinato("job", "list", "--database", empty_postgres_url)
    assert (answer.code, answer.out) == (5, "")
    assert "run `ostinato db upgrade`" in answer.err


def test_the_database_of_the_flag_comes_before_the_server_of_the_environment(ostinato, empty_sqlite_url, monkeypatch):
    monkeypatch.setenv("OSTINATO_SERVER", "http://127.0.0.1:1")
    assert ostinato("job", "list").code == 5
    assert json.loads(ostinato("job", "list", "--database", empty_sqlite_url, "--json").out)["jobs"] == []


def test_the_variables_of_the_command_line_are_no_mistakes(ostinato, monkeypatch):
    monkeypatch.setenv("OSTINATO_SERVER", "http://127.0.0.1:1")
    monkeypatch.setenv("OSTINATO_TOKEN", "t")
    assert ostinato("config", "show").err == ""


def test_a_bug_is_one_sentence_and_exit_code_1(ostinato, empty_sqlite_url, monkeypatch, caplog):
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a secret of ours")

    monkeypatch.setattr("ostinato.service.jobs.JobService.search", broken)
    answer = ostinato("job", "list", "--database", empty_sqlite_url)
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.splitlines()[-1].startswith("Internal error")

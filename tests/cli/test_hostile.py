"""Hostile input on the command line: a sentence and the right exit code, never a traceback."""

import itertools
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from ostinato.program import run
from tests.shapes.test_documents import BOMB, nested

DEEP = nested(100_000)
FILES = {
    "bomb.yaml": BOMB.encode(),
    "deep.yaml": DEEP.encode(),
    "deep.json": DEEP.encode(),
    "deeper.json": nested(100_000, '{"name":').encode(),
    "binary.yaml": bytes(range(256)),
    "empty.yaml": b"",
    "empty.json": b"",
    "null.json": b"null",
    "list.yaml": b"- 1\n- 2",
    "date.yaml": b"name: x\nday: 2026-11-18",
    "tags.yaml": b"!!python/object/apply:os.system ['true']",
    "number.yaml": b"!!int ''",
    "nul.yaml": b"name: a\0b",
    "self.yaml": b"name: &a [*a]",
    "twice.yaml": b"name: x\nname: y",
}
NAMES = [*FILES, "missing.yaml", ".", "x" * 5000, "/dev/null"]
TAKES_A_FILE = [
    ("source", "apply", "--yes"),
    ("source", "test"),
    ("provider", "apply"),
    ("workflow", "apply"),
    ("template", "apply"),
    ("import", "jobs"),
    ("import", "crontab"),
]
NOT_UTF_8 = "\udcff"
TEXTS = [
    NOT_UTF_8,
    DEEP,
    '{"a":' * 100_000,
    "\x1b[31m",
    "é" * 3000,
    '{"a": NaN}',
    "9" * 5000,
    "..",
    "a/b",
    "",
]
CALLS = [
    *[(*command, name) for command, name in itertools.product(TAKES_A_FILE, NAMES)],
    *[("job", "add", "fine", "--every", "1h", "--args", text) for text in TEXTS],
    *[("job", "add", "fine", "--every", text) for text in TEXTS],
    *[("job", "add", text, "--every", "1h", "--allow-unknown", "--arg", f"a={text}") for text in TEXTS],
    *[("job", "show", text) for text in TEXTS],
    *[("job", "list", "--search", text) for text in TEXTS],
    *[("preview", text) for text in TEXTS],
    *[("preview", "@daily", "--timezone", text) for text in (*TEXTS, "Factory", "localtime", "posixrules")],
    *[("workflow", "run", "x", "--payload", text) for text in TEXTS],
    *[("job", "list", "--database", f"sqlite:///{text}") for text in (*TEXTS, "x" * 300, "a/" * 3000 + "b")],
    *[("job", "list", "--database", f"postgresql://127.0.0.1:1/{text[:200]}") for text in TEXTS],
    *[("job", "list", "--server", text) for text in (*TEXTS, "http://é..x", "http://" + "a" * 300, "http://[::1")],
    *[("job", "list", "--server", "http://127.0.0.1:1", "--token", text) for text in TEXTS],
]
ANSWERS = [
    b"", b"null", b"[]", b"1", b'"x"', b"{}", b'{"jobs": 1}', b'{"jobs": [1]}', b'{"jobs": [{}]}', b'{"detail": 1}',
    b"<html>", b"\xff\xfe", DEEP.encode(), b'{"jobs": [], "cursor": 7}'[:12],
]  # fmt: skip
STATUSES = (200, 204, 302, 404, 500)


@pytest.fixture
def files(tmp_path) -> None:
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)


def test_there_are_enough_of_them():
    assert len(CALLS) + len(ANSWERS) * len(STATUSES) >= 167


def test_hostile_input_is_answered_with_a_sentence(ostinato, files, monkeypatch):
    monkeypatch.setenv("OSTINATO_DATABASE_URL", "sqlite:///ostinato.db")
    assert ostinato("db", "upgrade").code == 0
    for call in CALLS:
        code, out, said = ostinato(*call)  # an exception would fail the test
        shown = [part[:60] for part in call]
        assert code in (0, 1, 2, 3, 4, 5), shown
        assert "Traceback" not in said, shown
        assert code == 0 or out.strip() or said.strip(), shown
        assert len(said) < 20_000, shown


@pytest.mark.parametrize("zone", ["Factory", "localtime", "posixrules"])
def test_zones_that_differ_by_machine_are_refused(ostinato, zone):
    code, _, said = ostinato("preview", "@daily", "--timezone", zone)
    assert (code, zone in said) == (2, True)


@pytest.mark.parametrize("command", [("source", "apply", "--yes"), ("source", "test")])
def test_an_alias_bomb_in_a_file_is_refused(ostinato, files, monkeypatch, command):
    monkeypatch.setenv("OSTINATO_DATABASE_URL", "sqlite:///ostinato.db")
    ostinato("db", "upgrade")
    code, _, said = ostinato(*command, "bomb.yaml")
    assert (code, "aliases" in said) == (2, True)


def test_an_argument_that_is_not_utf_8_is_named(ostinato):
    code, _, said = ostinato("job", "show", NOT_UTF_8)
    assert (code, said) == (2, "Argument 3 is not text in UTF-8: write it in UTF-8.\n")


def test_a_database_path_that_is_too_long_is_refused(ostinato):
    code, _, said = ostinato("job", "list", "--database", f"sqlite:///{'x' * 300}")
    assert (code, "too long" in said) == (2, True)


def test_errors_of_the_system_have_an_exit_code(ostinato, monkeypatch):
    def raises(error):
        def command(*_, **__):
            raise error

        return command

    for error, code in [
        (OSError(36, "File name too long", "x" * 5000), 2),
        (OSError(28, "No space left on device"), 1),
        (RecursionError(), 2),
        (UnicodeEncodeError("utf-8", "x", 0, 1, "surrogates not allowed"), 2),
    ]:
        monkeypatch.setitem(run.__globals__, "_commands", lambda _, error=error: raises(error))
        said = ostinato("x")
        assert said.code == code
        assert 0 < len(said.err) < 300


class Odd(BaseHTTPRequestHandler):
    """Answers everything with what the test has set."""

    status, body = 200, b""

    def _answer(self) -> None:
        self.send_response(Odd.status)
        self.send_header("Content-Length", str(len(Odd.body)))
        self.end_headers()
        self.wfile.write(Odd.body)

    do_GET = do_POST = do_PUT = do_DELETE = _answer  # noqa: N815

    def log_message(self, *_) -> None: ...


@pytest.fixture
def odd() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Odd)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_an_odd_answer_of_a_server_is_told_in_a_sentence(ostinato, odd):
    for body, Odd.body in [(body, body) for body in ANSWERS]:
        for Odd.status in STATUSES:
            for call in (
                ("job", "list"),
                ("job", "show", "x"),
                ("job", "pause", "x"),
                ("workers",),
                ("stats",),
            ):
                code, _, said = ostinato(*call, "--server", odd)
                about = (body[:40], Odd.status, call)
                assert code in (0, 1, 2, 3, 4, 5), about
                assert "Traceback" not in said, about
    Odd.status, Odd.body = 200, json.dumps({"jobs": [{}]}).encode()
    code, _, said = ostinato("job", "list", "--server", odd)
    assert (code, "check the address of the server" in said) == (1, True)

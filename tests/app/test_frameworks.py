"""The examples for FastAPI and asyncio, run as their pages say, with real processes and requests."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.docs.pages import ROOT, blocks
from tests.waiting import PATIENCE, eventually

EXAMPLES, FRAMEWORKS = ROOT / "examples", ROOT / "docs" / "frameworks"
pytestmark = pytest.mark.system


def clean() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("OSTINATO_")}


def asked(address: str, body: object = None) -> object:
    data = None if body is None else json.dumps(body).encode()
    sent = urllib.request.Request(address, data, {"content-type": "application/json"})
    with urllib.request.urlopen(sent, timeout=PATIENCE) as answer:
        return json.load(answer)


def listens(address: str) -> bool:
    where = urlsplit(address)
    try:
        socket.create_connection((where.hostname, where.port), PATIENCE).close()
    except ConnectionRefusedError:
        return False
    return True


@contextmanager
def uvicorn(folder: Path, *flags: str) -> Iterator[Callable[..., object]]:
    """uvicorn as the page starts it, but on a free port; a way to ask it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "uvicorn", "shop:app", "--port", "0", *flags],
        cwd=folder, env=clean(), stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    said = ""
    try:
        while not ((found := re.search(r"running on (http://\S+)", said)) and "startup complete" in said):
            line = process.stderr.readline()
            assert line, said
            said += line
        eventually(lambda: listens(found[1]))  # with several workers, one may have begun before the port is open
        yield lambda path, body=None: asked(found[1] + path, body)
        process.send_signal(signal.SIGTERM)
        said += process.communicate(timeout=PATIENCE)[1]
        assert "Traceback" not in said, said
    finally:
        process.kill()
        process.wait()


def code_of(file: Path) -> str:
    """The program of an example, without its docstring."""
    return file.read_text().split('"""', 2)[2].strip()


def test_the_page_shows_the_example():
    (_, page, *_) = blocks(FRAMEWORKS / "fastapi.md", "py")
    assert page.removeprefix("# shop.py\n").strip() == code_of(EXAMPLES / "fastapi_shop" / "shop.py")


def test_the_first_program_of_the_page_has_a_scheduled_job(tmp_path):
    (tmp_path / "main.py").write_text(blocks(FRAMEWORKS / "fastapi.md", "py")[0])
    program = "from fastapi.testclient import TestClient\nfrom main import app, jobs\n"
    program += "with TestClient(app):\n    print(jobs.jobs.get('report').status)\n"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path, env=clean(), capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert done.stdout == "scheduled\n", done.stderr


@pytest.mark.parametrize("flags", [(), ("--workers", "2")], ids=["one", "two"])
def test_an_order_is_confirmed_by_its_job(tmp_path, flags):
    shutil.copy(EXAMPLES / "fastapi_shop" / "shop.py", tmp_path)
    with uvicorn(tmp_path, *flags) as ask:
        made = [ask("/orders", {"to": name}) for name in ("ann", "bob")]
        eventually(lambda: [each["confirmed"] for each in ask("/orders")] == [True, True])
        for each in made:
            eventually(lambda job=each["job"]: ask(f"/jobs/{job}")["status"] == "completed")
        assert ask("/ops/readyz") == {"ready": True, "reasons": []}
        runs = ask("/ops/api/v1/executions?task=confirm")["executions"]
        assert len(runs) == 2, "each order has one run, however many processes work"


FAILING = """
from fastapi import HTTPException

@app.post("/failing")
def failing(body: NewOrder, session: Annotated[Session, Depends(a_session, scope="function")]):
    made = Order(to=body.to)
    session.add(made)
    session.flush()
    confirm.using(connection=session).enqueue(made.id)
    raise HTTPException(409, "sold out")
"""


def test_a_request_that_fails_leaves_neither_order_nor_job(tmp_path):
    (tmp_path / "shop.py").write_text((EXAMPLES / "fastapi_shop" / "shop.py").read_text() + FAILING)
    with uvicorn(tmp_path) as ask:
        with pytest.raises(urllib.error.HTTPError, match="409"):
            ask("/failing", {"to": "ann"})
        assert ask("/orders") == []
        assert [job["task"] for job in ask("/ops/api/v1/jobs")["jobs"]] == ["clean_up"]


def test_the_tests_of_the_page_pass(tmp_path):
    shutil.copy(EXAMPLES / "fastapi_shop" / "shop.py", tmp_path)
    (tmp_path / "test_shop.py").write_text(blocks(FRAMEWORKS / "fastapi.md", "py")[-1])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_shop.py"],
        cwd=tmp_path, env=clean(), capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert "1 passed" in done.stdout, done.stdout


def test_the_program_on_asyncio_works_until_ctrl_c(tmp_path):
    shutil.copy(EXAMPLES / "asyncio_worker.py", tmp_path)
    with subprocess.Popen(
        [sys.executable, "-u", "asyncio_worker.py"], cwd=tmp_path, env=clean(), stdout=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background ignores it
    ) as process:  # fmt: skip
        assert process.stdout.readline() == "sent to ann\n"
        assert "resumed" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == "stopped\n"
    assert process.returncode == 0

"""Guides that a new user follows line by line, in an empty folder, with real processes."""

import json
import shlex
import signal
import subprocess
import sys

import pytest

from ostinato.program import run
from tests.cli.test_processes import command
from tests.docs.pages import ROOT, blocks
from tests.waiting import PATIENCE

pytestmark = pytest.mark.system

TUTORIAL, CRAWLING, CRONTAB = (
    ROOT / "docs" / name for name in ("tutorial.md", "guides/crawling.md", "guides/crontab.md")
)
LATER = "handle.wait('5m'); print(handle.result())"


def commands(page) -> list[list[str]]:
    """The words of each command in the console blocks of a page."""
    text = "\n".join(blocks(page, "console")).replace("\\\n", " ")
    return [shlex.split(line[2:], comments=True) for line in text.splitlines() if line.startswith("$ ")]


def python(folder, *code: str) -> str:
    """Type code into a new shell."""
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(code)], cwd=folder, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_tutorial_can_be_followed_while_serve_runs(tmp_path):
    first, send_email, enqueue, look, import_orders, operate, simulated = blocks(TUTORIAL, "python")
    (start,) = [words for words in commands(TUTORIAL) if words[:2] == ["ostinato", "serve"]]
    shop = tmp_path / "shop.py"
    shop.write_text(first)
    with command(tmp_path, *start[1:], "--port", "0", OSTINATO_HTTP_PROCESS="off") as serve:
        serve.wait_for("Job completed successfully")
        shop.write_text(f"{shop.read_text()}\n\n{send_email}")
        said = python(tmp_path, "from shop import app, send_email", enqueue, LATER, look)
        assert "sent to a@example.org" in said
        assert "completed" in said
        shop.write_text(f"{shop.read_text()}\n\n{import_orders}")
        serve.wait_for("import_orders   every hour")
        python(tmp_path, "from shop import app", operate)
        serve.wait_for("task=import_orders")
        python(tmp_path, "from shop import app", simulated)
        serve.stop(signal.SIGINT)
        assert serve.end() == 0
        assert "Traceback" not in serve.said


def test_the_crontab_guide_ends_with_a_worker_that_runs_the_lines(tmp_path, monkeypatch, capsys):
    allow, show, write, _, work = [words for words in commands(CRONTAB) if not {"convert", "db", "pip"} & set(words)]
    monkeypatch.chdir(tmp_path)
    for setting in allow[1:]:
        monkeypatch.setenv(*setting.split("="))
    (tmp_path / "crontab").write_text("0 0 1 1 * echo hello > out\n")
    assert (show[:3], write[3:5]) == (["crontab", "-l", "|"], ["ostinato", "import"])
    assert run(["import", "crontab", "crontab", *write[7:], "--json"]) == 0
    (line,) = json.loads(capsys.readouterr().out)["jobs"]
    assert run(["job", "run", line["job"]]) == 0
    with command(tmp_path, *work[1:], **dict(setting.split("=") for setting in allow[1:])) as worker:
        worker.wait_for("Job completed successfully")
        worker.stop()
        assert worker.end() == 0
    assert (tmp_path / "out").read_text() == "hello\n"


def test_the_jobs_of_the_crawling_guide_run_at_once(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (add,) = [words for words in commands(CRAWLING) if words[:3] == ["ostinato", "job", "add"]]
    (curl,) = [words for words in commands(CRAWLING) if "-d" in words]
    body = tmp_path / "body.json"
    body.write_text(curl[curl.index("-d") + 1])
    for arguments in (add[1:], ["import", "jobs", str(body)]):
        assert run([*arguments, "--json"]) == 0
        capsys.readouterr()
    assert run(["job", "list", "--json"]) == 0
    jobs = json.loads(capsys.readouterr().out)["jobs"]
    assert [(job["task"], job["status"], job["interval_minutes"]) for job in jobs] == [("crawl", "queued", 30)] * 2
    assert run(["page", "search", "example", "domain"]) == 0
    assert "No crawl has found a page yet" in capsys.readouterr().out

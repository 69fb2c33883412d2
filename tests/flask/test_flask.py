"""Tasks in the context of a Flask app, and `flask ostinato`, with real Flask and real processes."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from flask import Flask

from ostinato import Invalid, Ostinato
from ostinato.flask import attach
from ostinato.testing import simulate
from tests.app.conftest import during
from tests.flask import web
from tests.waiting import PATIENCE

EXAMPLE = Path(__file__).parents[2] / "examples" / "flask_shop"
EVERYWHERE = pytest.mark.parametrize("task", ["on_loop", "on_thread", "in_process", "async_in_process"])


@pytest.fixture
def jobs(database_url: str):
    web.jobs.configure(database_url=database_url)
    web.jobs.open(upgrade=True)
    web.torn_down.clear()
    yield web.jobs
    web.jobs.close()


def run(jobs: Ostinato, task: str, times: int = 1, **args):
    async def body():
        for _ in range(times):
            (handle,) = await asyncio.to_thread(jobs.enqueue, [jobs.call(task, **args)])
            ended = await handle.await_()
        return ended

    return during(jobs, body)


@EVERYWHERE
def test_each_run_has_the_context_of_the_app_for_itself(jobs, task):
    assert run(jobs, task, times=2).result == ["web", True], "`g` is new in each run"
    if task in ("on_loop", "on_thread"):
        assert web.torn_down == ["NoneType", "NoneType"]


def test_the_teardown_functions_get_the_exception_of_the_task(jobs):
    assert run(jobs, "on_thread", fail=True).error_kind == "KeyError"
    assert web.torn_down == ["KeyError"]


def test_the_test_kit_has_the_context_too():
    with simulate(web.jobs) as sim:
        web.on_thread.enqueue()
        sim.run_pending()
        assert [each.result for each in sim.executions("on_thread")] == [["web", True]]


def test_tasks_run_in_the_context_of_the_app_that_was_attached_last():
    jobs = Ostinato("factory")

    @jobs.task
    def name() -> str:
        from flask import current_app

        return current_app.name

    for each in ("first", "second"):
        attach(jobs, Flask(each))
    with simulate(jobs) as sim:
        name.enqueue()
        sim.run_pending()
        assert [each.result for each in sim.executions("name")] == ["second"]


def test_a_flask_app_has_one_ostinato_app():
    app = Flask("shop")
    attach(Ostinato("one"), app)
    with pytest.raises(Invalid, match="Another Ostinato app is already attached to the Flask app 'shop'"):
        attach(Ostinato("two"), app)


# -- the command line


@pytest.fixture
def shop(tmp_path: Path):
    """The example in a folder of its own, and a way to run a command there."""
    shutil.copy(EXAMPLE / "shop.py", tmp_path)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OSTINATO_", "FLASK_"))}

    def command(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *words], cwd=tmp_path, env=clean | environment, capture_output=True, text=True,
            timeout=PATIENCE,
        )  # fmt: skip

    return command


ORDER = """
from shop import create_app, report
report.enqueue()
web = create_app().test_client()
order = web.post("/orders", json={"to": "ann"}).get_json()["order"]
print(web.get(f"/orders/{order}").get_json()["status"])
"""


@pytest.mark.system
def test_flask_ostinato_runs_the_jobs_of_the_example(shop):
    assert shop("-c", ORDER).stdout.split() == ["pending"]
    worked = shop("-m", "flask", "--app", "shop", "ostinato", "worker", "--until-idle")
    assert worked.returncode == 0, worked.stderr
    listed = shop("-m", "flask", "--app", "shop", "ostinato", "execution", "list", "--json")
    assert listed.returncode == 0, listed.stderr
    ids = [each["id"] for each in json.loads(listed.stdout)["executions"]]
    shown = [shop("-m", "flask", "--app", "shop", "ostinato", "execution", "show", each, "--json") for each in ids]
    results = {each["task"]: each["result"] for each in map(json.loads, [each.stdout for each in shown])}
    assert results["confirm"] == "The corner shop has your order, ann."
    assert results["report"] == "The report of The corner shop.", "a process for runs calls the factory"


def test_the_words_after_ostinato_are_its_own(shop):
    assert "Usage: ostinato" in shop("-m", "flask", "--app", "shop", "ostinato", "--help").stdout
    assert "ostinato" in shop("-m", "flask", "--app", "shop", "--help").stdout
    wrong = shop("-m", "flask", "--app", "shop", "ostinato", "job", "show", "nothing")
    assert wrong.returncode == shop("-m", "ostinato", "job", "show", "nothing").returncode != 0


def test_the_app_is_found_by_flasks_variable(shop):
    code = "from ostinato.flask import app; print(app.name)"
    assert shop("-c", code, FLASK_APP="shop:create_app").stdout.strip() == "shop"
    missing = "from ostinato.app.loading import load_app; load_app('ostinato.flask:app')"
    assert "Set FLASK_APP to your app" in shop("-c", missing).stderr
    assert "Could not import 'nowhere'" in shop("-c", missing, FLASK_APP="nowhere").stderr

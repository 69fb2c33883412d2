"""Without the settings nothing of OpenTelemetry and Sentry is loaded; with them and without the extra, a sentence."""

import json
import sys

import pytest

from ostinato.core.payload import LogMessage
from ostinato.logs import structlog_processor
from ostinato.task.around import ours
from tests.extras import Installation
from tests.observe.conftest import run

PROGRAM = """
import asyncio, json, sys
from ostinato import Ostinato

app = Ostinato("shop", database_url="sqlite:///shop.db")

@app.task
async def work() -> str:
    return "done"

async def main():
    async with app.running():
        handle = await work.aenqueue()
        return await handle.await_("60s")

ended = asyncio.run(main())
tops = {name.partition(".")[0] for name in sys.modules}
mine = sorted({"ostinato.otel", "ostinato.sentry"} & set(sys.modules))
print(json.dumps([ended.result, sorted({"opentelemetry", "sentry_sdk"} & tops), mine, ended.traceparent]))
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A folder with the program, and an installation with the given extras."""

    def of(*extras: str) -> Installation:
        return Installation(tmp_path_factory.mktemp("installed") / "venv", *extras)

    return of


def test_a_program_without_the_settings_loads_nothing_of_either(shop, tmp_path):
    (tmp_path / "shop.py").write_text(PROGRAM)
    done = shop("otel", "sentry").run("shop.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["done", [], [], None]


@pytest.mark.parametrize(
    ("setting", "loaded"),
    [
        ("OSTINATO_OTEL", ["opentelemetry", "ostinato.otel"]),
        ("OSTINATO_SENTRY", ["sentry_sdk", "ostinato.sentry"]),
    ],
)
def test_each_setting_needs_its_extra_and_loads_only_that(shop, tmp_path, setting, loaded):
    (tmp_path / "shop.py").write_text(PROGRAM)
    extra = setting.removeprefix("OSTINATO_").lower()
    done = shop(extra).run("shop.py", cwd=tmp_path, **{setting: "on"})
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["done", [loaded[0]], [loaded[1]], None], "without an SDK there are no spans"


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("OSTINATO_OTEL", 'The setting otel needs opentelemetry-api: pip install "ostinato[otel]".'),
        ("OSTINATO_SENTRY", 'The setting sentry needs sentry-sdk: pip install "ostinato[sentry]".'),
    ],
)
def test_a_setting_without_its_extra_is_told_in_a_sentence(shop, tmp_path, setting, sentence):
    (tmp_path / "shop.py").write_text(PROGRAM)
    done = shop().run("shop.py", cwd=tmp_path, **{setting: "on"})
    assert (done.returncode, done.stderr.splitlines()[-1].partition(": ")[2]) == (1, sentence)


def test_an_app_without_the_settings_has_nothing_around_its_runs(app):
    assert run(app, "on_loop").result == {"current": None, "own": None, "pid": run(app, "on_loop").result["pid"]}
    assert (app.registry.arounds.registered, app.registry.tracer, app.scheduler.jobs.tracer) == ([], None, None)


def test_what_runs_around_all_tasks_is_known_once():
    def anything(ctx):
        yield

    assert ours(anything) is ours(anything)
    assert sys.modules[ours(anything).reference.module] is sys.modules[__name__]


# -- structlog: a processor gets a logger, the name of a method and the dict of the event, and returns the dict


class Record:
    """A record of `logging`, as `structlog.stdlib.ProcessorFormatter` hands it on."""

    def __init__(self, msg: object) -> None:
        self.msg = msg


def test_a_line_of_ours_is_unpacked_for_structlog():
    line = LogMessage("Executing job", {"job_id": "7", "retry_attempt": 0})
    given = {"event": str(line), "_record": Record(line), "_from_structlog": False}
    found = structlog_processor(None, "info", given)
    assert {name: found[name] for name in ("event", "job_id", "retry_attempt")} == {
        "event": "Executing job", "job_id": "7", "retry_attempt": 0,
    }  # fmt: skip


def test_a_field_replaces_no_name_of_the_line():
    line = LogMessage("sending", {"event": "x", "level": "mine", "to": "a"})
    found = structlog_processor(None, "info", {"event": line, "level": "info"})
    assert found == {"event": "sending", "level": "info", "to": "a"}


@pytest.mark.parametrize("record", [None, Record("a plain line"), Record(7)])
def test_other_lines_pass_as_they_are(record):
    given = {"event": "a plain line"} | ({"_record": record} if record else {})
    assert structlog_processor(None, "info", dict(given)) == given

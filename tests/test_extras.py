"""Extras: the library alone is whole, each door says which extra it lacks, and each extra opens its doors.

The environments hold the packages of some extras and no others: see tests/extras.py.
"""

import json

import pytest

from ostinato.config.extras import COMMAND_LINE, SERVER
from ostinato.feature import our_features
from tests.extras import EXTRAS, PROJECT, Installation, closure

pytestmark = pytest.mark.xdist_group("extras")

MODULES = 378  # of a program that has run a job, on each Python

LIBRARY = """
import asyncio, json, sys
from ostinato import Context, Ostinato

app = Ostinato("shop", database_url="sqlite:///shop.db")

@app.task(every="30m", retries=3, timeout="10m")
def refresh_prices(region: str = "eu") -> dict[str, int]:
    return {"apples": 3}

@app.task(cron="0 9 * * mon-fri", timezone="Europe/Paris")
def report() -> None: ...

@app.task
async def send_email(ctx: Context, to: str) -> str:
    ctx.log.info("sending", to=to)
    return to

async def main():
    async with app.running():
        run = await asyncio.to_thread(send_email.enqueue, to="a@example.org")
        return await run.await_("60s")

if __name__ == "__main__":
    ended = asyncio.run(main())
    app.close()
    print(json.dumps([ended.result, len(sys.modules), sorted(sys.modules)]))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Make the environment of some extras, once."""
    made: dict[tuple[str, ...], Installation] = {}

    def of(*extras: str) -> Installation:
        if extras not in made:
            made[extras] = Installation(tmp_path_factory.mktemp("installed") / "venv", *extras)
        return made[extras]

    return of


# -- what is installed


def test_the_library_needs_two_packages():
    assert PROJECT["dependencies"] == ["cronsim", "tzdata"]
    assert {each.name for each in closure([])} == {"cronsim", "tzdata"}


def test_all_and_standard_hold_what_they_say():
    names = {extra: {each.name for each in closure([extra])} for extra in EXTRAS}
    assert names["standard"] == names["server"] | names["sources"]
    assert names["server"] >= names["cli"]
    assert names["all"] == set().union(*names.values())


def test_the_extra_of_a_feature_brings_what_the_feature_needs():
    for feature in our_features():
        assert bool(feature.needs) == bool(feature.extra), feature.name
        assert provided(feature.extra) >= set(feature.needs), feature.name


@pytest.mark.parametrize(("extra", "modules"), [("cli", COMMAND_LINE), ("server", SERVER)])
def test_an_extra_brings_what_its_door_asks_for(extra, modules):
    assert provided(extra) >= set(modules)


def provided(extra: str) -> set[str]:
    """The modules and packages at the top of the distributions of an extra."""
    files = (path.parts[0] for each in closure([extra] if extra else []) for path in each.files or ())
    return {name.partition(".")[0] for name in files}


# -- the library alone


def test_the_library_alone_runs_a_program(installed, tmp_path):
    (tmp_path / "shop.py").write_text(LIBRARY)
    done = installed().run("shop.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[0] == "a@example.org"


def test_a_program_loads_no_extra_and_no_more_modules_than_recorded(installed, tmp_path):
    (tmp_path / "shop.py").write_text(LIBRARY)
    done = installed("all").run("shop.py", cwd=tmp_path)
    _, count, modules = json.loads(done.stdout)
    ours = {name for name in modules if name.partition(".")[0] == "ostinato"}
    of_extras = set().union(*(provided(extra) for extra in EXTRAS)) - provided("") - {"ostinato"}
    assert {name.partition(".")[0] for name in modules} & of_extras == set()
    assert [name for name in ours if name.count(".") > 2 and name.startswith("ostinato.features.")] == []
    assert abs(count - MODULES) <= MODULES * 0.05, "if this is meant, record the new number"


def test_the_test_kit_needs_no_extra(installed, tmp_path):
    (tmp_path / "shop.py").write_text(LIBRARY)
    (tmp_path / "check.py").write_text(
        "from ostinato.testing import simulate\nfrom shop import app\n"
        "with simulate(app) as sim:\n"
        "    sim.advance('36h')\n"
        "    print({run.status for run in sim.executions('refresh_prices')})\n"
    )
    done = installed().run("check.py", cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("{'completed'}\n", "")


# -- the sentence at each door


@pytest.mark.parametrize("arguments", [[], ["--help"], ["serve", "--app", "shop:app"], ["no", "such", "command"]])
def test_the_command_line_without_its_libraries_is_told_in_a_sentence(installed, tmp_path, arguments):
    done = installed().program(*arguments, cwd=tmp_path)
    sentence = 'The command line needs typer: pip install "ostinato[standard]". A worker needs only app.run().\n'
    assert (done.returncode, done.stdout, done.stderr) == (2, "", sentence)


def test_python_m_ostinato_is_the_program(installed, tmp_path):
    done = installed().run("-m", "ostinato", "--help", cwd=tmp_path)
    assert (done.returncode, done.stderr.partition(":")[0]) == (2, "The command line needs typer")
    done = installed("cli").run("-m", "ostinato", "--help", cwd=tmp_path)
    assert (done.returncode, done.stdout.split()[:2]) == (0, ["Usage:", "ostinato"])


SOURCE = {
    "name": "gdp",
    "url": "https://example.org",
    "table": "gdp",
    "response": {"fields": [{"source": "a", "target": "b"}], "unique": ["b"]},
}
COMMANDS = [
    ("serve --port 0", 'The HTTP server needs fastapi: pip install "ostinato[server]".'),
    (
        "worker --database postgresql://u@127.0.0.1/x",
        'A PostgreSQL URL needs psycopg: pip install "ostinato[postgres]".',
    ),
    (
        "job list --database postgres://u@127.0.0.1/x",
        'A PostgreSQL URL needs psycopg: pip install "ostinato[postgres]".',
    ),
    ("worker --engine rq --redis redis://127.0.0.1", 'The engine rq needs rq: pip install "ostinato[rq]".'),
    ("serve --engine rq --redis redis://127.0.0.1", 'The HTTP server needs fastapi: pip install "ostinato[server]".'),
    ("token create me", 'A token needs PyJWT: pip install "ostinato[server]".'),
    ("access end --credential a.b.c", 'A token needs PyJWT: pip install "ostinato[server]".'),
    ("source test source.yaml", 'The test of a source needs ijson: pip install "ostinato[sources]".'),
]


@pytest.mark.parametrize(("command", "sentence"), COMMANDS)
def test_a_command_without_its_extra_is_told_in_a_sentence(installed, tmp_path, command, sentence):
    (tmp_path / "source.yaml").write_text(json.dumps(SOURCE))
    done = installed("cli").program(*command.split(), cwd=tmp_path)
    assert (done.returncode, done.stderr.splitlines()[-1:]) == (2, [sentence])
    assert "Traceback" not in done.stderr


CALLS = [
    ("Ostinato(database_url='postgresql://u@127.0.0.1/x').run()", "A PostgreSQL URL needs psycopg", "postgres"),
    ("Ostinato(engine='rq', redis_url='redis://127.0.0.1').run()", "The engine rq needs rq", "rq"),
    ("app.run(listening=Listening(port=0))", "The HTTP server needs fastapi", "server"),
    ("app.source('sources.yaml')", "YAML needs PyYAML", "cli"),
    ("app.enqueue([app.call('http', url='https://example.org')])", "The task http needs httpx2", "sources"),
    ("app.enqueue([app.call('fetch', source=SOURCE)])", "The task fetch needs httpx2", "sources"),
    ("app.enqueue([app.call('crawl', url='https://example.org')])", "The task crawl needs Scrapy", "crawl"),
    ("app.schedule(app.call('http', url='https://a.example'), every='1h'); app.run()", "The task http", "sources"),
    ("import ostinato.django", "ostinato.django needs Django", "django"),
    ("import ostinato.django.backend", "ostinato.django needs Django", "django"),
    ("import ostinato.rq", "ostinato.rq needs rq", "rq"),
    ("Ostinato(heartbeat_url='https://example.org').run()", "The setting heartbeat_url needs httpx2", "sources"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "begins", "extra"), CALLS)
def test_a_call_without_its_extra_raises_the_sentence(installed, tmp_path, call, begins, extra):
    (tmp_path / "sources.yaml").write_text("name: x\n")
    program = (
        "from ostinato import Ostinato\nfrom ostinato.app.listening import Listening\n"
        f"from ostinato.core.errors import MissingExtra\napp = Ostinato()\nSOURCE = {SOURCE}\n"
        f"try:\n    {call}\nexcept MissingExtra as error:\n    print(error.extra, error)\n"
    )
    done = installed().run("-c", program, cwd=tmp_path, OSTINATO_LOG_LEVEL="error")
    told = done.stdout.splitlines()[-1]
    assert told.startswith(f"{extra} {begins}"), done.stderr
    assert told.endswith(f'pip install "ostinato[{extra}]".')


@pytest.mark.parametrize("command", ["worker", "--help"])
def test_the_command_of_django_without_its_libraries_is_told_in_a_sentence(installed, tmp_path, command):
    (tmp_path / "some_settings.py").write_text(
        'SECRET_KEY = "x"\nINSTALLED_APPS = ["ostinato.django"]\n'
        'TASKS = {"default": {"BACKEND": "ostinato.django.Backend"}}\n'
    )
    program = "import django; from django.core.management import execute_from_command_line as run; django.setup();"
    program = f"import os; os.environ['DJANGO_SETTINGS_MODULE'] = 'some_settings'; {program}"
    program += f" run(['manage.py', 'ostinato', '{command}'])"
    done = installed("django").run("-c", program, cwd=tmp_path)
    sentence = 'manage.py ostinato needs typer: pip install "ostinato[standard]".\n'
    assert (done.returncode, done.stdout, done.stderr) == (2, "", sentence)


def test_the_flask_package_without_flask_is_told_in_a_sentence(installed, tmp_path):
    """Flask is no extra: an app that attaches to it has it."""
    done = installed("cli").run("-c", "from ostinato.flask import attach", cwd=tmp_path)
    assert done.stderr.splitlines()[-1].endswith("InvalidSetting: ostinato.flask needs Flask: pip install flask.")

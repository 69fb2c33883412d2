"""The value that registers a feature, what the kernel finds by it, and the walls between features."""

import ast
import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ostinato.config import EngineKind
from ostinato.core.errors import InvalidSetting, MissingExtra
from ostinato.feature import Feature, Features, our_features
from ostinato.outgoing.gate import LateGate, OpenGate

SOURCE = Path(__file__).parent.parent / "src"
LIBRARY_ONLY = """
import asyncio, json, sys
from ostinato import Ostinato

app = Ostinato(database_url=sys.argv[1])

@app.task
def greet():
    return "hello"

async def main():
    async with app.running():
        (handle,) = app.enqueue([app.call("greet")])
        assert (await handle.await_(60)).result == "hello"

app.open(upgrade=True)
asyncio.run(main())
print(json.dumps([name for name in sys.modules if name.startswith("ostinato.features.")]))
"""
# Opens a database, runs a job, builds the HTTP application and every command, and imports all files of features.
WHOLE_PROCESS = """
import asyncio, sys
from ostinato import Ostinato
from ostinato.feature import our_features
from ostinato.program import run
from ostinato.wiring import build_api

app = Ostinato(database_url=sys.argv[1])

@app.task
def greet():
    return "hello"

async def main():
    async with app.running():
        (handle,) = app.enqueue([app.call("greet")])
        assert (await handle.await_(60)).result == "hello"
    engine = app.engine()
    engine.sweeper.tidy()
    build_api(app.parts, app.scheduler, engine, insecure=True)

app.open(upgrade=True)
asyncio.run(main())
app.close()
for feature in our_features():
    for file in feature.folder.glob("*.py"):
        feature.module(file.stem)
assert run(["job", "list", "--database", sys.argv[1]]) == 0
assert run(["doctor", "--database", sys.argv[1]]) in (0, 1)
print([each.name for each in our_features()])
"""


def a_feature(tmp_path, monkeypatch, name, **fields):
    """Return a feature whose folder is a package in `tmp_path`."""
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    __import__(name)
    monkeypatch.delitem(sys.modules, name, raising=False)
    __import__(name)
    return Feature(package=name, **fields)


@pytest.mark.parametrize(
    ("claim", "what"),
    [({"tables": ("parcels",)}, "table"), ({"tasks": ("send",)}, "task"), ({"commands": {"send": "Send."}}, "group")],
)
def test_a_name_that_two_features_claim_is_refused_with_both(tmp_path, monkeypatch, claim, what):
    one, other = (a_feature(tmp_path, monkeypatch, name, **claim) for name in ("acme_one", "acme_other"))
    with pytest.raises(InvalidSetting, match=f"{what} .*acme_one and acme_other"):
        Features([one, other])


def test_files_are_found_by_their_names_and_may_be_missing(tmp_path, monkeypatch):
    feature = a_feature(tmp_path, monkeypatch, "acme_files")
    (tmp_path / "acme_files" / "endpoints.py").write_text("router = 1")
    (tmp_path / "acme_files" / "rows.sql").write_text("")
    features = Features([feature])
    assert [module.router for module in features.modules("endpoints")] == [1]
    assert list(features.modules("pages")) == []
    assert [path.name for path in features.statements] == ["rows.sql"]


def test_a_task_without_its_libraries_is_left_to_other_workers(tmp_path, monkeypatch):
    feature = a_feature(tmp_path, monkeypatch, "acme_needs", tasks=("send",), needs=("there_is_no_such_library",))
    features = Features([feature])
    assert (set(features.tasks), set(features.runnable)) == ({"send"}, set())


def test_a_feature_with_tasks_and_no_file_for_them_is_refused(tmp_path, monkeypatch):
    features = Features([a_feature(tmp_path, monkeypatch, "acme_empty", tasks=("send",))])
    with pytest.raises(InvalidSetting, match=r"acme_empty declares what is in task\.py"):
        features.task("send")


def test_the_value_of_a_feature_imports_nothing_but_the_module_of_features():
    for feature in our_features():
        text = (feature.folder / "__init__.py").read_text()
        found = {line.split()[1] for line in text.splitlines() if line.startswith(("import", "from"))}
        assert found - {"typing"} == {"ostinato.feature"}, feature.name


A_PROGRAM = """
import asyncio, sys
from ostinato import Ostinato

app = Ostinato("shop", database_url=sys.argv[1])

@app.task
async def work() -> int:
    return 1

async def main():
    async with app.running():
        run = await asyncio.to_thread(work.enqueue)
        await asyncio.to_thread(run.wait, 60)

asyncio.run(main())
features = [name.split(".") for name in sys.modules if name.startswith("ostinato.features.")]
print([".".join(name) for name in features if len(name) > 3])
"""


def test_a_program_that_runs_a_task_of_its_own_imports_no_feature(tmp_path):
    program = [sys.executable, "-c", A_PROGRAM, f"sqlite:///{tmp_path}/ostinato.db"]
    assert subprocess.run(program, capture_output=True, check=True, text=True).stdout == "[]\n"


def test_a_second_gate_of_outgoing_requests_is_refused_with_both(tmp_path, monkeypatch):
    both = [a_feature(tmp_path, monkeypatch, name) for name in ("acme_gate", "acme_fence")]
    for each in both:
        (each.folder / "gate.py").write_text("")
    with pytest.raises(InvalidSetting, match="acme_gate and acme_fence"):
        Features(both).gate  # noqa: B018
    assert Features(both[:1]).gate.__name__ == "acme_gate.gate"
    assert Features().gate is None


def test_a_gate_is_made_for_the_first_request_and_closed_once_it_is_made():
    made = []

    def make():
        made.append(OpenGate())
        return made[-1]

    async def story():
        gate = LateGate(make)
        await gate.close()
        assert made == []
        for _ in range(2):
            await gate.admit("example.org", 0, 1)
        await gate.close()

    asyncio.run(story())
    assert len(made) == 1


def test_a_process_that_uses_only_the_library_loads_no_file_of_a_feature_but_its_value(tmp_path):
    command = [sys.executable, "-c", LIBRARY_ONLY, f"sqlite:///{tmp_path}/a.db"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert {name for name in found if name.count(".") == 2} == {
        f"ostinato.features.{each.name}" for each in our_features()
    }
    assert [name for name in found if name.count(".") > 2] == []


@pytest.mark.parametrize(
    "name", ["crawling", "notifications", "providers", "rq", "sources", "templates", "transfer", "workflows"]
)
def test_a_removed_feature_takes_only_those_along_that_declare_to_use_it(tmp_path, name):
    """Its folder and its line are removed: everything else still works."""
    removed = {each.name for each in our_features() if name in (each.name, *each.uses)}
    shutil.copytree(SOURCE, tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    folder = tmp_path / "src/ostinato/features"
    for each in removed:
        shutil.rmtree(folder / each)
    listed = [each.name for each in our_features() if each.name not in removed]
    (folder / "__init__.py").write_text(f"NAMES = {listed!r}")
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "src")}
    command = [sys.executable, "-c", WHOLE_PROCESS, f"sqlite:///{tmp_path}/a.db"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == str(listed)


def test_no_two_files_give_a_statement_the_same_name():
    """All statements of a process have one list: a second of a name would replace the first."""
    files = [file.read_text() for file in SOURCE.rglob("*.sql")]
    names = [name for text in files for name in set(re.findall(r"^-- name: (\w+)", text, re.M))]
    assert sorted(names) == sorted(set(names))


def test_scrapy_and_its_libraries_are_imported_only_by_crawling():
    libraries = ("scrapy", "twisted", "parsel", "protego", "lxml", "w3lib")
    words = re.compile(rf"^\s*(?:from|import) (?:{'|'.join(libraries)})\b", re.M)
    found = {file for file in SOURCE.rglob("*.py") if words.search(file.read_text())}
    assert found
    assert {file.parent for file in found} == {SOURCE / "ostinato/features/crawling"}


def test_an_engine_whose_feature_or_library_is_missing_is_refused_with_the_reason(tmp_path, monkeypatch):
    feature = a_feature(tmp_path, monkeypatch, "acme_engine", extra="acme", needs=("no_such_library",))
    with pytest.raises(MissingExtra, match=r'needs no_such_library: pip install "ostinato\[acme\]"\.'):
        Features([feature]).engine("acme_engine")
    with pytest.raises(InvalidSetting, match="the feature rq is missing"):
        Features([feature]).engine("rq")


def test_every_engine_but_ours_is_a_feature():
    assert [each.name for each in our_features() if each.has("engine")] == [
        each for each in EngineKind if each != "local"
    ]


@pytest.mark.parametrize("feature", list(our_features()), ids=lambda feature: feature.name)
def test_a_feature_imports_only_the_features_that_it_declares_to_use(feature):
    """Removing a folder and its line breaks only the features that declare to use it."""
    used = {name.split(".")[2] for file in feature.folder.rglob("*.py") for name in imported_features(file)}
    assert used - {feature.name} <= set(feature.uses)


def imported_features(file):
    for node in ast.walk(ast.parse(file.read_text())):
        names = [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
        names += [each.name for each in node.names] if isinstance(node, ast.Import) else []
        names += [f"ostinato.features.{each.name}" for each in node.names] if names == ["ostinato.features"] else []
        yield from (name for name in names if name.startswith("ostinato.features."))

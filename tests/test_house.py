"""The rules of the house that no linter knows."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

from ostinato.core import lifecycle
from ostinato.core.lifecycle import fast_path
from ostinato.feature import our_features
from ostinato.store import fast_path as store_fast_path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "ostinato"
TESTS = ROOT / "tests"
MODULES = sorted(SOURCE.rglob("*.py"))
LONGEST_FILE = LONGEST_TEST_FILE = 500  # a hint: what belongs together stays together


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("package", [p.parent for p in MODULES if p.name == "__init__.py"], ids=shown)
def test_every_room_has_a_sign_on_its_door(package):
    assert ast.get_docstring(ast.parse((package / "__init__.py").read_text()))


def test_a_class_name_stands_for_one_thing():
    named: dict[str, list[str]] = {}
    for module in MODULES:
        for node in ast.parse(module.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                named.setdefault(node.name, []).append(shown(module))
    named.pop("Worker")  # RQ's documented name for its own: `rq worker -w ostinato.rq.Worker`
    assert {name: places for name, places in named.items() if len(places) > 1} == {}


def test_every_folder_with_python_in_it_is_a_package():
    assert [shown(m.parent) for m in MODULES if not (m.parent / "__init__.py").exists()] == []


def test_there_is_no_attic():
    assert [shown(m) for m in MODULES if m.stem in {"util", "utils", "helpers", "common", "misc"}] == []


@pytest.mark.parametrize(("folder", "longest"), [(SOURCE, LONGEST_FILE), (TESTS, LONGEST_TEST_FILE)])
def test_no_file_is_crowded(folder, longest):
    lengths = {shown(m): len(m.read_text().splitlines()) for m in folder.rglob("*.py")}
    assert {name: lines for name, lines in lengths.items() if lines > longest} == {}


def test_no_test_sleeps_to_wait_for_time_to_pass():
    """Real sleeps only in tasks of other processes, where time is simulated, and where it is the point; they say so.

    `sleep(0)` waits for nothing: it lets others have their turn. Who waits for others does it by `tests.waiting`.
    """
    sleep = re.compile(r"\b(time|asyncio)\.sleep\((?!0\)|.*# (simulated|for other threads|in another process))")
    others = [TESTS / "system", TESTS / "servers.py", TESTS / "waiting.py"]  # they wait for other processes
    awake = [t for t in sorted(TESTS.rglob("*.py")) if not any(t.is_relative_to(o) for o in others)]
    assert [shown(t) for t in awake if sleep.search(t.read_text())] == []


@pytest.mark.parametrize("name", ["dev.txt", "bootstrap.txt"])
def test_the_lock_names_no_registry(name):
    lock = (ROOT / "requirements" / name).read_text()
    assert "://" not in lock
    assert "index-url" not in lock
    assert "file:" not in lock


def test_there_is_no_lock_file_that_names_a_registry():
    assert [name for name in ("uv.lock", "poetry.lock", "Pipfile.lock") if (ROOT / name).exists()] == []


def test_every_dependency_is_locked():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"].get("optional-dependencies", {}).values()
    asked = [project["project"]["dependencies"], project["dependency-groups"]["dev"], *extras]
    names = {re.split(r"[^A-Za-z0-9._-]", line)[0].lower() for lines in asked for line in lines}
    locked = set(re.findall(r"^([a-z0-9._-]+)(?:\[[^]]*\])?==", (ROOT / "requirements/dev.txt").read_text(), re.M))
    assert names - locked == {"ostinato"}, "run `make lock`"  # an extra may hold others of ours


@pytest.mark.xdist_group("house")
def test_a_group_of_tests_stays_in_one_process(request: pytest.FixtureRequest):
    """Without groups each process starts its own server for a module, again and again."""
    grouped = request.config.getoption("loadgroup", default=False)
    assert not grouped or request.node.nodeid.endswith("@house")


def test_lifecycle_exports_no_shortcut():
    shortcuts = {
        name for name, each in vars(fast_path).items() if getattr(each, "__module__", "") == fast_path.__name__
    }
    assert {"fire_plainly", "may_be_plain", "last_time"} <= shortcuts
    assert shortcuts & {*lifecycle.__all__, *vars(lifecycle)} == set()


@pytest.mark.parametrize(
    ("module", "name", "caller"),
    [
        (fast_path, "fire_plainly", "store/firing.py"),
        (fast_path, "may_be_plain", "store/fast_path.py"),
        (fast_path, "last_time", "store/fast_path.py"),
        (store_fast_path, "save_fired", "store/firing.py"),
        (store_fast_path, "expected_of", "store/settling.py"),
        (store_fast_path, "settle_plainly", "store/settling.py"),
    ],
)
def test_a_fast_path_has_one_caller(module, name, caller):
    assert callable(getattr(module, name))
    users = [each for each in MODULES if each != Path(module.__file__) and re.search(rf"\b{name}\(", each.read_text())]
    assert [str(each.relative_to(SOURCE)) for each in users] == [caller]


def test_a_claim_has_one_fast_path_and_says_so():
    tree = ast.parse((SOURCE / "store/claiming.py").read_text())
    calls = [node.func.attr for node in ast.walk(tree) if isinstance(node, ast.Call) and hasattr(node.func, "attr")]
    assert (calls.count("_in_one_statement"), calls.count("_in_full")) == (1, 1)


# What the kernel may know of features: 003's word `url` becomes a `crawl`, the setting `engine` offers `rq`, and
# requests over HTTP need what the extra `sources` brings.
KNOWN_OF_FEATURES = {
    ("shapes/job_words.py", "crawl"), ("config/kinds.py", "rq"), ("outgoing/calling.py", "sources"),
    ("dashboard/app.py", "templates"),  # a folder of every feature
}  # fmt: skip
ABOVE = ("features", "app", "rq.py", "program.py", "testing", "django", "flask", "feature.py")


def test_the_kernel_names_no_feature_and_no_task_of_one():
    words = {each.name for each in our_features()} | set(our_features().tasks)
    words -= {"http", "command", "python"}  # they name other things, too
    found = set()
    for module in MODULES:
        file = str(module.relative_to(SOURCE))
        if file.split("/")[0] in ABOVE or file.removesuffix(".py") in ABOVE:
            continue
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                named = node.value in words or node.value.startswith("ostinato.features.")
                found |= {(file, node.value)} if named else set()
    assert found == KNOWN_OF_FEATURES


def test_the_calls_of_each_feature_are_tested_with_a_stale_fence():
    """The file of these tests compares what it tests with `CALLS`, so that a new call is not forgotten."""
    with_calls = [each.name for each in our_features() if each.has("calls")]
    assert set(with_calls) >= {"sources", "crawling", "providers"}
    for name in with_calls:
        text = (TESTS / "features" / name / "test_calls.py").read_text()
        assert "set(CALLS)" in text, name
        assert "stale" in text, name

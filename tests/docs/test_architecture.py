"""The map is true: what the pages about the code name is there, and no room or arrow is missing."""

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

from tests.core.faults import MAY_BECOME
from tests.docs.pages import ROOT, blocks, name_of, prose
from tests.docs.rooms import ARCHITECTURE, ROOM, SOURCE, rooms, with_imports

EXPLANATION = ROOT / "docs" / "explanation"
MAPS = [ARCHITECTURE, EXPLANATION / "design.md", EXPLANATION / "tests.md", ROOT / "CONTRIBUTING.md"]
PATH = re.compile(r"`((?:[\w.-]+/)+(?:[\w*-]+\.\w+)?|[\w-]+\.(?:py|sql|toml|md))(?:: [^`]+)?`")
NAMED = re.compile(r"`([\w/.-]+\.(?:py|sql)): (\w+(?:\.\w+)?)`")
LAYER = re.compile(r"^  (\w+(?: · \w+)*)(?:  +.*)?$", re.M)


def found(path: str) -> list[Path]:
    """Files of this name, below the source or the root of the repository; `*` stands for any of a folder."""
    return [file for base in (SOURCE, ROOT) for file in base.glob(path.rstrip("/"))]


@cache
def names_in(file: Path) -> frozenset[str]:
    """Functions, classes, methods and constants of a module; the statements of a file of SQL."""
    text = file.read_text()
    if file.suffix == ".sql":
        return frozenset(re.findall(r"^-- name: (\w+)", text, re.M))
    return frozenset(_defined(ast.parse(text).body))


def _defined(body: list[ast.stmt]) -> set[str]:
    names: set[str] = set()
    for each in body:
        match each:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.add(name)
            case ast.ClassDef(name=name, body=inner):
                names |= {name} | {f"{name}.{one}" for one in _defined(inner)}
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
    return names


def layers() -> list[list[str]]:
    """Rooms of each line of the contract, the highest first."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (lines,) = (each["layers"] for each in contracts if each["type"] == "layers")
    return [re.findall(r"\w+", line) for line in lines]


@pytest.mark.parametrize("page", MAPS, ids=name_of)
def test_every_path_that_is_named_exists(page):
    paths = set(PATH.findall(prose(page)))
    assert paths
    assert [path for path in sorted(paths) if not found(path)] == []


@pytest.mark.parametrize("page", MAPS, ids=name_of)
def test_every_function_that_is_named_is_in_its_file(page):
    named = set(NAMED.findall(prose(page)))
    assert [
        f"{path}: {name}" for path, name in sorted(named) if not any(name in names_in(file) for file in found(path))
    ] == []


def test_the_ways_name_functions():
    """The pattern above sees each step: a step without a name would not be checked."""
    steps = re.findall(r"^\d+\. .*$", prose(ARCHITECTURE), re.M)
    assert len(steps) > 30
    assert [step for step in steps if not NAMED.search(step)] == []


def test_the_map_has_every_room_with_its_imports():
    assert {room for room, _, _ in ROOM.findall(prose(ARCHITECTURE))} == rooms()
    assert with_imports(ARCHITECTURE.read_text()) == ARCHITECTURE.read_text(), "run `make map`"


def test_what_a_room_may_not_import_is_refused_by_the_contract():
    level = {room: number for number, layer in enumerate(layers()) for room in layer}
    for room, _, refused in ROOM.findall(prose(ARCHITECTURE)):
        named = set(re.findall(r"`(\w+)`", refused)) & rooms()
        assert {other for other in named if level[other] > level[room]} == set(), room


def test_the_drawing_has_the_layers_of_the_contract():
    drawing, *_ = blocks(ARCHITECTURE, "text")
    assert [line.split(" · ") for line in LAYER.findall(drawing)] == layers()


def test_the_table_of_states_is_the_one_that_random_lives_are_held_to():
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|$", prose(ARCHITECTURE), re.M)
    assert {status: re.findall(r"`(\w+)`", after) for status, after in rows} == {
        status.value: after.split() for status, after in MAY_BECOME.items()
    }

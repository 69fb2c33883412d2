"""A type checker catches wrong names and types: mypy says exactly what the comments expect."""

import re
from collections import defaultdict
from pathlib import Path

import pytest
from mypy import api

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent.parent
CASES = sorted(path for path in FOLDER.glob("*.py") if not path.name.startswith(("test_", "__")))


@pytest.fixture(scope="module")
def found() -> dict[tuple[str, int], set[str]]:
    """The codes of mypy's errors, by file and line."""
    # The cache of `make lint`: the source is checked already.
    options = ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache")]
    out, err, _ = api.run([*options, "--hide-error-context", *map(str, CASES)])
    assert not err
    codes = defaultdict(set)
    for file, line, code in re.findall(r"^(.+?):(\d+): error: .*\[([a-z-]+)\]$", out, re.M):
        codes[Path(file).name, int(line)].add(code)
    return codes


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_mypy_finds_what_is_wrong_and_nothing_else(case, found):
    expected = {
        (case.name, number): set(codes.group(1).split(", "))
        for number, line in enumerate(case.read_text().splitlines(), 1)
        if (codes := re.search(r"# error: (.+)$", line))
    }
    assert {place: codes for place, codes in found.items() if place[0] == case.name} == expected

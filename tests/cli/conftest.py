"""Commands inside the test's own process, in a folder of their own."""

from collections.abc import Callable
from typing import NamedTuple

import pytest

from ostinato.cli.main import run


class Answer(NamedTuple):
    """What a command said, and its exit code."""

    code: int
    out: str
    err: str


Command = Callable[..., Answer]


@pytest.fixture
def ostinato(capsys, tmp_path, monkeypatch) -> Command:
    """`ostinato("preview", "30m")`, from an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(__import__("sys").path))

    def command(*arguments: str) -> Answer:
        capsys.readouterr()
        code = run(list(arguments))
        return Answer(code, *capsys.readouterr())

    return command

"""What all commands have in common: help, version, exit codes, and how `--app` is found."""

import os
import subprocess
import sys

import pytest

from ostinato.core.errors import Conflict, Invalid, InvalidSchedule, NotFound, SchemaBehind, StoreUnavailable
from ostinato.program import exit_code, run

A_MODULE = """
from ostinato import Ostinato
shop = Ostinato("shop")
number = 7
"""


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_help_names_every_command(ostinato, arguments):
    answer = ostinato(*arguments)
    assert answer.code == 0
    for command in ("serve", "worker", "preview", "db", "job", "execution", "workers", "queue", "stats", "top", "token",
                    "key", "config", "doctor", "export", "import"):  # fmt: skip
        assert f"\n  {command} " in answer.out


def test_help_of_a_group(ostinato):
    assert "upgrade" in ostinato("db").out


def test_version(ostinato):
    answer = ostinato("--version")
    assert (answer.code, answer.out) == (0, "ostinato 0.1.0\n")


def test_an_app_for_a_command_that_takes_a_database_is_told(ostinato):
    answer = ostinato("job", "list", "--app", "shop:app")
    assert (answer.code, answer.out) == (2, "")
    assert "No such option: --app" in answer.err
    assert "Only serve and worker import an app." in answer.err


def test_ctrl_c_while_the_program_imports_is_silent(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'ostinato.program':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupted())\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "ostinato", "--help"],
        env=os.environ | {"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_an_unknown_command(ostinato):
    answer = ostinato("sevre")
    assert (answer.code, answer.out) == (2, "")
    assert "No such command 'sevre'" in answer.err


@pytest.mark.parametrize(
    ("error", "code"),
    [(Invalid(""), 2), (InvalidSchedule(""), 2), (NotFound(""), 3), (Conflict(""), 4), (StoreUnavailable(""), 5),
     (SchemaBehind(""), 5)],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_exit_codes(error, code):
    assert exit_code(error) == code


@pytest.mark.parametrize(
    ("where", "sentence"),
    [
        ("shop", "--app is written module:attribute, such as shop:app, not 'shop'."),
        ("shop:", "--app is written module:attribute"),
        ("./shop.py:app", "--app is written module:attribute"),
        ("nowhere:app", "There is no module nowhere here"),
        ("nowhere.deep:app", "There is no module nowhere.deep here"),
        ("shop_module.deep:app", "There is no module shop_module.deep here"),
        ("shop_module:app", "The module shop_module has no app; did you mean shop_module:shop?"),
        (
            "shop_module:number",
            "shop_module:number is not an Ostinato but an int; did you mean shop_module:shop?",
        ),
        ("json:dumps", "json:dumps is not an Ostinato but a function; make one there: app = Ostinato()."),
        ("broken_import:app", "cannot be imported: ModuleNotFoundError: No module named 'not_there'"),
        ("broken_syntax:app", "cannot be imported: invalid syntax"),
        ("broken_value:app", "cannot be imported: ZeroDivisionError: division by zero"),
        ("broken_option:app", "There is no option evry=; did you mean every=?"),
        ("broken_setting:app", "InvalidSetting: concurrency cannot be 0 (argument)."),
    ],
)
@pytest.mark.parametrize("command", ["worker", "serve"])
def test_an_app_that_cannot_be_found_is_one_sentence(ostinato, tmp_path, command, where, sentence):
    (tmp_path / "shop_module.py").write_text(A_MODULE)
    (tmp_path / "broken_import.py").write_text("import not_there")
    (tmp_path / "broken_syntax.py").write_text("def")
    (tmp_path / "broken_value.py").write_text("\n\n1 / 0")
    (tmp_path / "broken_setting.py").write_text(A_MODULE + "Ostinato(concurrency=0)")
    (tmp_path / "broken_option.py").write_text(A_MODULE + "shop.task(evry='1m')(print)")
    answer = ostinato(command, "--app", where)
    assert (answer.code, answer.out) == (2, "")
    assert sentence in answer.err
    assert len(answer.err.splitlines()) == 1


@pytest.mark.parametrize("command", ["worker", "serve"])
def test_a_wrong_setting_is_told_as_it_is_and_no_module_is_blamed(ostinato, tmp_path, monkeypatch, command):
    (tmp_path / "shop_settings.py").write_text(A_MODULE)
    monkeypatch.setenv("OSTINATO_POLL_INTERVAL", "3000")
    answer = ostinato(command, "--app", "shop_settings:shop")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == (
        "poll_interval cannot be '3000' (OSTINATO_POLL_INTERVAL). That would be 50m. "
        "Allowed is a duration from 10ms to 10m, in seconds or written like 5s.\n"
    )


def test_the_line_of_theirs_that_is_wrong_is_named(ostinato, tmp_path):
    (tmp_path / "broken_line.py").write_text(A_MODULE + "1 / 0\n")
    answer = ostinato("worker", "--app", "broken_line:shop")
    assert f"({tmp_path}/broken_line.py, line 5)" in answer.err


@pytest.mark.parametrize(
    ("flag", "value", "sentence"),
    [
        (
            "--concurrency",
            "0",
            "concurrency cannot be 0 (argument). Allowed is a whole number from 1 to 10000.",
        ),
        ("--database", "nonsense", "database_url cannot be 'nonsense' (argument)."),
    ],
)
def test_a_flag_that_cannot_be_is_refused_before_anything_is_opened(ostinato, tmp_path, flag, value, sentence):
    answer = ostinato("serve", flag, value)
    assert (answer.code, answer.out) == (2, "")
    assert sentence in answer.err
    assert list(tmp_path.iterdir()) == []


def test_postgresql_that_is_behind_says_what_to_run(ostinato, empty_postgres_url):
    answer = ostinato("serve", "--port", "0", "--database", empty_postgres_url)
    assert answer.code == 5
    assert "not there yet" in answer.err
    assert "run `ostinato db upgrade`" in answer.err


def test_help_does_not_load_what_it_does_not_need():
    code = "import sys; from ostinato.program import run; run(['--help']); print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for heavy in ("psycopg", "rich.console", "rich.table", "sqlalchemy", "httpx2"):
        assert f"'{heavy}'" not in done.stdout


def test_a_closed_pipe_is_no_error(monkeypatch, tmp_path):
    def closed(*_, **__):
        raise BrokenPipeError

    monkeypatch.setattr("ostinato.cli.offline.preview", closed)
    with (tmp_path / "out").open("w") as out:
        monkeypatch.setattr("sys.stdout", out)
        assert run(["preview", "30m"]) == 0


def complete(words: str, place: int) -> list[str]:
    """What a shell would offer."""
    code = "from ostinato.program import main; main()"
    asked = {"_OSTINATO_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(place)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | asked)
    return done.stdout.split()


def test_shells_complete_commands_and_flags():
    assert complete("ostinato jo", 1) == ["job"]
    assert complete("ostinato job pa", 2) == ["pause"]
    assert complete("ostinato job list --wa", 3) == ["--watch"]


def test_completion_can_be_installed(ostinato):
    answer = ostinato("--help")
    assert "--install-completion" in answer.out

"""`--reload`: a command starts anew when its code changes, and survives code that is broken."""

import pytest

from ostinato.cli.reloading import stamps
from tests.cli.test_processes import AN_APP, command


def test_python_files_are_watched_but_not_those_of_virtualenvs_and_hidden_folders(tmp_path):
    for name in (
        "a.py",
        "shop/b.py",
        "shop/notes.txt",
        ".git/c.py",
        "venv/d.py",
        "venv/pyvenv.cfg",
        "__pycache__/e.py",
    ):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.touch()
    assert sorted(stamps(tmp_path)) == [str(tmp_path / "a.py"), str(tmp_path / "shop/b.py")]


@pytest.mark.system
def test_broken_code_is_told_and_the_next_change_starts_it_again(tmp_path):
    shop = tmp_path / "shop.py"
    shop.write_text(AN_APP)
    with command(tmp_path, "worker", "--app", "shop:app", "--reload") as worker:
        worker.wait_for("Job completed successfully")
        shop.write_text(f"{AN_APP}\ndef")
        worker.wait_for("shop.py has changed: restarting.")
        worker.wait_for("The module shop cannot be imported: invalid syntax")
        worker.wait_for("waiting for a change of the code")
        shop.write_text(AN_APP.replace("def report", "def summary"))
        worker.wait_for("summary")
        worker.stop()
        assert worker.end() == 0
        assert "Traceback" not in worker.said

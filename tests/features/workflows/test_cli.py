"""`ostinato workflow …`, on a database."""

import json

import pytest

NODES = """
name: report
nodes:
  - {id: t, type: trigger_schedule}
  - {id: a, task: extract, after: [t], args: {region: {$ref: payload.region}}}
  - {id: b, task: send, after: [a], when: a.result.count > 0}
"""


@pytest.fixture
def ostinato(ostinato, tmp_path, monkeypatch):
    """With the exit code that is expected."""
    monkeypatch.setenv("OSTINATO_DATABASE_URL", f"sqlite:///{tmp_path}/ostinato.db")

    def command(*arguments, code=0):
        answer = ostinato(*arguments)
        assert answer.code == code, answer
        return answer

    return command


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "report.yaml"
    path.write_text(NODES)
    return path


def test_a_workflow_is_applied_shown_run_and_deleted(ostinato, file):
    assert "knows a task 'extract'" in ostinato("workflow", "apply", str(file), code=2).err
    made = ostinato("workflow", "apply", str(file), "--allow-unknown").out
    assert made == "Workflow report (1), version 1.\n"
    file.write_text(NODES.replace("count > 0", "count > 1"))
    assert "version 2" in ostinato("workflow", "apply", str(file), "--allow-unknown").out
    assert "report" in ostinato("workflow", "list").out
    assert "a.result.count > 1" in ostinato("workflow", "show", "report").out
    run = json.loads(ostinato("workflow", "run", "1", "--payload", '{"region": "eu"}', "--json").out)
    assert run["workflow_id"] == 1
    found = json.loads(ostinato("execution", "list", "--json").out)["executions"]
    shown = ostinato("execution", "steps", found[0]["id"]).out
    assert "not started" in shown
    assert "waiting" in shown
    assert "No active workflow has a trigger" in ostinato("workflow", "trigger", "nothing").out
    assert json.loads(ostinato("workflow", "trigger", "order", "--payload", "{}", "--json").out) == {
        "kind": "order", "started": [],
    }  # fmt: skip
    assert "is deleted" in ostinato("workflow", "delete", "report").out
    ostinato("workflow", "show", "report", code=3)


def test_what_is_wrong_with_a_file_is_said(ostinato, tmp_path):
    bad = tmp_path / "bad.yaml"
    for text, sentence in (
        ("{", "is not YAML"),
        ("[1]", "an object with a name"),
        ("name: x", "nodes"),
    ):
        bad.write_text(text)
        assert sentence in ostinato("workflow", "apply", str(bad), code=2).err
    assert "cannot be read" in ostinato("workflow", "apply", str(tmp_path / "no.yaml"), code=2).err
    assert "--payload" in ostinato("workflow", "run", "x", "--payload", "[1]", code=2).err

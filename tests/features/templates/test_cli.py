"""`ostinato task …` and `ostinato template …`, over HTTP and on the database."""

from __future__ import annotations

from tests.cli.places import the_json

PLACES = ("direct-sqlite", "server-postgres")

REPORT = """
name: report
description: A report.
parameters:
  - {name: customer, type: integer, description: Whose.}
  - {name: code, description: Which.}
  - {name: to, type: list, default: []}
job:
  task: fine
  name: "Report of {{ params.customer }}"
  args: {n: "{{ params.customer }}", who: "{{ params.code }}"}
  schedule: {every: 1h}
"""


def test_tasks(at):
    listed = at("task", "list")
    assert listed.code == 0
    assert "http" in listed.out
    shown = at("task", "show", "command")
    assert "OSTINATO_ALLOW_COMMANDS" in shown.out
    assert "argv" in shown.out
    assert the_json(at("task", "show", "http", "--json"))["args"]["required"] == ["url"]
    assert at("task", "show", "nope").code == 3


def test_args_are_refused_at_the_terminal(at):
    refused = at("job", "add", "http", "--now", "--arg", "url=nowhere")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith("args.url must be an http or https URL")


def test_a_template_from_a_file(at, tmp_path):
    (tmp_path / "report.yaml").write_text(REPORT)
    applied = at("template", "apply", "report.yaml")
    assert (applied.code, applied.out.strip()) == (0, "The template report is saved.")
    assert at("template", "apply", "report.yaml").code == 0
    assert "report" in at("template", "list").out
    shown = at("template", "show", "report")
    assert "customer" in shown.out
    assert '"task": "fine"' in shown.out
    made = at(
        "template", "use", "report", "--param", "customer=17", "--param", "code=007", "--allow-unknown",
        "--tag", "x", "--json",
    )  # fmt: skip
    job = the_json(made)
    assert (job["args"], job["name"], job["tags"]) == ({"n": 17, "who": "007"}, "Report of 17", ["x"])
    assert at("template", "use", "report", "--param", "customer=many").code == 2
    assert "params.customer is required" in at("template", "use", "report").err
    assert at("template", "use", "report", "--param", "customer=1", "--param", "code=2", "--arg", "n=3").code == 2
    assert at("template", "delete", "report").code == 0
    assert at("template", "show", "report").code == 3


def test_a_file_that_cannot_be_used(at, tmp_path):
    assert at("template", "apply", "missing.yaml").code == 2
    (tmp_path / "bad.yaml").write_text("- just text")
    assert "an object with a name" in at("template", "apply", "bad.yaml").err

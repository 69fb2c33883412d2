"""Kubernetes, GitHub Actions and EventBridge: the examples of their pages, as jobs."""

import json
from datetime import UTC, datetime

import pytest

from ostinato.core.errors import Invalid
from ostinato.features.transfer.rules.clouds import cron_job, event_rule
from tests.cli.places import the_json

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)

A_CRON_JOB = """
apiVersion: batch/v1
kind: CronJob
metadata:
  name: hello
  namespace: shop
spec:
  schedule: "* * * * *"
  timeZone: Etc/UTC
  concurrencyPolicy: Forbid
  startingDeadlineSeconds: 200
  suspend: true
  jobTemplate:
    spec:
      backoffLimit: 2
      activeDeadlineSeconds: 90
      template:
        spec:
          containers:
          - name: hello
            image: busybox:1.28
            command: [/bin/sh, -c, date; echo Hello]
            env:
            - {name: WHO, value: world}
            - {name: KEY, valueFrom: {secretKeyRef: {name: k, key: v}}}
          restartPolicy: OnFailure
---
apiVersion: v1
kind: Service
metadata: {name: other}
"""
A_WORKFLOW = """
name: Nightly
on:
  push:
  schedule:
    - cron: "30 5 * * 1,3"
    - cron: "30 5 * * 2,4"
jobs:
  test: {runs-on: ubuntu-latest, steps: []}
"""


@pytest.fixture
def cli(ostinato, sqlite_url, monkeypatch):
    monkeypatch.setenv("OSTINATO_DATABASE_URL", sqlite_url)
    monkeypatch.setenv("OSTINATO_ALLOW_COMMANDS", "on")
    return ostinato


def imported(answer):
    return {job["ref"]: job for job in json.loads(answer.out)["jobs"]}


def test_a_cron_job_of_kubernetes(cli, tmp_path):
    (tmp_path / "jobs.yaml").write_text(A_CRON_JOB)
    (job,) = imported(cli("import", "kubernetes", str(tmp_path / "jobs.yaml"), "--yes", "--json")).values()
    assert (job["ref"], job["made"], job["differences"]) == ("shop/hello", True, [])
    assert [each.split()[0] for each in job["changes"]] == ["the", "variables"]
    shown = the_json(cli("job", "show", job["job"], "--json"))
    assert (shown["task"], shown["schedule"]["cron"], shown["status"]) == ("command", "* * * * *", "paused")
    assert shown["args"] == {"argv": ["/bin/sh", "-c", "date; echo Hello"], "env": {"WHO": "world"}}
    assert (shown["overlap"], shown["catch_up_within"], shown["max_retries"]) == ("skip", "3m20s", 2)
    assert shown["timeout"] == "1m30s"


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({}, "no schedule"),
        ({"schedule": "0 0 */2 * mon"}, "either day field"),
        ({"schedule": "0 0 * * *"}, "no container"),
        ({"schedule": "61 0 * * *"}, "minute field"),
    ],
)
def test_a_cron_job_that_cannot_move_is_refused(spec, says):
    work = {"template": {"spec": {"containers": [{"image": "x", "command": ["true"]}]}}}
    template = {} if says == "no container" else {"jobTemplate": {"spec": work}}
    with pytest.raises(Invalid, match=says):
        cron_job({"metadata": {"name": "x"}, "spec": spec | template}, "UTC", NOW)


def test_the_schedules_of_a_workflow_of_github(cli, tmp_path):
    (tmp_path / "nightly.yml").write_text(A_WORKFLOW)
    answer = cli("import", "github-actions", str(tmp_path), "--map", "nightly=command", "--json")
    told = imported(answer)
    assert {ref: (job["schedule"], job["task"]) for ref, job in told.items()} == {
        "nightly-1": ("30 5 * * 1,3", "command"), "nightly-2": ("30 5 * * 2,4", "command"),
    }  # fmt: skip
    assert all(job["paused"] for job in told.values())


@pytest.mark.parametrize(
    ("written", "becomes"),
    [
        ("rate(5 minutes)", {"every": "5m"}),
        ("rate(1 hour)", {"every": "1h"}),
        ("cron(0 10 * * ? *)", {"cron": "0 10 * * *", "timezone": "UTC"}),
        ("cron(15 12 * * ? *)", {"cron": "15 12 * * *", "timezone": "UTC"}),
        ("cron(0 18 ? * MON-FRI *)", {"cron": "0 18 * * MON-FRI", "timezone": "UTC"}),
        ("cron(0 8 1 * ? *)", {"cron": "0 8 1 * *", "timezone": "UTC"}),
        ("cron(0/15 * * * ? *)", {"cron": "0/15 * * * *", "timezone": "UTC"}),
        ("cron(0 9 ? * 2#1 *)", {"cron": "0 9 * * 1#1", "timezone": "UTC"}),
        ("cron(0 9 ? * 6L *)", {"cron": "0 9 * * 5L", "timezone": "UTC"}),
        ("cron(0 9 L JUL ? *)", {"cron": "0 9 L JUL *", "timezone": "UTC"}),
        ("cron(0 9 ? * 1,7 *)", {"cron": "0 9 * * SUN,SAT", "timezone": "UTC"}),
        ("at(2027-11-20T13:00:00)", {"at": "2027-11-20T13:00:00+00:00"}),
    ],
)
def test_expressions_of_eventbridge(written, becomes):
    found = event_rule({"Name": "r", "ScheduleExpression": written, "State": "ENABLED"}, "UTC", NOW)
    assert found.job["schedule"] == becomes
    assert len(found.times(NOW, 3)) == (1 if "at" in becomes else 3)


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("", "waits for events"),
        ("cron(0 10 * * ? 2027)", "year is 2027"),
        ("cron(0 10 3W * ? *)", "nearest weekday"),
        ("cron(0 10 * * ?)", "six fields"),
        ("every day", "neither rate"),
    ],
)
def test_what_eventbridge_has_and_we_do_not_is_refused(written, says):
    with pytest.raises(Invalid, match=says):
        event_rule({"Name": "r", "ScheduleExpression": written}, "UTC", NOW)


def test_a_rule_in_a_zone_whose_clocks_change_is_told(cli, tmp_path):
    rules = {
        "Rules": [
            {"Name": "paris", "ScheduleExpression": "cron(0 9 * * ? *)", "ScheduleExpressionTimezone": "Europe/Paris"},
            {"Name": "off", "ScheduleExpression": "rate(2 days)", "State": "DISABLED", "Description": "a report"},
        ]
    }
    (tmp_path / "rules.json").write_text(json.dumps(rules))
    told = imported(cli("import", "eventbridge", str(tmp_path / "rules.json"), "--yes", "--json"))
    assert "when the clocks of Europe/Paris change" in told["paris"]["changes"][-1]
    assert the_json(cli("job", "show", told["off"]["job"], "--json"))["status"] == "paused"

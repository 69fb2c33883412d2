"""Words of policies: each is declared once, and the pages, the form, the help and the documents show it."""

import json
import pickle
import re
from collections.abc import Iterator
from dataclasses import fields
from html import unescape
from pathlib import Path
from typing import Literal, get_args, get_origin, get_type_hints

import pytest
import typer
from pydantic import TypeAdapter
from typer.testing import CliRunner

from ostinato import Ostinato
from ostinato.cli.jobs import describing
from ostinato.core.model import SkipReason
from ostinato.core.policy import BACKOFF_WORDS, POLICY_WORDS, CatchUp, Choice, Isolation, Overlap, Policies
from ostinato.core.why import explain
from ostinato.dashboard.forms.job import FIELDS, GROUPS, WHEN
from ostinato.dashboard.jobs import ALWAYS
from ostinato.engine.running import RUNNING
from ostinato.options import TaskOptions
from ostinato.shapes.job_answer import JobAnswer
from ostinato.shapes.job_body import JobBody
from tests.build import HOUR, a_job
from tests.core.test_why import DUE, JOB, a_skip, evidence
from tests.dashboard.conftest import Visitor

WORDS = POLICY_WORDS | {f"backoff.{name}": words for name, words in BACKOFF_WORDS.items()}
VALUES = [(name, value) for name, words in WORDS.items() for value in words.choices]
NEEDED = {"wait_reset": {"retry_reset_period": "1d"}, "steps": {"backoff.steps": "1m, 5m"}}
OPTIONS = {"max_retries": "retries", "backoff.cap": "backoff_cap", "backoff.never_retry": "never_retry"}
PAGE = Path(__file__).parent.parent / "docs" / "reference" / "policies.md"

every_value = pytest.mark.parametrize(("name", "value"), VALUES, ids=[f"{n}={v.value}" for n, v in VALUES])


@pytest.fixture
def visitor(sqlite_url: str) -> Iterator[Visitor]:
    app = Ostinato("shop", database_url=sqlite_url)
    app.open(upgrade=True)

    @app.task
    def greet() -> None: ...

    yield Visitor(app)
    app.close()


def test_a_value_without_words_cannot_be_defined():
    with pytest.raises(TypeError, match='Size \'small\' needs words: write NAME = "small", "what it does"'):

        class Size(Choice):
            SMALL = "small"


def test_a_value_is_text_like_that_of_any_enum():
    assert Overlap("skip") is Overlap.SKIP is pickle.loads(pickle.dumps(Overlap.SKIP))
    assert (str(Overlap.SKIP), f"{Overlap.SKIP}", json.dumps([Overlap.SKIP])) == ("skip", "skip", '["skip"]')
    assert (Overlap.SKIP == "skip", hash(Overlap.SKIP)) == (True, hash("skip"))
    assert Overlap._value2member_map_ == {each.value: each for each in Overlap}
    assert Overlap.SKIP.words == "skip the due time"


def test_every_policy_has_words_of_its_own():
    assert list(POLICY_WORDS) == [each.name for each in fields(Policies)]
    assert len({words.label for words in POLICY_WORDS.values()}) == len(POLICY_WORDS)
    assert all(words.label and words.help.endswith(".") for words in WORDS.values())


def test_the_form_has_every_policy_in_a_group():
    groups = [*GROUPS, WHEN]
    placed = [name for group in groups for name in (*group.fields, *group.more)]
    assert sorted([*placed, "task", "args"]) == sorted(FIELDS)
    assert {name.partition(".")[0] for name in FIELDS} >= POLICY_WORDS.keys()
    for name, words in WORDS.items():
        if name not in ("window", "backoff"):
            assert (FIELDS[name].label, FIELDS[name].hint) == (words.label, words.help)


@every_value
def test_the_form_offers_every_value_and_the_page_of_the_job_shows_it(visitor, name, value):
    offered = re.search(rf'<select id="f-{name}".*?</select>', visitor.see("/jobs/new"), re.DOTALL)
    assert re.search(rf'<option value="{value}"[^>]*>{re.escape(value.words)}</option>', unescape(offered[0]))
    body = {"task": "greet", "do": "save", "schedule": "1h", name: value.value} | NEEDED.get(value, {})
    made = visitor.send("/jobs/new", on="/jobs/new", **body)
    page = unescape(visitor.follow(made))
    if name == "backoff.kind":
        assert "<dt>Backoff</dt>" in page
    elif name in ALWAYS or value is not getattr(Policies(), name):
        told = value.words.replace("max_overlap", "1").replace("catch_up_limit", "100")
        assert f"<dt>{POLICY_WORDS[name].label}</dt><dd>{told}</dd>" in page


def test_the_page_of_a_job_shows_every_policy_that_differs(visitor):
    said = {
        "start_at": "2026-11-16T09:00:00Z", "end_at": "2036-11-16T09:00:00Z", "total_repeats": "7", "jitter": "11s",
        "fixed_delay": "true", "window.from": "09:00", "window.to": "17:00", "max_overlap": "4",
        "late_after": "13m", "catch_up_limit": "17", "catch_up_within": "19h", "retry_reset_period": "3d",
        "keep_executions": "23", "keep_days": "29", "max_concurrency": "31", "rate_limit": "37/m",
        "concurrency_key": "shared", "cpu_limit": "41s", "memory_limit_mb": "43", "open_files_limit": "47",
        "output_limit_mb": "53", "timeout": "59s", "max_retries": "61", "run_args": "day", "first_run": "now",
        "overlap": "allow", "catch_up": "all", "when_exhausted": "fail", "on_lost": "fail", "backoff.base": "67s",
    }  # fmt: skip
    made = visitor.send("/jobs/new", on="/jobs/new", task="greet", do="save", schedule="1h", **said)
    page = unescape(visitor.follow(made))
    shown = dict(re.findall(r"<div><dt>([^<]*)</dt><dd>([^<]*)</dd></div>", page))
    assert {words.label for words in POLICY_WORDS.values()} - shown.keys() == {POLICY_WORDS["after"].label}
    assert (shown["Overlap"], shown["Overlap limit"]) == ("run side by side, up to 4", "4")
    assert (shown["Catch-up"], shown["Jitter"]) == ("run all missed times, up to 17", "11s")
    assert (shown["Window"], shown["Fixed delay"]) == (
        "mon, tue, wed, thu, fri, sat, sun 09:00–17:00 UTC",
        "yes",
    )
    assert shown["Backoff"] == "exponential from 1m7s to 1h"


@every_value
def test_the_openapi_document_explains_every_value(name, value):
    for shape in (JobBody, JobAnswer):
        schema = TypeAdapter(shape).json_schema()
        outer, _, inner = name.rpartition(".")
        model = schema["$defs"]["BackoffWords" if shape is JobBody else "BackoffAnswer"] if outer else schema
        assert f"`{value}`: {value.words}." in model["properties"][inner]["description"]


def test_the_help_of_the_terminal_lists_every_value():
    app = typer.Typer()

    @app.command()
    @describing
    def add(api, said) -> None: ...

    told = " ".join(re.sub(r"[│\s]+", " ", CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).output).split())
    for name, values in (("overlap", Overlap), ("catch_up", CatchUp)):
        assert f"{POLICY_WORDS[name].help[:-1]}: {', '.join(values)}." in told


def test_the_options_of_python_name_every_value():
    hints = get_type_hints(TaskOptions)
    literals = {name: get_args(hint) for name, hint in hints.items() if get_origin(hint) is Literal}
    choices = {name: words.choices for name, words in POLICY_WORDS.items() if words.choices}
    expected = choices | {"isolation": tuple(Isolation)}
    assert {name: set(values) for name, values in literals.items()} == {
        name: {each.value for each in values} for name, values in expected.items()
    }


@pytest.mark.parametrize("catch_up", CatchUp)
def test_why_tells_how_missed_times_are_caught_up(catch_up):
    job = a_job(JOB.id, every=HOUR, last_due_at=DUE, catch_up=catch_up)
    told = explain(evidence(job, skip=a_skip(SkipReason.MISSED))).sentences
    assert f"the catch-up policy is to {catch_up.words}." in told[0]


def test_every_isolation_can_run():
    assert set(RUNNING) == set(Isolation)


def test_the_reference_says_the_words_of_every_policy_and_value():
    page = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", PAGE.read_text())
    rows = dict(re.findall(r"^\| `(\w+)`[^|]*\|[^|]*\| (.*) \|$", page, re.M))
    for name in (*POLICY_WORDS, "backoff.cap", "backoff.never_retry"):
        assert rows[OPTIONS.get(name, name)].replace("`", "").startswith(WORDS[name].help), name
    values = [(name.removeprefix("backoff."), value) for name, value in VALUES]
    told = re.findall(r"^\| (\w+) \| `(\w+)` \| (.*) \|$", page, re.M)
    assert told == [
        (name, each.value, each.words) for name, each in [*values, *(("isolation", each) for each in Isolation)]
    ]

"""Values for the formats that the OpenAPI document names, so that schemathesis can make valid requests.

Loaded by schemathesis.toml. A format stands where a JSON schema has no words for the rule of one value; BETWEEN has the
few rules between values of one body.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from copy import deepcopy
from datetime import datetime
from typing import Any

import schemathesis
from hypothesis import strategies as st

from ostinato.core import arguments
from ostinato.core.cron import ALIASES
from ostinato.core.payload import as_whole
from ostinato.core.times import DAYS, zone_names
from ostinato.feature import our_features
from ostinato.features.templates.rules import PARAMS

NAME = st.from_regex(r"[a-z][a-z0-9_]{0,19}", fullmatch=True)


def _field(least: int, most: int) -> st.SearchStrategy[str]:
    number = st.integers(least, most)
    ranges = st.tuples(number, number).map(lambda both: f"{min(both)}-{max(both)}")
    return st.just("*") | st.integers(1, most).map("*/{}".format) | number.map(str) | ranges


CRON = st.tuples(_field(0, 59), _field(0, 23), _field(1, 28), _field(1, 12), _field(0, 6)).map(" ".join)
CRON |= st.sampled_from(list(ALIASES))
SPAN = st.integers(1, 10_000).map("{}m".format) | st.tuples(st.integers(1, 99), st.integers(1, 59)).map(
    "{0[0]}h{0[1]}m".format
)
INSTANT = st.datetimes().filter(lambda at: 1900 < at.year < 9999).map(lambda at: f"{at.isoformat()}Z")
DAY = st.sampled_from(DAYS)
FORMATS = {
    "task": st.just("anything"),
    "cron": CRON,
    "time-zone": st.sampled_from(sorted(zone_names())),
    "span": SPAN,
    "schedule": st.sampled_from(["manual", "now"]) | SPAN | SPAN.map("every {}".format) | CRON | INSTANT,
    "weekday": DAY | st.tuples(DAY, DAY).map("-".join),
    "weekdays": DAY | st.tuples(DAY, DAY).map("-".join) | st.lists(DAY, min_size=1).map(",".join),
    "time-of-day": st.times().map(lambda at: at.isoformat("minutes")) | st.just("24:00"),
    "printable": st.text(st.characters(categories=["L", "P", "S"]), min_size=1, max_size=50),
    "rate": st.tuples(st.integers(1, 1000), st.sampled_from(["s", "m", "h", "d", "30s"])).map("{0[0]}/{0[1]}".format),
    "concurrency-key": NAME,
    "secret-reference": NAME.map(lambda name: f"env:SECRET_{name.upper()}") | NAME.map("file:/run/secrets/{}".format),
    "header-name": NAME.map("X-{}".format),
    "table-name": NAME.map("t_{}".format),
    "column-name": NAME.map("c_{}".format),
    "json-path": st.lists(NAME, min_size=1).map(".".join) | st.just("items[?price > `1`]"),
    "source-schedule": st.sampled_from(["hourly", "daily", "Weekly"]) | SPAN.map("interval:{}".format) | SPAN | CRON,
    "greatest-of-column": NAME.map("max(c_{})".format),
    "database-url": NAME.map("env:SECRET_{}".format),
    "size": st.tuples(st.integers(1, 900), st.sampled_from(["KB", "MiB", "GB", "b", ""])).map("{0[0]}{0[1]}".format),
    "percent": st.integers(0, 100).map("{}%".format),
    "node-id": NAME,
    "condition": st.sampled_from(["payload.count > 0", "payload.region == 'eu' or not payload.count", "true"]),
    "http-url": st.tuples(NAME, NAME)
    .map("https://{0[0]}.example.org/{0[1]}".format)
    .map(lambda url: url.replace("_", "-")),
}


def _job(body: dict[str, Any]) -> None:
    """A job ends after it starts. GET /api/v1/tasks describes the args of a built-in task, and a crawl opens none."""
    first, last = body.get("start_at"), body.get("end_at")
    if first and last and _at(last) < _at(first):
        body["start_at"], body["end_at"] = last, first
    if body.get("task") in our_features().tasks:
        body["task"] = "anything"
    if not body.get("task"):
        body["args"] = body["run_args"] = None


def _at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _template(body: dict[str, Any]) -> None:
    """No name stands twice, and each name of the job is a parameter."""
    names = [name.split(".")[1] for name in arguments.placeholders(body["job"]) if name.startswith(f"{PARAMS}.")]
    given = [*({"name": name} for name in names), *(body.get("parameters") or [])]
    body["parameters"] = _once(given, lambda each: each["name"])


def _workflow(body: dict[str, Any]) -> None:
    """No id stands twice; a node comes after nodes of this workflow, and never after itself."""
    nodes: list[dict[str, Any]] = body.get("nodes") or []
    for index, node in enumerate(nodes):
        node["id"] = f"{node['id'][:90]}_{index}"
        if node.get("after"):
            node["after"] = [each["id"] for each in nodes[:index]][:3]


def _source(body: dict[str, Any]) -> None:
    """No column stands twice; `unique` and `incremental` name columns of this source."""
    fields = body["response"]["fields"]
    fields[:] = _once(fields, _column)
    names = [_column(field) for field in fields]
    if body["response"].get("unique"):
        body["response"]["unique"] = names
    _write(body, names)
    if body.get("graphql"):
        body.pop("body", None)
    if body.get("incremental"):
        body["incremental"] = {"from": f"max({names[0]})", "param": "since"}


def _write(body: dict[str, Any], names: list[str]) -> None:
    """A mode other than insert names its key, and goes with all that the source says."""
    body["response"].pop("unique" if body["response"].get("primaryKey") else "primaryKey", None)
    if body["response"].get("primaryKey"):
        body["response"]["primaryKey"] = names
    if body.get("write") not in (None, "insert"):
        body["write"] = {"mode": "upsert"}
        body["response"] = {**body["response"], "primaryKey": names}
        body["response"].pop("unique", None)


def _changed(body: dict[str, Any]) -> None:
    if "response" in body:
        _replaced(body)


def _replaced(body: dict[str, Any]) -> None:
    """The name is that in the address."""
    body.pop("name", None)
    _source(body)


def _sources(body: dict[str, Any]) -> None:
    body["sources"] = _once(body["sources"], lambda each: str(as_whole(each["name"])))
    for each in body["sources"]:
        _source(each)


def _column(field: dict[str, Any]) -> str:
    return str(field.get("target") or field["source"])


def _once(values: list[Any], name_of: Callable[[Any], str]) -> list[Any]:
    return list({name_of(each).lower(): each for each in values}.values())


# Rules between values of one body, for which a JSON schema has no words: a request that breaks one is mended.
BETWEEN = {
    "POST /api/v1/jobs": _job,
    "POST /api/v1/templates": _template,
    "PUT /api/v1/templates/{name}": _template,
    "POST /api/v1/workflows": _workflow,
    "PUT /api/v1/workflows/{id}": _workflow,
    "POST /api/v1/sources": _source,
    "POST /api/v1/sources/test": _source,
    "PUT /api/v1/sources/{name}": _replaced,
    "PATCH /api/v1/sources/{name}": _changed,
    "POST /api/v1/sources/apply": _sources,
}

ARGS = r"args\b|run_args cannot name|A crawl needs|The task \w+ (is off|needs)|No process here"
EDIT = (
    rf"{ARGS}|.* say different things|interval_type needs|schedule_enabled needs|Only a cron schedule"
    r"|fixed_delay is for|end_at lies before|concurrency_key|when_exhausted: wait_reset needs|The longest interval"
    r"|app is read-only"
    r"|(interval_minutes|interval_type|schedule_time|timezone|url|source_id|source_name) cannot be null"
)
# What such a request may be refused for: for what stands there already, and not for the body alone.
STANDING = {
    "PUT /api/v1/jobs/{id}": EDIT,
    "PATCH /api/v1/jobs/{id}": EDIT,
    "POST /api/v1/jobs/{id}/run": ARGS,
    "PATCH /api/v1/schedules/{id}/": rf"{ARGS}|No matching trigger",
    "PATCH /api/v1/sources/{name}": (
        r"incremental|response\.(unique|primaryKey)|write|.* a source has one pagination|name: a source keeps"
    ),
    "POST /api/v1/sources/test": r"Page 1:|table: ",
}


@schemathesis.check
def is_refused_for_what_stands_there(context: Any, response: Any, case: schemathesis.Case) -> None:
    """A valid edit is refused only because of the thing that it edits."""
    allowed = STANDING.get(case.operation.label)
    if allowed is None or response.status_code != 422 or not case.meta.generation.mode.is_positive:
        return
    sentence = response.json()["detail"]
    assert re.match(allowed, sentence), f"The schema does not say it: {sentence}"


@schemathesis.hook
def map_case(context: schemathesis.HookContext, case: schemathesis.Case) -> schemathesis.Case:
    """Mend a valid body; a body that is wrong on purpose stays wrong."""
    mend = BETWEEN.get(case.operation.label)
    if mend is not None and isinstance(case.body, dict) and case.meta.generation.mode.is_positive:
        case.body = deepcopy(case.body)
        mend(case.body)
    return case


for name, strategy in FORMATS.items():
    schemathesis.openapi.format(name, strategy)

"""`ostinato job convert`: conversion of cron schedules to intervals with the same due times."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

import typer

from ostinato.cli.client import FOUND_SOMETHING
from ostinato.cli.output import Answer, Column, Listing, Sentences, Several, Shown, absolute, note, print_json, show
from ostinato.cli.verbs import ApiCalls
from ostinato.core.errors import Invalid
from ostinato.core.schedule import Cron, Every, describe, to_json
from ostinato.features.transfer.rules.crontab import CronPlan, plan
from ostinato.features.transfer.rules.found import TIMES, Difference, by, compared

BEFORE: Final = "converted_from"  # in the metadata of a job: its schedule before the conversion
GOING_ON: Final = ["pending", "scheduled", "queued", "running", "paused"]


@dataclass(frozen=True, slots=True)
class Conversion:
    """A job, its cron schedule, and the plan that replaces it."""

    job: Answer
    before: Cron
    plan: CronPlan
    done: bool = False
    compared: Sequence[Difference] | None = None

    @property
    def changes(self) -> bool:
        return isinstance(self.plan.schedule, Every)


def convert(api: ApiCalls, jobs: Sequence[str], *, yes: bool, verify: bool) -> None:
    """Show the plan, convert the jobs if confirmed, and compare the due times if requested."""
    found = [_conversion(api, job) for job in _chosen(api, jobs) if "cron" in job["schedule"]]
    if not api.as_json:
        show(_preview(api, found))
    if any(each.changes for each in found) and _wanted(api, yes, sum(each.changes for each in found)):
        found = [_converted(api, each) if each.changes else each for each in found]
    if verify:
        found = [replace(each, compared=_compared(api, each)) for each in found]
    _report(api, found)
    if any(each.compared for each in found):
        raise typer.Exit(FOUND_SOMETHING)


def undo(api: ApiCalls, jobs: Sequence[str]) -> None:
    """Restore the cron expressions of these jobs, or of all converted jobs."""
    back = [job for job in _chosen(api, jobs) if BEFORE in job["metadata"]]
    answers = [_given_back(api, job) for job in back]
    lines = [f"{job['key'] or job['id']} is cron again: {job['schedule_description']}." for job in answers]
    api.tell(answers, lambda _: Sentences(lines or ["No job was converted: there is nothing to undo."]))


def _chosen(api: ApiCalls, jobs: Sequence[str]) -> Iterator[Any]:
    """Return the named jobs, or all jobs that have not ended."""
    if jobs:
        return (api.get(api.job(ref)) for ref in jobs)
    return api.pages("/jobs", "jobs", status=GOING_ON)


def _conversion(api: ApiCalls, job: Answer) -> Conversion:
    before = Cron(job["schedule"]["cron"], job["schedule"]["timezone"])
    return Conversion(job, before, plan(before, api.now()))


def _wanted(api: ApiCalls, yes: bool, count: int) -> bool:
    if yes:
        return True
    if api.as_json or not sys.stdin.isatty():
        note("Nothing was written. Use --yes to write it.")
        return False
    return typer.confirm(f"Convert {count} jobs?", err=True)


def _converted(api: ApiCalls, each: Conversion) -> Conversion:
    """Save the new schedule, unless the job was edited after it was read."""
    start, job = each.plan.start_at, each.job
    body = {
        "schedule": {
            **to_json(each.plan.schedule),
            "schedule_time": each.before.expression,
            "timezone": each.before.timezone,
        },
        "start_at": None if start is None else start.isoformat(),
        "metadata": {**job["metadata"], BEFORE: {**to_json(each.before), "start_at": job["start_at"]}},
    }
    answer = api.ask("PATCH", api.job(job["id"]), body=body, headers={"If-Match": f'"{job["version"]}"'})
    return replace(each, job=answer, done=True)


def _given_back(api: ApiCalls, job: Answer) -> Any:
    metadata = dict(job["metadata"])
    before = metadata.pop(BEFORE)
    if not isinstance(before, dict) or "cron" not in before:
        raise Invalid(f"The metadata of {job['id']} do not hold its former schedule: {BEFORE} is {before!r}.")
    body = {
        "schedule": {"cron": before["cron"], "timezone": before.get("timezone", "UTC")},
        "start_at": before.get("start_at"),
        "metadata": metadata,
    }
    return api.ask("PATCH", api.job(job["id"]), body=body, headers={"If-Match": f'"{job["version"]}"'})


def _compared(api: ApiCalls, each: Conversion) -> list[Difference]:
    """Compare the next due times of a job with those of its cron expression."""
    if each.done and not each.job["is_paused"]:  # a paused job has no due times
        answer = api.get(api.job(each.job["id"], "next"), n=TIMES)
        times = [datetime.fromisoformat(at) for at in answer["times"]]
    else:
        times = each.plan.times(api.now(), TIMES)
    since = api.now()
    return compared(by(each.before)(since, TIMES), times, since)


# -- output


def _preview(api: ApiCalls, found: Sequence[Conversion]) -> Shown:
    now = api.now()
    rows = [
        {
            "job": each.job["key"] or each.job["id"],
            "expression": each.before.expression,
            "becomes": describe(each.plan.schedule, each.plan.start_at)
            if each.changes
            else f"stays ({each.plan.why or 'no plain period'})",
            "next": "; ".join(absolute(at, now) for at in each.plan.times(now, 3)),
        }
        for each in found
    ]
    columns = (
        Column("Job", lambda row: row["job"]),
        Column("Schedule", lambda row: row["expression"]),
        Column("Becomes", lambda row: row["becomes"], cut=True),
        Column("Next runs", lambda row: row["next"], cut=True),
    )
    return Listing(columns, rows, "No job has a cron expression.")


def _report(api: ApiCalls, found: Sequence[Conversion]) -> None:
    if api.as_json:
        print_json([_as_json(each) for each in found])
        return
    parts: list[Shown] = [
        Sentences([f"{each.job['id']}: {_sentence(one)}." for one in each.compared])
        for each in found
        if each.compared is not None
    ]
    if found and all(each.compared == [] for each in found):
        parts.append(Sentences(["The next ten times of each job are the same before and after."]))
    if done := sum(each.done for each in found):
        parts.append(Sentences([f"{done} jobs were converted. To undo it: ostinato job convert --undo"]))
    show(Several(parts))


def _as_json(each: Conversion) -> dict[str, Any]:
    return {
        "job": each.job["id"],
        "before": to_json(each.before),
        "after": to_json(each.plan.schedule),
        "start_at": None if each.plan.start_at is None else each.plan.start_at.isoformat(),
        "why": each.plan.why,
        "converted": each.done,
        "differences": None if each.compared is None else [_difference(one) for one in each.compared],
    }


def _sentence(one: Difference) -> str:
    return f"it was due {_at(one.before)}, and is now {_at(one.after)}"


def _difference(one: Difference) -> dict[str, str | None]:
    return {"before": _iso(one.before), "after": _iso(one.after)}


def _at(instant: datetime | None) -> str:
    return "never" if instant is None else f"{instant.astimezone():%Y-%m-%d %H:%M:%S %Z}"


def _iso(instant: datetime | None) -> str | None:
    return None if instant is None else instant.astimezone(UTC).isoformat().replace("+00:00", "Z")

"""`ostinato import KIND SOURCE`: plan, jobs, comparison of due times, and undo, in one shape for all kinds.

Nothing is written without `--yes`, or a yes at the terminal. The plan is made by the code that writes: the same request
with `dry_run`. A job whose meaning changes, or whose next ten times are others here, arrives paused.
"""

import json
import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlsplit

import typer

from ostinato.cli.client import FOUND_SOMETHING, path
from ostinato.cli.output import (
    Answer,
    Column,
    Listing,
    Sentences,
    Several,
    Shown,
    absolute,
    note,
    print_json,
    progress,
    show,
)
from ostinato.cli.verbs import ApiCalls
from ostinato.core.errors import Invalid, NotFound
from ostinato.features.transfer.rules.found import TIMES, Difference, Found, Reading, as_request, compared

BATCH: Final = 500  # jobs in a request,
BYTES: Final = 600_000  # or as many as have this size together
SHOWN: Final = 50  # jobs in a table; --json has all
NEXT: Final = 3  # times in a table
STDIN: Final = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The options of an import."""

    kind: str
    source: str
    name: str  # of the import
    yes: bool
    verify: bool
    history: bool = False
    paused: bool = False
    accept_changes: bool = False
    names: Mapping[str, str] = field(default_factory=dict)  # --map
    queue: str | None = None


@dataclass(frozen=True, slots=True)
class _Line:
    """A job of the other system: its due times there, the answer about it, and what differs."""

    found: Found
    theirs: Sequence[datetime]
    answer: Answer
    differences: Sequence[Difference] = ()
    made: bool = False

    @property
    def job(self) -> str | None:
        job: str | None = self.answer["job"]
        return job

    @property
    def refused(self) -> str | None:
        refused: str | None = self.answer["refused"]
        return refused

    @property
    def means_something_else(self) -> bool:
        return bool(self.found.changes or self.differences)

    @property
    def next(self) -> list[datetime]:
        return [datetime.fromisoformat(at) for at in self.answer["next"]]


def import_name(kind: str, now: datetime) -> str:
    """Return a name that sorts by time, and is unique within a second."""
    return f"{kind}-{now:%Y%m%dT%H%M%S.%fZ}-{secrets.token_hex(2)}"


def bring(api: ApiCalls, reading: Reading, wish: Wish) -> None:
    """Show the plan, write the jobs if confirmed, and compare the due times if requested."""
    unused = list(_unused(reading, wish))
    reading = replace(reading, jobs=[found.changed(wish.names, wish.queue) for found in reading.jobs])
    lines = _planned(api, reading.jobs, wish)
    notes = [*unused, *reading.notes, *_unknown_tasks(lines)]
    if not api.as_json:
        show(_preview(reading, lines, notes, wish, api.now()))
    written = _wanted(api, wish, sum(line.job is None and line.refused is None for line in lines))
    if written:
        lines = _written(api, lines, wish)
    if wish.verify:
        lines = _verified(api, lines, wish)
    _report(api, reading, lines, notes, wish, wish.name if written else None)
    if reading.refused or any(line.refused for line in lines) or (wish.verify and _differs(lines)):
        raise typer.Exit(FOUND_SOMETHING)


def _differs(lines: Sequence[_Line]) -> bool:
    return any(line.differences for line in lines)


def _planned(api: ApiCalls, jobs: Sequence[Found], wish: Wish) -> list[_Line]:
    """Ask what would become of each job."""
    requests = [as_request(found, runs=False, paused_at=None) for found in jobs]
    lines = []
    for found, answer in zip(jobs, _asked(api, requests, wish, dry_run=True, what="Planning"), strict=True):
        since = api.now()
        theirs = [] if found.state.is_over else list(found.times(since, TIMES))
        line = _shifted(_Line(found, theirs, answer))
        lines.append(replace(line, differences=_differences(line, since)))
    return lines


def _shifted(line: _Line) -> _Line:
    """Let times that count from now begin with ours: both were asked for at different moments."""
    if not (line.found.from_now and line.theirs and line.next):
        return line
    shift = line.next[0] - line.theirs[0]
    return replace(line, theirs=[at + shift for at in line.theirs])


def _differences(line: _Line, since: datetime) -> list[Difference]:
    return [] if line.refused else compared(line.theirs, line.next, since)


def _asked(
    api: ApiCalls, requests: Sequence[Mapping[str, Any]], wish: Wish, *, dry_run: bool, what: str
) -> Iterator[Answer]:
    """Send jobs in requests that are small enough, and yield an answer for each."""
    done = 0
    with progress(what) as advance:
        for batch in _batches(requests):
            body = {"kind": wish.kind, "source": _plain(wish.source), "dry_run": dry_run, "jobs": batch}
            yield from api.post(path("imports", wish.name), body)["jobs"]
            done += len(batch)
            advance(done, len(requests))


def _batches(requests: Sequence[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    batch, size = list[Mapping[str, Any]](), 0
    for request in requests:
        more = len(json.dumps(request))
        if batch and (len(batch) == BATCH or size + more > BYTES):
            yield batch
            batch, size = [], 0
        batch.append(request)
        size += more
    if batch:
        yield batch


def _plain(source: str) -> str:
    """Return a source without its password."""
    if "://" not in source:
        return source
    parts = urlsplit(source)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _wanted(api: ApiCalls, wish: Wish, new: int) -> bool:
    """Ask at the terminal whether to write, unless an option answers."""
    if not new or wish.yes:
        return bool(new)
    if api.as_json or wish.source == STDIN or not sys.stdin.isatty():
        note("Nothing was written. Use --yes to write it.")
        return False
    return typer.confirm(f"Create {new} jobs?", err=True)


def _written(api: ApiCalls, lines: Sequence[_Line], wish: Wish) -> list[_Line]:
    now = api.now()
    new = [place for place, line in enumerate(lines) if line.job is None and line.refused is None]
    requests = [
        as_request(lines[place].found, runs=wish.history, paused_at=now if _pauses(lines[place], wish) else None)
        for place in new
    ]
    done = list(lines)
    answers = _asked(api, requests, wish, dry_run=False, what="Importing")
    for place, answer in zip(new, answers, strict=True):
        done[place] = replace(lines[place], answer=answer, made=answer["made"])
    return done


def _pauses(line: _Line, wish: Wish) -> bool:
    return wish.paused or (line.means_something_else and not wish.accept_changes)


def _verified(api: ApiCalls, lines: Sequence[_Line], wish: Wish) -> list[_Line]:
    """Compare the due times of the jobs as they are here now with those there."""
    again = _planned(api, [line.found for line in lines], wish)
    return [replace(now, made=line.made) for now, line in zip(again, lines, strict=True)]


def _unused(reading: Reading, wish: Wish) -> Iterator[str]:
    """Name the tasks of --map that no job has."""
    tasks = {found.task for found in reading.jobs}
    for old, new in wish.names.items():
        if old not in tasks:
            yield f"--map {old}={new}: no job has the task {old}."


def _unknown_tasks(lines: Sequence[_Line]) -> Iterator[str]:
    unknown = sorted({line.found.task for line in lines if line.refused is None and not line.answer["knows_task"]})
    if unknown:
        names = ", ".join(unknown[:5]) + (" …" if len(unknown) > 5 else "")
        yield f"No worker knows the tasks {names}: their runs wait until one does. --map OLD=NEW gives another name."


# -- output


def _preview(reading: Reading, lines: Sequence[_Line], notes: Sequence[str], wish: Wish, now: datetime) -> Shown:
    rows = [
        {
            "ref": line.found.ref,
            "schedule": line.found.schedule,
            "becomes": _becomes(line),
            "theirs": _times(line.theirs, now),
            "ours": _times(line.next, now),
            "title": line.found.title,
        }
        for line in lines[:SHOWN]
    ]
    columns = (
        Column("Job", lambda row: row["ref"], cut=True),
        Column("Schedule", lambda row: row["schedule"], cut=True),
        Column("Becomes", lambda row: row["becomes"], cut=True),
        Column("Next runs there", lambda row: row["theirs"], spare=1, cut=True),
        Column("Next runs here", lambda row: row["ours"], cut=True),
        Column("What", lambda row: row["title"], cut=True),
    )
    more = [f"… and {len(lines) - SHOWN:,} more; --json shows all."] if len(lines) > SHOWN else []
    told = [*_refusals(lines[:SHOWN]), *(each for line in lines[:SHOWN] for each in _sentences(line, wish))]
    refused = [f"{each.ref} is skipped: {each.why.rstrip('.')}. ({each.text})" for each in reading.refused]
    return Several(
        [Listing(columns, rows, "There are no jobs to import."), Sentences([*more, *told, *notes, *refused])]
    )


def _becomes(line: _Line) -> str:
    if line.refused:
        return "refused"
    state = line.found.state
    over = "cancelled" if state.cancelled_at else state.ended_as or ("paused" if state.paused_at else "")
    described: str = line.answer["schedule_description"]
    return described + (f" ({over})" if over else "") + (" (exists)" if line.job else "")


def _refusals(lines: Sequence[_Line]) -> Iterator[str]:
    """Say each reason once, with all that it refuses."""
    refs = dict[str, list[str]]()
    for line in lines:
        if line.refused:
            refs.setdefault(line.refused, []).append(line.found.ref)
    for reason, refused in refs.items():
        yield f"{', '.join(refused)} {'is' if len(refused) == 1 else 'are'} refused: {reason}"


def _sentences(line: _Line, wish: Wish) -> Iterator[str]:
    ref = line.found.ref
    yield from (f"{ref}: {each}" for each in line.found.notes)
    yield from (f"{ref} changes: {each}" for each in line.found.changes)
    if line.differences:
        yield f"{ref} changes: {len(line.differences)} of its next {TIMES} times differ."
        yield from (f"  {_at(each.before)} there, {_at(each.after)} here" for each in line.differences)
    if line.means_something_else and _pauses(line, wish) and not (line.job or line.refused):
        yield f"{ref} arrives paused: look at it, then ostinato job resume JOB; or use --accept-changes."


def _times(times: Sequence[datetime], now: datetime) -> str:
    return "; ".join(absolute(at, now) for at in times[:NEXT])


def _report(
    api: ApiCalls, reading: Reading, lines: Sequence[_Line], notes: Sequence[str], wish: Wish, name: str | None
) -> None:
    if api.as_json:
        print_json(_as_json(reading, lines, notes, wish, name))
        return
    if wish.verify and lines and not _differs(lines):
        show(Sentences([f"The next {TIMES} times of each job are the same there and here."]))
    made = [line for line in lines if line.made]
    if name is not None:
        for line in lines:
            if line.refused:
                note(f"{line.found.ref} is refused: {line.refused}")
        paused = sum(_pauses(line, wish) for line in made)
        words = [f"{len(made):,} jobs were created, as {name}.",
                 f"{paused:,} of them arrived paused: ostinato job resume JOB." if paused else "",
                 "A worker runs them: ostinato worker. Stop the other system first, or both run them.",
                 f"To undo the import: ostinato import {wish.kind} --undo {name}"]  # fmt: skip
        show(Sentences([each for each in words if each]))
    elif lines and all(line.job for line in lines):
        show(Sentences(["Every job is here already: there is nothing to do."]))


def _as_json(
    reading: Reading, lines: Sequence[_Line], notes: Sequence[str], wish: Wish, name: str | None
) -> dict[str, Any]:
    return {
        "import": name,
        "jobs": [
            {
                "ref": line.found.ref,
                "title": line.found.title,
                "task": line.found.task,
                "schedule": line.found.schedule,
                "becomes": line.answer["schedule_description"],
                "next_there": [at.isoformat() for at in line.theirs],
                "next": line.answer["next"],
                "differences": [{"there": _iso(each.before), "here": _iso(each.after)} for each in line.differences],
                "changes": list(line.found.changes),
                "notes": list(line.found.notes),
                "paused": _pauses(line, wish),
                "made": line.made,
                "refused": line.refused,
                "job": line.job,
            }
            for line in lines
        ],
        "refused": [{"ref": each.ref, "text": each.text, "why": each.why} for each in reading.refused],
        "notes": list(notes),
    }


def _at(instant: datetime | None) -> str:
    return "never" if instant is None else f"{instant.astimezone():%Y-%m-%d %H:%M:%S %Z}"


def _iso(instant: datetime | None) -> str | None:
    return None if instant is None else instant.isoformat().replace("+00:00", "Z")


# -- undo


def undo(api: ApiCalls, kind: str, which: str | None, yes: bool) -> None:
    """Remove the jobs of the newest import of a kind, or of the newest with this name or source, with their rows."""
    chosen = [
        each
        for each in api.get("/imports")["imports"]
        if each["kind"] == kind and each["jobs_here"] and which in (None, each["name"], each["source"])
    ]
    if not chosen:
        about = "no import" if which is None else f"no import of {which}"
        raise NotFound(f"There is {about} to undo.")
    name, count = chosen[0]["name"], chosen[0]["jobs_here"]
    if not yes:
        if api.as_json or not sys.stdin.isatty():
            raise Invalid(f"{count} jobs of {name} would be deleted, with their history: confirm with --yes.")
        typer.confirm(f"Delete the {count} jobs of {name}, with their history?", abort=True, err=True)
    deleted, spared = list[str](), list[str]()
    with progress("Deleting") as advance:
        for step in _steps(api, name):
            deleted += step["deleted"]
            spared += step["spared"]
            advance(len(deleted) + len(spared), count)
    lines = [f"{len(deleted)} jobs of {name} were deleted."]
    lines += [f"{len(spared)} were edited since, and stay: {', '.join(spared[:5])}."] if spared else []
    api.tell({"import": name, "deleted": deleted, "spared": spared}, lambda _: Sentences(lines))


def _steps(api: ApiCalls, name: str) -> Iterator[Answer]:
    after: str | None = None
    while True:
        step = api.ask("POST", path("imports", name, "undo"), query={"after": after})
        yield step
        after = step["after"]
        if after is None:
            return

"""`ostinato import crontab`: import of a crontab as jobs, one for each line, and its undo."""

import secrets
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import typer

from ostinato.cli.client import path
from ostinato.cli.codes import FOUND_SOMETHING
from ostinato.cli.output import Answer, Column, Listing, Sentences, Several, Shown, note, print_json, show
from ostinato.cli.verbs import ApiCalls
from ostinato.core.errors import Invalid, NotFound
from ostinato.core.schedule import to_json
from ostinato.core.zones import zone
from ostinato.features.transfer.crontab import CronPlan, Crontab, Entry, read_crontab
from ostinato.features.transfer.planning import Compared, compare, comparison, planned, schedule_words, shown_times

TAG: Final = "crontab"
LARGEST: Final = 1024 * 1024  # bytes
COMMAND: Final = "command"  # the built-in task; other tasks get the line as their argument `command`
ENDED: Final = ("completed", "failed", "cancelled")
NAME: Final = 60  # characters of the command that become the job's name
SHELL_TOO: Final = "Lines of a crontab are scripts: OSTINATO_ALLOW_SHELL=on is required too."


@dataclass(frozen=True, slots=True)
class Wish:
    """The options of an import."""

    file: str
    task: str
    queue: str | None
    timezone: str
    zone_chosen: bool  # by --timezone, not by the settings
    system: bool
    keep_cron: bool
    yes: bool
    verify: bool


@dataclass(frozen=True, slots=True)
class CrontabJob:
    """A line of the crontab, with its plan and its job."""

    entry: Entry
    key: str
    plan: CronPlan
    times: tuple[datetime, ...]
    job: Answer | None = None
    made: bool = False
    refused: str | None = None  # why the job was not created
    compared: Compared | None = None


def import_crontab(api: ApiCalls, wish: Wish) -> None:
    """Show the plan, create the jobs if confirmed, and compare the due times if requested."""
    crontab = _read(wish, api.now())
    name = _import_name(api.now())
    lines = [_with_job(api, line) for line in _lines(crontab, wish.keep_cron, api.now())]
    if wish.task == COMMAND and (why := api.get(path("tasks", COMMAND))["reason"]) is not None:
        crontab = replace(crontab, notes=(*crontab.notes, f"{why} {SHELL_TOO}"))
    if not api.as_json:
        show(_preview(crontab, lines, api.now()))
    written = _wanted(api, wish, lines)
    if written:
        lines = [line if line.job else _written(api, line, wish, name) for line in lines]
    if wish.verify:
        lines = [replace(line, compared=_compared(api, line)) for line in lines]
    _report(api, crontab, lines, name, written)
    if crontab.unread or any(_is_wrong(line) for line in lines):
        raise typer.Exit(FOUND_SOMETHING)


def _is_wrong(line: CrontabJob) -> bool:
    return line.refused is not None or (line.compared is not None and bool(line.compared.differences))


def _read(wish: Wish, now: datetime) -> Crontab:
    """Read the crontab; warn if the zone of this machine differs, because cron uses the zone of its machine."""
    crontab = read_crontab(_text(wish.file), wish.timezone, system=wish.system)
    here, there = now.astimezone(), now.astimezone(zone(wish.timezone))
    if wish.zone_chosen or here.utcoffset() == there.utcoffset():
        return crontab
    warning = f"This machine is in {here:%Z (UTC%z)}; lines above CRON_TZ are read in {wish.timezone}: see --timezone."
    return replace(crontab, notes=(warning, *crontab.notes))


def _start_of(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(LARGEST + 1)


def _text(file: str) -> str:
    try:
        content = sys.stdin.buffer.read(LARGEST + 1) if file == "-" else _start_of(Path(file))
    except FileNotFoundError:
        raise NotFound(f"There is no file {file}.") from None
    except OSError as error:
        raise Invalid(f"{file} cannot be read: {error.strerror}.") from None
    if len(content) > LARGEST:
        raise Invalid(f"{file} is larger than {LARGEST:,} bytes: that is no crontab.")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise Invalid(f"{file} is not text in UTF-8.") from None


def _import_name(now: datetime) -> str:
    """Return a name that sorts by time, and is unique within a second."""
    return f"{TAG}-{now:%Y%m%dT%H%M%S.%fZ}-{secrets.token_hex(2)}"


def _lines(crontab: Crontab, keep_cron: bool, now: datetime) -> Iterator[CrontabJob]:
    """Yield the lines; two equal lines get two keys, and so two jobs."""
    seen: dict[str, int] = {}
    for entry in crontab.entries:
        seen[entry.fingerprint] = count = seen.get(entry.fingerprint, 0) + 1
        key = f"{TAG}-{entry.fingerprint}" + (f"-{count}" if count > 1 else "")
        plan = planned(entry.cron, now, keep_cron)
        yield CrontabJob(entry, key, plan, tuple(plan.times(now, 3)))


def _with_job(api: ApiCalls, line: CrontabJob) -> CrontabJob:
    """Add the job of an earlier import to the line, unless the job has ended."""
    with suppress(NotFound):
        job = api.get(api.job(line.key))
        if job["status"] not in ENDED:
            return replace(line, job=job)
    return line


def _wanted(api: ApiCalls, wish: Wish, lines: Sequence[CrontabJob]) -> bool:
    """Ask at the terminal whether to write, unless an option answers."""
    new = [line for line in lines if line.job is None]
    if not new or wish.yes:
        return bool(new)
    if api.as_json or wish.file == "-" or not sys.stdin.isatty():
        note("Nothing was written. Use --yes to write it.")
        return False
    return typer.confirm(f"Create {len(new)} jobs?", err=True)


def _written(api: ApiCalls, line: CrontabJob, wish: Wish, name: str) -> CrontabJob:
    """Create the job of the line; an error is recorded, so that the other lines continue."""
    try:
        job = api.post("/jobs", _body(line, wish, name), allow_unknown=True)
    except Invalid as error:
        return replace(line, refused=str(error))
    return replace(line, job=job, made=True)


def _body(line: CrontabJob, wish: Wish, name: str) -> dict[str, Any]:
    """Return the body of the job. It has no retries: cron has none, and a command may not be safe to repeat."""
    entry = line.entry
    origin = {"import": name, "file": wish.file, "line": entry.line, "expression": entry.expression,
              "timezone": entry.timezone, "user": entry.user}  # fmt: skip
    body: dict[str, Any] = {
        "task": wish.task,
        "args": _args(entry, wish.task),
        "schedule": to_json(line.plan.schedule),
        "key": line.key,
        "name": entry.command[:NAME],
        "tags": [TAG, name],
        "metadata": {TAG: {word: value for word, value in origin.items() if value is not None}},
        "max_retries": 0,
    }
    if line.plan.start_at is not None:
        body["start_at"] = line.plan.start_at.isoformat()
    if wish.queue is not None:
        body["queue"] = wish.queue
    return body


def _args(entry: Entry, task: str) -> dict[str, Any]:
    """Return the args of the task: a line for the shell, its input, and its variables."""
    line = "script" if task == COMMAND else "command"
    args: dict[str, Any] = {line: entry.command, "shell": True}
    if entry.stdin is not None:
        args["stdin"] = entry.stdin
    if entry.environment:
        args["env"] = dict(entry.environment)
    return args


def _compared(api: ApiCalls, line: CrontabJob) -> Compared:
    if line.job is None:
        return comparison(line.entry.cron, line.plan.times(api.now(), 10), api.now())
    return compare(api, line.job["id"], line.entry.cron)


# -- output


def _preview(crontab: Crontab, lines: Sequence[CrontabJob], now: datetime) -> Shown:
    rows = [
        {
            "line": line.entry.line,
            "expression": line.entry.expression,
            "becomes": schedule_words(line.plan) + (" (exists)" if line.job else ""),
            "next": shown_times(line.times, now),
            "command": line.entry.command,
        }
        for line in lines
    ]
    columns = (
        Column("Line", lambda row: row["line"], right=True),
        Column("Schedule", lambda row: row["expression"]),
        Column("Becomes", lambda row: row["becomes"], cut=True),
        Column("Next runs", lambda row: row["next"], cut=True),
        Column("Command", lambda row: row["command"], cut=True),
    )
    stays = [f"Line {line.entry.line} stays cron: {line.plan.why}." for line in lines if line.plan.why]
    unread = [f"Line {each.line} is skipped: {each.why.rstrip('.')}. ({each.text})" for each in crontab.unread]
    return Several(
        [
            Listing(columns, rows, "The crontab has no lines that run a command."),
            Sentences([*stays, *crontab.notes, *unread]),
        ]
    )


def _report(api: ApiCalls, crontab: Crontab, lines: Sequence[CrontabJob], name: str, written: bool) -> None:
    if api.as_json:
        print_json(_as_json(crontab, lines, name, written))
        return
    for line in lines:
        if line.refused is not None:
            note(f"Line {line.entry.line} is refused: {line.refused}")
        for difference in line.compared.sentences() if line.compared else ():
            show(Sentences([f"Line {line.entry.line}: {difference}."]))
    if lines and all(line.compared is not None and not line.compared.differences for line in lines):
        show(Sentences(["The next ten times of each line are the same before and after."]))
    made = [line for line in lines if line.made]
    if made:
        task = made[0].job["task"] if made[0].job else ""
        show(Sentences([f"{len(made)} jobs were created, with the task {task!r}, as {name}.",
                        "A worker runs them: ostinato worker. Remove the lines from the crontab, or both run them.",
                        f"To undo the import: ostinato import crontab --undo {name}"]))  # fmt: skip
    elif lines and all(line.job for line in lines):
        show(Sentences(["Every line has a job already: there is nothing to do."]))


def _as_json(crontab: Crontab, lines: Sequence[CrontabJob], name: str, written: bool) -> dict[str, Any]:
    return {
        "import": name if written else None,
        "lines": [
            {
                "line": line.entry.line,
                "expression": line.entry.expression,
                "timezone": line.entry.timezone,
                "command": line.entry.command,
                "schedule": to_json(line.plan.schedule),
                "start_at": None if line.plan.start_at is None else line.plan.start_at.isoformat(),
                "why": line.plan.why,
                "next": [at.isoformat() for at in line.times],
                "made": line.made,
                "refused": line.refused,
                "job": None if line.job is None else line.job["id"],
                "differences": None if line.compared is None else line.compared.as_json(),
            }
            for line in lines
        ],
        "unread": [{"line": each.line, "text": each.text, "why": each.why} for each in crontab.unread],
        "notes": list(crontab.notes),
    }


# -- undo


def undo(api: ApiCalls, which: str | None, yes: bool) -> None:
    """Delete the jobs of the newest import, or of the newest with this name or file."""
    jobs = [job for job in api.pages("/jobs", "jobs", tag=TAG) if TAG in job["metadata"]]
    named = [job for job in jobs if which is None or which in _origin(job)]
    if not named:
        about = "no import" if which is None else f"no import of {which}"
        raise NotFound(f"There is {about} to undo.")
    newest = max(job["metadata"][TAG]["import"] for job in named)
    taken = [job for job in named if job["metadata"][TAG]["import"] == newest]
    if not yes:
        if api.as_json or not sys.stdin.isatty():
            raise Invalid(f"{len(taken)} jobs of {newest} would be deleted, with their history: confirm with --yes.")
        typer.confirm(f"Delete the {len(taken)} jobs of {newest}, with their history?", abort=True, err=True)
    for job in taken:
        with suppress(NotFound):
            api.ask("DELETE", api.job(job["id"]))
    answer = {"import": newest, "deleted": [job["id"] for job in taken]}
    api.tell(answer, lambda done: Sentences([f"{len(done['deleted'])} jobs of {newest} were deleted."]))


def _origin(job: Answer) -> tuple[str, str]:
    return job["metadata"][TAG]["import"], job["metadata"][TAG].get("file", "")

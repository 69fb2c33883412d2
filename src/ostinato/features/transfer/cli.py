"""`ostinato export` and `ostinato import`: jobs as lines of JSON, each a body that creates the job again."""

import inspect
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Annotated, Any, Final

import typer
from typer.core import TyperGroup

from ostinato.cli.client import BAD_INPUT
from ostinato.cli.output import Answer, Sentences, note, print_json, progress, show
from ostinato.cli.verbs import ApiCalls, DatabaseOption, verb
from ostinato.core.errors import Invalid, NotFound
from ostinato.shapes.documents import read_json

PAUSED: Final = "is_paused"
GOING_ON: Final = ("pending", "scheduled", "queued", "running", "paused")
STDIO: Final = "-"
KINDS: Final = {
    "hermes": "Import the sources of Hermes: definitions (YAML, or rows) and the table retries.",
    "pipelit": "Import the scheduled jobs of Pipelit.",
    "interval": "Import the jobs of the interval scheduler: the tables jobs and job_executions.",
    "chronos": "Import the jobs of CHRONOS: lines of mongoexport.",
    "apscheduler": "Import the jobs of APScheduler 3: the table of a SQLAlchemyJobStore.",
    "celery-beat": "Import beat_schedule of an app of Celery.",
    "django-celery-beat": "Import the periodic tasks of django-celery-beat.",
    "kubernetes": "Import CronJobs of Kubernetes from YAML.",
    "github-actions": "Import the schedules of workflow files of GitHub Actions.",
    "eventbridge": "Import rules and schedules of EventBridge from JSON.",
    "systemd": "Import timers of systemd, with the programs of their services.",
    "rq-scheduler": "Import the jobs of rq-scheduler from Redis.",
}


class OrJobs(TyperGroup):
    """A command group in which `import FILE` is short for `import jobs FILE`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, "-h", "--help"):
            args = ["jobs", *args]
        return super().parse_args(ctx, args)


incoming = typer.Typer(cls=OrJobs, rich_markup_mode=None)


@verb
def export(
    api: ApiCalls,
    file: Annotated[
        str, typer.Argument(metavar="[FILE]", help="The file to write (default: standard output).")
    ] = STDIO,
    tag: Annotated[str | None, typer.Option("--tag", metavar="TAG", help="Only jobs with this tag.")] = None,
    app: Annotated[str | None, typer.Option("--of-app", metavar="NAME", help="Only jobs of this app.")] = None,
    ended: Annotated[bool, typer.Option("--ended", help="Also export jobs that have ended.")] = False,
) -> None:
    """Write jobs as lines of JSON, for `ostinato import`. History is not included: see `db backup`."""
    chosen: dict[str, object] = {"tag": tag, "app": app, "status": [] if ended else list(GOING_ON)}
    total, count = api.get("/jobs", **chosen, limit=1)["total"], 0
    with _writing(file) as out, progress("Exporting") as advance:
        for count, job in enumerate(api.pages("/jobs", "jobs", sort="created_at", **chosen), 1):
            out.write(json.dumps(body_of(job), ensure_ascii=False) + "\n")
            advance(count, total)
    if file != STDIO:
        note(f"{count} jobs were written to {file}.")


def body_of(job: Answer) -> dict[str, Any]:
    """Return the body that creates this job again. The next due time of an interval becomes `start_at`."""
    body = {name: job[name] for name in _written() if job.get(name) not in (None, "", [], {})}
    if "every" in job["schedule"] and job["start_at"] is None and job["status"] == "scheduled":
        body["start_at"] = job["next_run_at"]
    if job[PAUSED]:
        body[PAUSED] = True
    return body


def _written() -> list[str]:
    """List the fields of Ostinato's own job format, but `timezone`: the schedule holds the zone."""
    from ostinato.shapes.job_words import OurWords

    return [name for name in OurWords.model_fields if name != "timezone"]


@contextmanager
def _writing(file: str) -> Iterator[IO[str]]:
    if file == STDIO:
        yield sys.stdout
        return
    try:
        with open(file, "x", encoding="utf-8", opener=_private) as out:
            yield out
    except FileExistsError:
        raise Invalid(f"{file} exists already: choose another name, or move it away.") from None
    except OSError as error:
        raise Invalid(f"{file} cannot be written: {error.strerror}.") from None


def _private(file: str, flags: int) -> int:
    """Open the file for its owner only, because arguments may be confidential."""
    return os.open(file, flags, 0o600)


@incoming.command("jobs")
@verb
def import_jobs(
    api: ApiCalls,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file from `export`; - is stdin.")],
    update: Annotated[bool, typer.Option("--update", help="Update jobs that have the same key.")] = False,
) -> None:
    """Create a job from each line. A job with the same key does not change, unless --update is given."""
    counts = {"made": 0, "updated": 0, "there": 0, "refused": 0}
    lines = list(_lines(file))
    with progress("Importing") as advance:
        for count, (number, line) in enumerate(lines, 1):
            try:
                counts[_take_in(api, _object(line), update)] += 1
            except (Invalid, NotFound) as error:
                counts["refused"] += 1
                note(f"Line {number}: {error}")
            advance(count, len(lines))
    api.tell(counts, _summary)
    if counts["refused"] == len(lines) > 0:
        note("No line is a job of `ostinato export`. For a crontab: ostinato import crontab FILE.")
    if counts["refused"]:
        raise typer.Exit(BAD_INPUT)


def _lines(file: str) -> Iterator[tuple[int, str]]:
    try:
        with sys.stdin if file == STDIO else Path(file).open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield number, line
    except FileNotFoundError:
        raise NotFound(f"There is no file {file}.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"{file} cannot be read: {error}.") from None


def _object(line: str) -> dict[str, Any]:
    value = read_json(line, "It")
    if not isinstance(value, dict):
        raise Invalid("It is not a JSON object.")
    return value


def _take_in(api: ApiCalls, body: dict[str, Any], update: bool) -> str:
    """Create the job, or update or keep the job with its key. Return which."""
    paused = body.pop(PAUSED, False)
    there = _holder(api, body.get("key"))
    if there is not None and not update:
        return "there"
    if there is not None:
        api.ask("PATCH", api.job(there["id"]), body=body)
        return "updated"
    made = api.post("/jobs", body, allow_unknown=True)
    if paused:
        api.post(api.job(made["id"], "pause"))
    return "made"


def _holder(api: ApiCalls, key: object) -> Answer | None:
    if not isinstance(key, str) or not key:
        return None
    with suppress(NotFound):
        job: Answer = api.get(api.job(key))
        return job if job["status"] in GOING_ON else None
    return None


def _summary(counts: dict[str, int]) -> Sentences:
    labels = {"made": "created", "updated": "updated", "there": "unchanged", "refused": "rejected"}
    words = [f"{counts[name]} {label}" for name, label in labels.items() if counts[name]]
    return Sentences([f"Jobs: {', '.join(words) or 'none'}."])


SourceArgument = Annotated[
    str | None, typer.Argument(metavar="[SOURCE]", help="What to read. With --undo: an import, or its source.")
]
MapOption = Annotated[list[str], typer.Option("--map", metavar="OLD=NEW", help="Another name for a task; repeatable.")]
PausedOption = Annotated[bool, typer.Option("--paused", help="All jobs arrive paused.")]
AcceptOption = Annotated[
    bool, typer.Option("--accept-changes", help="Jobs whose meaning changes arrive running, not paused.")
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Write without asking.")]
VerifyOption = Annotated[bool, typer.Option("--verify", help="Compare the next ten due times before and after.")]
UndoOption = Annotated[bool, typer.Option("--undo", help="Delete the jobs of the newest import.")]


@incoming.command("crontab")
@verb
def import_crontab(
    api: ApiCalls,
    file: Annotated[
        str | None,
        typer.Argument(metavar="FILE", help="A crontab; - is stdin. With --undo: a file or import."),
    ] = None,
    system: Annotated[
        bool, typer.Option("--system", help="Format of /etc/crontab: with a user before each command.")
    ] = False,
    timezone: Annotated[
        str | None, typer.Option("--timezone", metavar="ZONE", help="The zone of lines before CRON_TZ.")
    ] = None,
    keep_cron: Annotated[
        bool, typer.Option("--keep-cron", help="Keep all cron expressions; create no intervals.")
    ] = False,
    task: Annotated[str, typer.Option("--task", metavar="TASK", help="The task that runs each line.")] = "command",
    queue: Annotated[str | None, typer.Option("--queue", metavar="QUEUE", help="The queue of the jobs.")] = None,
    paused: PausedOption = False,
    accept_changes: AcceptOption = False,
    yes: YesOption = False,
    verify: VerifyOption = False,
    undo: UndoOption = False,
) -> None:
    """Create a job from each line of a crontab. Plain periods become intervals with the same due times."""
    from ostinato.features.transfer import importing, readers

    if undo:
        importing.undo(api, "crontab", file, yes)
        return
    if file is None:
        raise Invalid("Give a crontab: a file, or - for standard input (crontab -l | ostinato import crontab -).")
    name = importing.import_name("crontab", api.now())
    lines = readers.Lines(file, name, task, queue, timezone, system=system, keep_cron=keep_cron)
    wish = importing.Wish(
        kind="crontab", source=file, name=name, yes=yes, verify=verify, paused=paused, accept_changes=accept_changes
    )
    importing.bring(api, readers.crontab(api, lines), wish)


def _kind(name: str, help: str) -> None:
    """Add the command of a kind; all kinds have the same flags."""

    def bring(
        api: ApiCalls,
        source: SourceArgument = None,
        map: MapOption = [],  # noqa: B006
        timezone: Annotated[
            str | None, typer.Option("--timezone", metavar="ZONE", help="The zone of schedules that name none.")
        ] = None,
        definitions: Annotated[
            str | None, typer.Option("--definitions", metavar="DIR|FILE", help="YAML files with the definitions.")
        ] = None,
        queue: Annotated[str | None, typer.Option("--queue", metavar="QUEUE", help="The queue of the jobs.")] = None,
        history: Annotated[bool, typer.Option("--history", help="Also bring past runs.")] = False,
        paused: PausedOption = False,
        accept_changes: AcceptOption = False,
        yes: YesOption = False,
        verify: VerifyOption = False,
        undo: UndoOption = False,
    ) -> None:
        from ostinato.features.transfer import importing, readers

        if undo:
            importing.undo(api, name, source, yes)
            return
        if source is None:
            raise Invalid(f"Give what to read: ostinato import {name} {readers.KINDS[name].example}")
        asked = readers.Asked(source, timezone, definitions, history, api.now())
        wish = importing.Wish(
            kind=name, source=source, name=importing.import_name(name, api.now()), yes=yes, verify=verify,
            history=history, paused=paused, accept_changes=accept_changes, names=_names(map), queue=queue,
        )  # fmt: skip
        importing.bring(api, readers.KINDS[name].read(asked), wish)

    if name != "hermes":  # others have their definitions in SOURCE
        known = inspect.signature(bring, eval_str=True)
        fewer = [each for each in known.parameters.values() if each.name != "definitions"]
        bring.__signature__ = known.replace(parameters=fewer)  # type: ignore[attr-defined]
    bring.__name__, bring.__doc__ = f"import_{name.replace('-', '_')}", help
    incoming.command(name)(verb(bring))


def _names(pairs: list[str]) -> dict[str, str]:
    names = {}
    for pair in pairs:
        old, separator, new = pair.partition("=")
        if not (old and separator and new):
            raise Invalid(f"--map is written OLD=NEW, not {pair[:60]!r}.")
        names[old] = new
    return names


for _name, _help in KINDS.items():
    _kind(_name, _help)


@verb
def convert(
    api: ApiCalls,
    jobs: Annotated[list[str], typer.Argument(metavar="[JOB]...", help="The jobs (default: all).")] = [],  # noqa: B006
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Write without asking.")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Compare the next ten due times before and after.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Restore the cron expressions.")] = False,
) -> None:
    """Convert cron schedules to intervals with the same due times. Other schedules (schedule_time) stay cron."""
    from ostinato.features.transfer import converting

    if undo:
        converting.undo(api, jobs)
    else:
        converting.convert(api, jobs, yes=yes, verify=verify)


def views(
    schema: Annotated[
        str | None, typer.Option("--schema", metavar="NAME", help="The schema of PostgreSQL (default: old).")
    ] = None,
    prefix: Annotated[str, typer.Option("--prefix", metavar="TEXT", help="The beginning of their names.")] = "",
    drop: Annotated[bool, typer.Option("--drop", help="Remove the views.")] = False,
    database: DatabaseOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print only JSON.")] = False,
) -> None:
    """Create read-only views with the tables and columns of former systems: jobs, job_executions, retries."""
    from ostinato.features.transfer import views

    names = (views.drop if drop else views.create)(database, schema, prefix)
    if as_json:
        print_json({"views": names})
    else:
        show(Sentences([f"{'Removed' if drop else 'Created'}: {', '.join(names) or 'nothing'}."]))


GROUPS: Final = {"import": incoming}
COMMANDS: Final = {"export": export, "job convert": convert, "db views": views}

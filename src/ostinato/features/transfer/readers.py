"""Readers of other systems: they open files and tables, and rules make jobs of what is in them."""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from ostinato.cli.client import path
from ostinato.cli.verbs import ApiCalls, files_in
from ostinato.config import Settings
from ostinato.config.extras import need
from ostinato.core.errors import NOT_READABLE, Invalid, NotFound, StoreUnavailable
from ostinato.core.outcome import OutcomeKind
from ostinato.core.times import zone
from ostinato.features.transfer import tables
from ostinato.features.transfer.rules import celery, clouds, rq_scheduler, seeds, systemd
from ostinato.features.transfer.rules import chronos as chronos_rules
from ostinato.features.transfer.rules import crontab as crontab_rules
from ostinato.features.transfer.rules.apscheduler import apscheduler_job
from ostinato.features.transfer.rules.found import Found, Reading, Unmovable, each, instant, text
from ostinato.shapes.documents import listed, read_file, read_text, read_yaml

LARGEST: Final = 1024 * 1024  # bytes of a crontab
LARGEST_EXPORT: Final = 512 * LARGEST  # bytes of an export of documents
STDIN: Final = "-"
ON: Final = re.compile(r"^on\s*:", re.MULTILINE)
BEAT: Final = "django_celery_beat"  # the beginning of the names of its tables
SHELL_TOO: Final = "Lines of a crontab are scripts: OSTINATO_ALLOW_SHELL=on is required too."


@dataclass(frozen=True, slots=True)
class Asked:
    """What a reader is asked for."""

    source: str
    timezone: str | None
    definitions: str | None
    history: bool
    now: datetime

    @property
    def zone(self) -> str:
        """The zone of schedules that name none."""
        return zone(self.timezone or Settings.load().timezone).key


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of system: an example of its source, and its reader."""

    example: str
    read: Callable[[Asked], Reading]


# -- the systems of the seeds


def _interval(asked: Asked) -> Reading:
    with tables.opened(asked.source) as there:
        rows = there.rows("SELECT * FROM jobs")
        counted, executions, notes = _executions_of(there, asked.history)
    reading = each(rows, lambda row: seeds.interval_job(row, *_past(row, counted, executions), asked.zone), "id")
    return replace(reading, notes=notes)


def _past(
    row: tables.Row, counted: Mapping[str, Mapping[OutcomeKind, int]], executions: Mapping[str, Sequence[tables.Row]]
) -> tuple[Mapping[OutcomeKind, int], Sequence[tables.Row]]:
    job_id = text(row["id"])
    return counted.get(job_id, {}), executions.get(job_id, ())


def _executions_of(
    there: tables.Tables, history: bool
) -> tuple[dict[str, dict[OutcomeKind, int]], Mapping[str, Sequence[tables.Row]], list[str]]:
    """Return counts and rows of `job_executions` by job. What runs there is no history yet."""
    if not there.has("job_executions"):
        return {}, {}, ["There is no table job_executions: the jobs come without counters."]
    counted: dict[str, dict[OutcomeKind, int]] = {}
    running = 0
    for row in there.rows("SELECT job_id, status, count(*) AS runs FROM job_executions GROUP BY job_id, status"):
        kind = seeds.OUTCOMES.get(row["status"])
        if kind is None:
            running += row["runs"]
        else:
            counted.setdefault(text(row["job_id"]), {})[kind] = row["runs"]
    notes = [f"{running} executions were running there: they are left out."] if running else []
    rows = there.rows("SELECT * FROM job_executions") if history else []
    return counted, seeds.by_job(rows), notes


def _pipelit(asked: Asked) -> Reading:
    with tables.opened(asked.source) as there:
        rows = there.rows("SELECT * FROM scheduled_jobs")
    workflows = sorted({text(row.get("workflow_id")) for row in rows})
    notes = [f"Workflows are not converted: create {', '.join(workflows[:10])} here before the jobs run."]
    return replace(each(rows, seeds.pipelit_job, "id"), notes=notes if workflows else [])


def _hermes(asked: Asked) -> Reading:
    """Read definitions from files, or from the table `sources`; retry state and data from the tables."""
    if not tables.is_database(asked.source):
        return _hermes_sources(_definitions(asked.source), {}, {}, asked)
    with tables.opened(asked.source) as there:
        written = [] if asked.definitions is None else _definitions(asked.definitions)
        if asked.definitions is None:
            written = [seeds.hermes_definition(row) for row in there.rows("SELECT * FROM sources")]
        retries = (
            {row["source_name"]: row for row in there.rows("SELECT * FROM retries")} if there.has("retries") else {}
        )
        newest = {text(each_.get("name")): _newest(there, each_) for each_ in written}
    return _hermes_sources(written, retries, newest, asked)


def _hermes_sources(
    written: Sequence[tables.Row],
    retries: Mapping[str, tables.Row],
    newest: Mapping[str, datetime | None],
    asked: Asked,
) -> Reading:
    def read(row: tables.Row) -> Any:
        name = text(row.get("name"))
        return seeds.hermes_source(row, retries.get(name), newest.get(name), asked.now, asked.zone)

    return each(written, read, "name")


def _definitions(place: str) -> list[tables.Row]:
    found = [
        row for file in files_in([Path(place)]) for document in read_file(file) for row in listed(document, "sources")
    ]
    if not found:
        raise Invalid(f"{place} contains no source.")
    return found


def _newest(there: tables.Tables, definition: tables.Row) -> datetime | None:
    """Return when the newest row of a source was stored, as Hermes asks for it; None without its table."""
    table = definition.get("table")
    if not isinstance(table, str) or not there.has(table):
        return None
    quoted = text(definition.get("name")).replace("'", "''")
    found = there.rows(f"SELECT max(created_at) AS newest FROM {tables.name(table)} WHERE source_name = '{quoted}'")
    return instant(found[0]["newest"])


def _chronos(asked: Asked) -> Reading:
    documents = list(chronos_rules.documents(_text(asked.source, LARGEST_EXPORT, "no export of jobs")))
    warning = [f"{name} of CHRONOS is {ours} here." for name, ours in chronos_rules.SETTINGS.items()]
    return replace(each(documents, chronos_rules.chronos_job, "jobId"), notes=warning if documents else [])


def _apscheduler(asked: Asked) -> Reading:
    """Read the rows themselves: the reader of APScheduler deletes jobs that it cannot load."""
    with tables.opened(asked.source) as there:
        rows = there.rows("SELECT id, next_run_time, job_state FROM apscheduler_jobs")
    return each(rows, lambda row: apscheduler_job(row, asked.now), "id")


def _celery_beat(asked: Asked) -> Reading:
    """Read `beat_schedule` of an app, which is imported. The file of beat is never opened: it is a pickle."""
    conf = _loaded(asked.source).conf
    timezone = zone(str(asked.timezone or conf.timezone or "UTC")).key
    entries = [{"name": name, **entry} for name, entry in dict(conf.beat_schedule or {}).items()]
    reading = each(entries, lambda row: celery.beat_entry(row["name"], row, timezone, asked.now), "name")
    return replace(reading, notes=["Intervals count from now: when a task ran last is known only to beat."])


def _loaded(source: str) -> Any:
    """Import MODULE:APP from this folder, as Celery does."""
    module, separator, name = source.partition(":")
    if not separator or not module or not name:
        raise Invalid(f"Give MODULE:APP, such as shop.celery:app, not {source[:60]!r}.")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise NotFound(f"{source} cannot be imported: {error}.") from None
    if not hasattr(found, "conf"):
        raise Invalid(f"{source} is no app of Celery: it has no conf.")
    return found


def _django_celery_beat(asked: Asked) -> Reading:
    with tables.opened(asked.source) as there:
        schedules = {
            kind: {row["id"]: row for row in there.rows(f"SELECT * FROM {BEAT}_{kind}schedule")}
            for kind in ("interval", "crontab", "clocked")
        }
        rows = there.rows(f"SELECT * FROM {BEAT}_periodictask WHERE name <> 'celery.backend_cleanup'")
    return each(rows, lambda row: celery.periodic_task(row, schedules, asked.zone, asked.now), "name")


def _rq_scheduler(asked: Asked) -> Reading:
    """Read the jobs that wait in Redis; nothing is written there."""
    need("rq", "redis", "A URL of Redis")
    import redis

    try:
        with redis.Redis.from_url(asked.source) as there:
            waiting = there.zrange(rq_scheduler.SCHEDULED, 0, -1, withscores=True)
            rows = [
                {"id": _decoded(job_id), "score": score, "stored": there.hgetall(rq_scheduler.JOB + _decoded(job_id))}
                for job_id, score in waiting
            ]
    except (redis.RedisError, ValueError) as error:
        raise StoreUnavailable(f"Redis does not answer: {error}.") from None

    def read(row: Mapping[str, Any]) -> Found:
        return rq_scheduler.scheduled_job(row["id"], row["score"], row["stored"], asked.zone, asked.now)

    return each(rows, read, "id")


def _decoded(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _kubernetes(asked: Asked) -> Reading:
    """Read manifests, or the list of `kubectl get cronjobs -o yaml`; documents of other kinds are passed over."""
    found = [one for file in files_in([Path(asked.source)]) for document in read_file(file) for one in _items(document)]
    jobs = [one for one in found if isinstance(one, Mapping) and one.get("kind") == "CronJob"]
    named = [{**one, "name": text((one.get("metadata") or {}).get("name"))} for one in jobs]
    reading = each(named, lambda one: clouds.cron_job(one, asked.zone, asked.now), "name")
    return replace(reading, notes=[] if jobs else [f"{asked.source} has no CronJob."])


def _items(document: Any) -> Sequence[Any]:
    items = document.get("items") if isinstance(document, Mapping) else document
    return items if isinstance(items, list) else [document]


def _github_actions(asked: Asked) -> Reading:
    """Read workflow files, such as those of .github/workflows."""
    jobs, refused = list[Found](), list[Unmovable]()
    for file in files_in([Path(asked.source)]):
        try:
            # YAML reads the word `on` as true
            for document in read_yaml(ON.sub('"on":', read_text(file, LARGEST)), str(file)):
                jobs += clouds.workflow_file(file.stem, document)
        except NOT_READABLE as error:
            refused.append(Unmovable(file.name, "", str(error)))
    return Reading(jobs, refused)


def _eventbridge(asked: Asked) -> Reading:
    """Read the JSON of `aws events list-rules`, or schedules of `aws scheduler get-schedule`."""
    rows = [row for file in files_in([Path(asked.source)]) for one in read_file(file) for row in _rules(one)]
    return each(rows, lambda row: clouds.event_rule(row, asked.zone, asked.now), "Name")


def _rules(document: Any) -> Sequence[Any]:
    rules = document.get("Rules") if isinstance(document, Mapping) else document
    return rules if isinstance(rules, list) else [document]


def _systemd(asked: Asked) -> Reading:
    """Read a .timer file, or those of a folder, each with its service beside it."""
    place, jobs, refused = Path(asked.source), list[Found](), list[Unmovable]()
    files = sorted(place.glob("*.timer")) if place.is_dir() else [place]
    if not files:
        raise NotFound(f"{place} has no .timer file.")
    for file in files:
        try:
            written = read_text(file, LARGEST)
            service = file.with_name(systemd.service_of(file.stem, written))
            beside = read_text(service, LARGEST) if service.is_file() else None
            jobs += systemd.timer_jobs(file.stem, written, beside, asked.zone, asked.now)
        except NOT_READABLE as error:
            refused.append(Unmovable(file.name, "", str(error)))
    return Reading(jobs, refused, _zone_warning(asked.timezone, asked.zone, asked.now, "timers without a zone"))


def _zone_warning(chosen: str | None, zone_name: str, now: datetime, what: str) -> list[str]:
    """Warn if this machine has another zone than the one that is assumed."""
    here, there = now.astimezone(), now.astimezone(zone(zone_name))
    if chosen is not None or here.utcoffset() == there.utcoffset():
        return []
    return [f"This machine is in {here:%Z (UTC%z)}; {what} are read in {zone_name}: see --timezone."]


KINDS: Final[Mapping[str, Kind]] = {
    "hermes": Kind("postgresql://HOST/hermes --definitions sources/", _hermes),
    "pipelit": Kind("sqlite:///pipelit.db", _pipelit),
    "interval": Kind("postgresql://HOST/crawler --history", _interval),
    "chronos": Kind("jobs.jsonl", _chronos),
    "apscheduler": Kind("sqlite:///jobs.sqlite", _apscheduler),
    "celery-beat": Kind("shop.celery:app", _celery_beat),
    "django-celery-beat": Kind("postgresql://HOST/shop", _django_celery_beat),
    "kubernetes": Kind("cronjobs.yaml", _kubernetes),
    "github-actions": Kind(".github/workflows", _github_actions),
    "eventbridge": Kind("rules.json", _eventbridge),
    "systemd": Kind("/etc/systemd/system", _systemd),
    "rq-scheduler": Kind("redis://localhost:6379", _rq_scheduler),
}


# -- crontabs


@dataclass(frozen=True, slots=True)
class Lines:
    """The options of a crontab."""

    file: str
    name: str  # of the import
    task: str
    queue: str | None
    timezone: str | None
    system: bool
    keep_cron: bool


def crontab(api: ApiCalls, asked: Lines) -> Reading:
    """Read a crontab; warn if the zone of this machine differs, because cron uses the zone of its machine."""
    now, zone_name = api.now(), zone(asked.timezone or Settings.load().timezone).key
    read = crontab_rules.read_crontab(_text(asked.file, LARGEST, "no crontab"), zone_name, system=asked.system)
    wish = crontab_rules.CrontabWish(asked.file, asked.name, asked.task, asked.queue, asked.keep_cron)
    found, notes = crontab_rules.jobs_of(read, wish, now), list(read.notes)
    notes = _zone_warning(asked.timezone, zone_name, now, "lines above CRON_TZ") + notes
    if asked.task == crontab_rules.COMMAND and (why := api.get(path("tasks", asked.task))["reason"]) is not None:
        notes.append(f"{why} {SHELL_TOO}")
    return replace(found, notes=notes)


def _text(file: str, largest: int, what: str) -> str:
    try:
        content = sys.stdin.buffer.read(largest + 1) if file == STDIN else _start_of(Path(file), largest)
    except FileNotFoundError:
        raise NotFound(f"There is no file {file}.") from None
    except OSError as error:
        raise Invalid(f"{file} cannot be read: {error.strerror}.") from None
    if len(content) > largest:
        raise Invalid(f"{file} is larger than {largest:,} bytes: that is {what}.")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise Invalid(f"{file} is not text in UTF-8.") from None


def _start_of(file: Path, largest: int) -> bytes:
    with file.open("rb") as opened:
        return opened.read(largest + 1)

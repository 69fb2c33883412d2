"""Crontabs: their entries, the schedules among these that are plain periods, and the jobs that they become.

A line is read as Debian's cron and cronie read it: comments, `NAME = value`, five fields or an alias, the user in a
system crontab, then the command, in which the first `%` begins the standard input. `CRON_TZ` sets the zone of the
lines below it; `TZ` is only passed to the command.

A plain period (`0 */6 * * *`) can be an interval, counted from the expression's next time. That is the same only as
long as the zone's clock is never put forward or back: else "each midnight" is not "every 24 hours", and the line stays
a cron expression.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from itertools import pairwise
from typing import Any, Final
from zoneinfo import ZoneInfo

from ostinato.core import cron
from ostinato.core.errors import Invalid, InvalidSchedule
from ostinato.core.schedule import Cron, Every, Schedule, preview, to_json
from ostinato.core.times import CALM, DAY, MINUTE, WEEK, format_duration, offset_at, zone
from ostinato.features.transfer.rules.found import Found, Reading, Unmovable, by

TAG: Final = "crontab"
COMMAND: Final = "command"  # the built-in task; other tasks get the line as their argument `command`
NAME: Final = 60  # characters of the command that become the job's name
AHEAD: Final = 5 * 366 * DAY  # as far as zone data is reliable

# A leap year and another: they show every rule about days.
_TWO_YEARS: Final = [date(2024, 1, 1) + n * DAY for n in range(731)]
_ENVIRONMENT: Final = re.compile(r"""("[^"]*"|'[^']*'|[^\s=]+)\s*=\s*(.*)""")
_USERS: Final = frozenset({"root", "daemon", "nobody", "postgres", "www-data"})  # users, not programs
_PERCENT: Final = re.compile(r"(?<!\\)%")


@dataclass(frozen=True, slots=True)
class Entry:
    """A line with a command."""

    line: int
    expression: str
    timezone: str
    command: str
    stdin: str | None = None
    environment: tuple[tuple[str, str], ...] = ()
    user: str | None = None

    @property
    def cron(self) -> Cron:
        return Cron(self.expression, self.timezone)

    @property
    def fingerprint(self) -> str:
        """Return a hash of the line; its place in the file does not count."""
        said = (self.expression, self.timezone, self.command, self.stdin, self.environment, self.user)
        return hashlib.sha256(repr(said).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Unread:
    """A line that cannot become a job, and why."""

    line: int
    text: str
    why: str


@dataclass(frozen=True, slots=True)
class Crontab:
    """A crontab that was read."""

    entries: tuple[Entry, ...]
    unread: tuple[Unread, ...]
    notes: tuple[str, ...]  # sentences about settings that mean something else here


@dataclass(slots=True)
class _Above:
    """Settings of earlier lines that apply to later ones."""

    timezone: str | None  # None: a CRON_TZ that is no zone
    environment: dict[str, str] = field(default_factory=dict)


def read_crontab(text: str, timezone: str, *, system: bool = False) -> Crontab:
    """Read a crontab; `timezone` holds until a line sets another. `system`: a user before each command."""
    above = _Above(timezone)
    entries: list[Entry] = []
    unread: list[Unread] = []
    for number, line in _lines(text):
        if assignment := _ENVIRONMENT.fullmatch(line):
            flaw = _assign(above, _unquoted(assignment[1]), _unquoted(assignment[2]))
        else:
            read = _entry(number, line, above, system)
            flaw = read if isinstance(read, str) else None
            if isinstance(read, Entry):
                entries.append(read)
        if flaw is not None:
            unread.append(Unread(number, line, flaw))
    return Crontab(tuple(entries), tuple(unread), tuple(_notes(entries)))


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            yield number, stripped


def _assign(above: _Above, name: str, value: str) -> str | None:
    """Apply `NAME = value`; return the error, if there is one."""
    if name != "CRON_TZ":
        above.environment[name] = value
        return None
    above.timezone = None
    try:
        above.timezone = zone(value).key
    except Invalid as error:
        return f"{error} The lines below it are left out too"
    return None


def _entry(number: int, line: str, above: _Above, system: bool) -> Entry | str:
    """Return the entry, or the error of the line."""
    count = (1 if line.startswith("@") else len(cron.FIELDS)) + system
    words = line.removeprefix("-").split(None, count)  # a leading `-` asks cron not to log
    if words[0].lower() == "@reboot":
        return "it runs when the machine starts, and no schedule can express that"
    if len(words) <= count:
        return f"it has no command after the {'user' if system else 'schedule'}"
    if above.timezone is None:
        return "the CRON_TZ above it is not a time zone"
    *when, rest = words
    user = when.pop() if system else None
    try:
        expression = Cron(" ".join(when), above.timezone).expression
    except InvalidSchedule as error:
        return str(error)
    command, stdin = _command(rest)
    program, *others = command.split(None, 1) or [""]
    if not system and others and program in _USERS:
        return f"{program} is a user and not a program: read a system crontab with --system"
    return Entry(number, expression, above.timezone, command, stdin, tuple(above.environment.items()), user)


def _command(text: str) -> tuple[str, str | None]:
    """Split the command from its standard input at the first `%`; the others are line ends, `\\%` is a `%`."""
    command, *lines = [part.replace(r"\%", "%") for part in _PERCENT.split(text)]
    return command.strip(), "\n".join(lines) + "\n" if lines else None


def _unquoted(text: str) -> str:
    text = text.strip()
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
    return text[1:-1] if quoted else text


def _notes(entries: list[Entry]) -> Iterator[str]:
    names = {name for entry in entries for name, _ in entry.environment}
    if "TZ" in names:
        yield "TZ is passed to the commands; CRON_TZ or --timezone sets the zone of the schedules."
    if "MAILTO" in names:
        yield "MAILTO is passed to the commands; Ostinato sends no mail."
    if any(entry.user for entry in entries):
        yield "A command runs as the user of its worker; the job keeps the name of the crontab's user."


# -- periods


@dataclass(frozen=True, slots=True)
class CronPlan:
    """The schedule that a cron expression becomes."""

    schedule: Schedule
    start_at: datetime | None = None  # an interval's first time
    why: str | None = None  # why a plain period stays a cron expression

    def times(self, after: datetime, n: int) -> list[datetime]:
        if self.start_at is None or not isinstance(self.schedule, Every):
            return preview(self.schedule, after, after, n)
        return preview(self.schedule, self.start_at - self.schedule.period, after, n)


def plan(schedule: Cron, now: datetime) -> CronPlan:
    """Return an interval where that means the same, else the expression as it is."""
    period = plain_period(schedule.expression)
    if period is None:
        return CronPlan(schedule)
    if uneven := _unevenness(schedule, period, now):
        return CronPlan(schedule, why=uneven)
    first = preview(schedule, now, now, 1)
    return CronPlan(Every(period), first[0]) if first else CronPlan(schedule)


def plain_period(expression: str) -> timedelta | None:
    """Return the distance between the wall times of an expression, if it is always the same."""
    pattern = cron.parse(expression)
    on = [n for n, day in enumerate(_TWO_YEARS) if pattern.is_on(day)]
    apart = {later - earlier for earlier, later in pairwise(on)}
    if apart == {7} and len(pattern.times) == 1:
        return WEEK
    return _even_step(pattern.times) if apart == {1} else None


def _even_step(times: tuple[time, ...]) -> timedelta | None:
    minutes = [at.hour * 60 + at.minute for at in times]
    step, rest = divmod(24 * 60, len(minutes))
    even = not rest and all(at == minutes[0] + n * step for n, at in enumerate(minutes))
    return step * MINUTE if even else None


def _unevenness(schedule: Cron, period: timedelta, now: datetime) -> str | None:
    """Say why an interval would leave the times of this expression; None if it would not."""
    real_time = cron.parse(schedule.expression).follows_real_time
    for change in _clock_changes(zone(schedule.timezone), now):
        if not real_time or change % period:
            moved = format_duration(abs(change))
            return f"{schedule.timezone} puts its clocks forward and back by {moved}: an interval would move"
    return None


def _clock_changes(tz: ZoneInfo, now: datetime) -> Iterator[timedelta]:
    """Yield the changes of the wall clock in the years to come."""
    offsets = [offset_at(now + n * CALM, tz) for n in range(AHEAD // CALM)]
    return (later - earlier for earlier, later in pairwise(offsets) if later != earlier)


# -- jobs


@dataclass(frozen=True, slots=True)
class CrontabWish:
    """The options of an import of a crontab; `name` is the import."""

    file: str
    name: str
    task: str = COMMAND
    queue: str | None = None
    keep_cron: bool = False


def jobs_of(crontab: Crontab, wish: CrontabWish, now: datetime) -> Reading:
    """Return the lines as jobs."""
    refused = [Unmovable(f"Line {each.line}", each.text, each.why) for each in crontab.unread]
    return Reading([*_found(crontab, wish, now)], refused, crontab.notes)


def _found(crontab: Crontab, wish: CrontabWish, now: datetime) -> Iterator[Found]:
    """Yield the jobs; two equal lines get two keys, and so two jobs."""
    seen: dict[str, int] = {}
    for entry in crontab.entries:
        seen[entry.fingerprint] = count = seen.get(entry.fingerprint, 0) + 1
        key = f"{TAG}-{entry.fingerprint}" + (f"-{count}" if count > 1 else "")
        made = CronPlan(entry.cron) if wish.keep_cron else plan(entry.cron, now)
        yield Found(
            ref=f"Line {entry.line}", title=entry.command, schedule=entry.expression,
            job=_body(entry, key, made, wish), times=by(entry.cron),
            notes=(f"it stays cron: {made.why}.",) if made.why else (),
        )  # fmt: skip


def _body(entry: Entry, key: str, made: CronPlan, wish: CrontabWish) -> dict[str, Any]:
    """Return the body of the job. It has no retries: cron has none, and a command may not be safe to repeat."""
    origin = {"import": wish.name, "file": wish.file, "line": entry.line, "expression": entry.expression,
              "timezone": entry.timezone, "user": entry.user}  # fmt: skip
    body: dict[str, Any] = {
        "task": wish.task,
        "args": _args(entry, wish.task),
        "schedule": to_json(made.schedule),
        "key": key,
        "name": entry.command[:NAME],
        "tags": [TAG, wish.name],
        "metadata": {TAG: {word: value for word, value in origin.items() if value is not None}},
        "max_retries": 0,
    }
    if made.start_at is not None:
        body["start_at"] = made.start_at.isoformat()
    return body if wish.queue is None else {**body, "queue": wish.queue}


def _args(entry: Entry, task: str) -> dict[str, Any]:
    """Return the args of the task: a line for the shell, its input, and its variables."""
    line = "script" if task == COMMAND else "command"
    args: dict[str, Any] = {line: entry.command, "shell": True}
    if entry.stdin is not None:
        args["stdin"] = entry.stdin
    if entry.environment:
        args["env"] = dict(entry.environment)
    return args

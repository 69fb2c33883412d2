"""Settings: what an operator may choose, as one frozen value.

Whoever comes first here wins:

    keyword arguments, command line
    environment variables, OSTINATO_*
    ostinato.toml in the working folder or, where there is none, [tool.ostinato] of its pyproject.toml
    defaults

A setting is one field of `Settings`: its default, its environment variable, what is allowed, and a sentence
for the reference. In files and as a keyword argument it goes by the field's name. All the rest reads that.
"""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, Self, TypeVar

from ostinato.core.duration import SECOND, format_duration, parse_duration
from ostinato.core.errors import Invalid, InvalidSetting
from ostinato.core.zones import zone

PREFIX = "OSTINATO_"
HANDED_TO_COMMANDS = frozenset(
    {"OSTINATO_RUN_JOB", "OSTINATO_RUN_KEY", "OSTINATO_RUN_ATTEMPT", "OSTINATO_RUN_DUE_AT"}
)
DEFAULT = "default"
ARGUMENT = "argument"

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)


class LogFormat(StrEnum):
    """How a log line is written."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """The least that is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """What a setting may be, in words, and how it is read.

    `parse` takes text, a value of TOML or the finished value. It raises Invalid where it knows what is wrong,
    any other ValueError where `allowed` says it all.
    """

    allowed: str
    parse: Callable[[object], T]


def text(allowed: str, pattern: str) -> Kind[str]:
    def parse(value: object) -> str:
        if isinstance(value, str) and re.fullmatch(pattern, value):
            return value
        raise ValueError

    return Kind(allowed, parse)


def duration(least: str, most: str = "1d") -> Kind[timedelta]:
    shortest, longest = parse_duration(least), parse_duration(most)

    def parse(value: object) -> timedelta:
        if isinstance(value, str | int | float | timedelta) and shortest <= parse_duration(value) <= longest:
            return parse_duration(value)
        raise ValueError

    return Kind(f"a duration from {least} to {most}, in seconds or written like 5s", parse)


def number(least: int, most: int) -> Kind[int]:
    def parse(value: object) -> int:
        if isinstance(value, str | int) and not isinstance(value, bool) and least <= int(value) <= most:
            return int(value)
        raise ValueError

    return Kind(f"a whole number from {least} to {most}", parse)


def switch() -> Kind[bool]:
    def parse(value: object) -> bool:
        word = str(value).strip().lower()
        if word in ("on", "true", "yes", "1"):
            return True
        if word in ("off", "false", "no", "0"):
            return False
        raise ValueError

    return Kind("on or off", parse)


def one_of(choices: type[E]) -> Kind[E]:
    return Kind("one of " + ", ".join(choices), lambda value: choices(str(value).strip().lower()))


def names() -> Kind[tuple[str, ...]]:
    def parse(value: object) -> tuple[str, ...]:
        given = value.split(",") if isinstance(value, str) else value
        if isinstance(given, list | tuple) and all(isinstance(name, str) for name in given):
            return tuple(dict.fromkeys(name.strip() for name in given if name.strip()))
        raise ValueError

    return Kind("names, separated by commas", parse)


def zone_name() -> Kind[str]:
    return Kind("the name of a time zone, such as Europe/Paris or UTC", lambda value: zone(str(value)).key)


DATABASE_URL = text(
    "sqlite:///file.db, sqlite:////absolute/path/file.db or postgresql://user:password@host/database",
    r"(sqlite:///|postgres(ql)?://)[^\0-\x1f]+",
)
SCHEMA = text(  # it stands in SQL: nobody should have to quote it, and pg_… is PostgreSQL's own
    "a name of up to 63 characters a-z, 0-9 and _ that begins with neither a digit nor pg_",
    r"(?!pg_)[a-z_][a-z0-9_]{0,62}",
)


def setting(default: T, env: str, kind: Kind[T], help: str) -> T:
    return field(default=default, metadata={"env": env, "kind": kind, "help": help})


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Settings:
    """What an operator chose. However it is made, it is right, or InvalidSetting is raised."""

    database_url: str = setting(
        "sqlite:///ostinato.db", "OSTINATO_DATABASE_URL", DATABASE_URL, "Where everything is kept."
    )
    schema: str = setting("ostinato", "OSTINATO_SCHEMA", SCHEMA, "The schema of our tables on PostgreSQL.")
    timezone: str = setting(
        "UTC", "OSTINATO_TIMEZONE", zone_name(), "The time zone of schedules that name none."
    )
    poll_interval: timedelta = setting(
        5 * SECOND,
        "OSTINATO_POLL_INTERVAL",
        duration("10ms"),
        "How often to look for work though no doorbell rang.",
    )
    concurrency: int = setting(
        5, "OSTINATO_CONCURRENCY", number(1, 10_000), "How many executions a worker runs at once."
    )
    queues: tuple[str, ...] = setting(
        (), "OSTINATO_QUEUES", names(), "The queues that a worker serves; empty is all."
    )
    lease: timedelta = setting(
        30 * SECOND, "OSTINATO_LEASE_SECONDS", duration("1s"), "How long a silent worker keeps what it runs."
    )
    renew: timedelta = setting(
        10 * SECOND,
        "OSTINATO_RENEW_SECONDS",
        duration("10ms"),
        "How often a worker renews its lease: less than half of it; unset, at most a third.",
    )
    sweep: timedelta = setting(
        10 * SECOND,
        "OSTINATO_SWEEP_SECONDS",
        duration("10ms"),
        "How often to look for lost work and old history.",
    )
    metrics: timedelta = setting(
        30 * SECOND,
        "OSTINATO_METRICS_SECONDS",
        duration("10ms"),
        "How often to count what only the database knows.",
    )
    shutdown_grace: timedelta = setting(
        20 * SECOND,
        "OSTINATO_SHUTDOWN_GRACE",
        duration("0s"),
        "How long running tasks may go on once their worker is told to stop.",
    )
    keep_executions: int = setting(
        100,
        "OSTINATO_KEEP_EXECUTIONS",
        number(1, 10_000),
        "How many executions of a job are kept, however old they are.",
    )
    keep_days: int = setting(
        30,
        "OSTINATO_KEEP_DAYS",
        number(0, 36_500),
        "For how many days a job's newest 10,000 executions are kept.",
    )
    run_log: bool = setting(
        True, "OSTINATO_RUN_LOG", switch(), "Whether each start and success is a log line."
    )
    log_format: LogFormat = setting(
        LogFormat.TEXT, "OSTINATO_LOG_FORMAT", one_of(LogFormat), "How log lines are written."
    )
    log_level: LogLevel = setting(
        LogLevel.INFO, "OSTINATO_LOG_LEVEL", one_of(LogLevel), "The least that is logged."
    )

    # Where each value came from: "default", "argument", an environment variable, or the path of a file.
    origins: Mapping[str, str] = field(default_factory=dict, compare=False)
    # Sentences about names that are no setting, for whoever logs.
    warnings: tuple[str, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        for each in SETTINGS:
            value = each.read(getattr(self, each.name), self._origin(each.name))
            object.__setattr__(self, each.name, value)
        if self.renew >= self.lease / 2:
            raise InvalidSetting(
                f"renew cannot be {written(self.renew)} ({self._origin('renew')}). It must be less than half "
                f"the lease, which is {written(self.lease)} ({self._origin('lease')})."
            )

    @classmethod
    def load(
        cls,
        overrides: Mapping[str, object] = {},
        environ: Mapping[str, str] = os.environ,
        folder: Path = Path(),
    ) -> Self:
        """Collect the settings; an override of None is one that was not given."""
        file, path = _file_in(folder)
        given = _defaults() | _from_file(file, path) | _from_environ(environ) | _from_arguments(overrides)
        if given["renew"].origin == DEFAULT:  # whoever shortens the lease need not know about renewals
            lease = BY_NAME["lease"].read(*given["lease"])
            given["renew"] = _Given(min(given["renew"].value, lease / 3), DEFAULT)
        return cls(
            **{name: value for name, (value, _) in given.items()},
            origins={name: origin for name, (_, origin) in given.items()},
            warnings=(*_unknown_in_environ(environ), *_unknown_in_file(file, path)),
        )

    def shown(self) -> Mapping[str, str]:
        """Each setting as text that anybody may see: passwords are masked."""
        return {each.name: written(getattr(self, each.name)) for each in SETTINGS}

    def __repr__(self) -> str:
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in self.shown().items())})"

    def _origin(self, name: str) -> str:
        return self.origins.get(name, ARGUMENT)


@dataclass(frozen=True, slots=True)
class Setting:
    """One field of `Settings`, as people meet it."""

    name: str
    env: str
    default: object
    kind: Kind[Any]
    help: str

    def read(self, value: object, origin: str) -> Any:
        """The value as its field wants it."""
        try:
            return self.kind.parse(value)
        except Invalid as error:
            raise self._refused(value, origin, str(error)) from None
        except ValueError:
            raise self._refused(value, origin, f"Allowed is {self.kind.allowed}.") from None

    def _refused(self, value: object, origin: str, why: str) -> InvalidSetting:
        return InvalidSetting(f"{self.name} cannot be {_quoted(value)} ({origin}). {why}")


SETTINGS = tuple(
    Setting(line.name, line.metadata["env"], line.default, line.metadata["kind"], line.metadata["help"])
    for line in fields(Settings)
    if line.metadata
)
BY_NAME = {each.name: each for each in SETTINGS}
BY_ENV = {each.env: each for each in SETTINGS}


class _Given(NamedTuple):
    value: Any
    origin: str


def _defaults() -> dict[str, _Given]:
    return {each.name: _Given(each.default, DEFAULT) for each in SETTINGS}


def _from_file(file: Mapping[str, object], path: str) -> dict[str, _Given]:
    return {name: _Given(value, path) for name, value in file.items() if name in BY_NAME}


def _from_environ(environ: Mapping[str, str]) -> dict[str, _Given]:
    return {each.name: _Given(environ[each.env], each.env) for each in SETTINGS if each.env in environ}


def _from_arguments(overrides: Mapping[str, object]) -> dict[str, _Given]:
    if unknown := sorted(overrides.keys() - BY_NAME.keys()):
        raise InvalidSetting(f"{unknown[0]} is no setting" + _did_you_mean(unknown[0], "name"))
    return {name: _Given(value, ARGUMENT) for name, value in overrides.items() if value is not None}


def _file_in(folder: Path) -> tuple[Mapping[str, object], str]:
    """The settings of the folder's file, and its path."""
    own, project = folder.absolute() / "ostinato.toml", folder.absolute() / "pyproject.toml"
    if own.is_file():
        return _table(own), str(own)
    return (_table(project, "tool", "ostinato") if project.is_file() else {}), str(project)


def _table(path: Path, *keys: str) -> Mapping[str, object]:
    import tomllib  # most processes find no file and never need it

    try:
        table = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidSetting(f"{path} cannot be read: {error}. Correct it, or move it away.") from None
    for key in keys:
        table = table.get(key, {})
        if not isinstance(table, dict):
            raise InvalidSetting(f"{key} in {path} must be a table: [{'.'.join(keys)}].")
    return table


def _unknown_in_environ(environ: Mapping[str, str]) -> list[str]:
    ours = {name for name in environ if name.startswith(PREFIX)}
    return [
        f"The environment variable {name} is no setting and was ignored" + _did_you_mean(name, "env")
        for name in sorted(ours - BY_ENV.keys() - HANDED_TO_COMMANDS)
    ]


def _unknown_in_file(file: Mapping[str, object], path: str) -> list[str]:
    return [
        f"{name} in {path} is no setting and was ignored" + _did_you_mean(name, "name")
        for name in sorted(file.keys() - BY_NAME.keys())
    ]


def _did_you_mean(unknown: str, spelling: Literal["name", "env"]) -> str:
    """The end of the sentence. People mix up the two spellings of a setting, so both are looked at."""
    from difflib import get_close_matches  # only mistakes pay for it

    known = BY_NAME | {env.removeprefix(PREFIX).lower(): each for env, each in BY_ENV.items()}
    close = get_close_matches(unknown.removeprefix(PREFIX).lower(), known, n=1)
    return f"; did you mean {getattr(known[close[0]], spelling)}?" if close else "."


def written(value: object) -> str:
    """The value of a setting as it is written in a file or variable, but for passwords."""
    match value:
        case timedelta():
            return format_duration(value)
        case bool():
            return "on" if value else "off"
        case tuple():
            return ",".join(value)
        case _:
            return masked(str(value))


def masked(value: str) -> str:
    """The text without the passwords of URLs; in doubt it hides too much."""
    hidden = re.sub(r"^((?:[\w+.-]+://)?+[^:]*:).*@", r"\1***@", value, flags=re.DOTALL)
    return re.sub(r"(password=)[^&\s]*", r"\1***", hidden, flags=re.IGNORECASE)


def _quoted(value: object) -> str:
    safe = repr(masked(value)) if isinstance(value, str) else str(value)
    return safe if len(safe) <= 100 else safe[:100] + "…"

"""Settings: what an operator may choose, as one frozen value.

Whoever comes first here wins:

    keyword arguments, command line
    environment variables, OSTINATO_*
    ostinato.toml in the working folder or, where there is none, [tool.ostinato] of its pyproject.toml
    defaults

A setting is one field of `Settings`: its default, its environment variable, what is allowed, and a sentence
for the reference. In files and as a keyword argument it goes by the field's name. All the rest reads that.

One setting: a field of `Settings`, and how its value is read.

Settings in a file: `ostinato.toml`, or `[tool.ostinato]` in `pyproject.toml`.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, TypeVar

from ostinato.config.kinds import (
    DATABASE_URL,
    FOLDER,
    PUBLIC_KEY,
    REDIS_URL,
    SCHEMA,
    TOKEN_SECRET,
    WEB_ADDRESS,
    DefaultRole,
    EngineKind,
    LogFormat,
    LogLevel,
    SettingKind,
    def_isolation,
    duration,
    egress,
    grants,
    masked,
    names,
    number,
    one_of,
    switch,
    text,
    written,
    zone_name,
)
from ostinato.config.secret import Secret
from ostinato.core.addresses import PUBLIC_ONLY, Egress
from ostinato.core.builtin import Permits
from ostinato.core.builtin.described import USUAL_ENVIRONMENT, USUAL_SECRETS
from ostinato.core.duration import DAY, SECOND
from ostinato.core.errors import Invalid, InvalidSetting
from ostinato.core.policy import Isolation

T = TypeVar("T")


def setting(default: T, env: str, kind: SettingKind[T], help: str) -> T:
    return field(default=default, metadata={"env": env, "kind": kind, "help": help})


@dataclass(frozen=True, slots=True)
class Setting:
    """Name, default, allowed values and help of a setting."""

    name: str
    env: str
    default: object
    kind: SettingKind[Any]
    help: str

    def read(self, value: object, origin: str) -> Any:
        """Read a value; InvalidSetting if it cannot be used."""
        try:
            return self.kind.parse(value)
        except Invalid as error:
            raise self._refused(value, origin, str(error)) from None
        except ValueError:
            raise self._refused(value, origin, f"Allowed is {self.kind.allowed}.") from None

    def _refused(self, value: object, origin: str, why: str) -> InvalidSetting:
        given = "what it is" if self.kind.secret else _quoted(value)
        return InvalidSetting(f"{self.name} cannot be {given} ({origin}). {why}")


def _quoted(value: object) -> str:
    safe = repr(masked(value)) if isinstance(value, str) else str(value)
    return safe if len(safe) <= 100 else safe[:100] + "…"


PREFIX = "OSTINATO_"
HANDED_TO_COMMANDS = frozenset(
    {"OSTINATO_RUN_JOB", "OSTINATO_RUN_KEY", "OSTINATO_RUN_ATTEMPT", "OSTINATO_RUN_DUE_AT"}
)
# Read by flags of the command line with these names.
OF_THE_COMMAND_LINE = frozenset({"OSTINATO_APP", "OSTINATO_SERVER", "OSTINATO_TOKEN"})
FOR_TESTS = frozenset({"OSTINATO_WITNESS"})  # see task/witness.py
DEFAULT = "default"
ARGUMENT = "argument"

NAME = text("a text of at most 255 characters", r"[^\0-\x1f\x7f]{0,255}")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Settings:
    """The settings of a process. They are always valid: a wrong value raises InvalidSetting."""

    database_url: str = setting(
        "sqlite:///ostinato.db", "OSTINATO_DATABASE_URL", DATABASE_URL, "Where everything is kept."
    )
    schema: str = setting("ostinato", "OSTINATO_SCHEMA", SCHEMA, "The schema of our tables on PostgreSQL.")
    data_folder: str = setting(
        "",
        "OSTINATO_DATA_FOLDER",
        FOLDER,
        "The folder of the SQLite files that sources may name; empty is that of our own file, else the working folder.",
    )
    timezone: str = setting(
        "UTC", "OSTINATO_TIMEZONE", zone_name(), "The time zone of schedules that name none."
    )
    poll_interval: timedelta = setting(
        5 * SECOND,
        "OSTINATO_POLL_INTERVAL",
        duration("10ms", "10m"),
        "How often to look for work though no doorbell rang.",
    )
    concurrency: int = setting(
        5, "OSTINATO_CONCURRENCY", number(1, 10_000), "How many executions a worker runs at once."
    )
    queues: tuple[str, ...] = setting(
        (), "OSTINATO_QUEUES", names(), "The queues that a worker serves; empty is all."
    )
    engine: EngineKind = setting(
        EngineKind.LOCAL, "OSTINATO_ENGINE", one_of(EngineKind), "Who runs what is due: our workers, or RQ's."
    )
    redis_url: Secret = setting(
        Secret(), "OSTINATO_REDIS_URL", REDIS_URL, "Where the Redis of RQ's workers is."
    )
    lease: timedelta = setting(
        30 * SECOND,
        "OSTINATO_LEASE_SECONDS",
        duration("1s", "30m"),
        "How long a silent worker keeps what it runs.",
    )
    renew: timedelta = setting(
        10 * SECOND,
        "OSTINATO_RENEW_SECONDS",
        duration("10ms", "10m"),
        "How often a worker renews its lease: less than half of it; unset, at most a third.",
    )
    sweep: timedelta = setting(
        10 * SECOND,
        "OSTINATO_SWEEP_SECONDS",
        duration("10ms", "10m"),
        "How often to look for lost work and old history.",
    )
    metrics: timedelta = setting(
        30 * SECOND,
        "OSTINATO_METRICS_SECONDS",
        duration("10ms", "10m"),
        "How often to count what only the database knows.",
    )
    shutdown_grace: timedelta = setting(
        20 * SECOND,
        "OSTINATO_SHUTDOWN_GRACE",
        duration("0s"),
        "How long running tasks may go on once their worker is told to stop.",
    )
    isolation: Isolation = setting(
        Isolation.THREAD,
        "OSTINATO_ISOLATION",
        def_isolation(),
        "Where `def` tasks run that do not say it themselves.",
    )
    stop_grace: timedelta = setting(
        5 * SECOND,
        "OSTINATO_STOP_GRACE",
        duration("0s", "10m"),
        "How long a process that is told to stop (SIGTERM) has before it is killed.",
    )
    recycle_runs: int = setting(
        1000, "OSTINATO_RECYCLE_RUNS", number(1, 1_000_000_000), "After how many runs a process is replaced."
    )
    recycle_memory_mb: int = setting(
        256,
        "OSTINATO_RECYCLE_MEMORY_MB",
        number(0, 100_000_000),
        "By how much a process may grow before it is replaced.",
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
    keep_log_mb: int = setting(
        10,
        "OSTINATO_KEEP_LOG_MB",
        number(0, 1000),
        "How many MiB of what an execution writes are kept; 0: nothing.",
    )
    capture_output: bool = setting(
        True,
        "OSTINATO_CAPTURE_OUTPUT",
        switch(),
        "Whether a process of ours also keeps what tasks on its loop and threads print and log.",
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
    http_process: bool = setting(
        True,
        "OSTINATO_HTTP_PROCESS",
        switch(),
        "Whether `ostinato serve` answers HTTP in a process of its own, so that clients cannot delay jobs.",
    )
    auth_secret: Secret = setting(
        Secret(), "OSTINATO_AUTH_SECRET", TOKEN_SECRET, "What tokens are signed with (HS256)."
    )
    auth_public_key: Secret = setting(
        Secret(),
        "OSTINATO_AUTH_PUBLIC_KEY",
        PUBLIC_KEY,
        "What tokens are checked with that others sign (RS256, EdDSA).",
    )
    auth_audience: str = setting("", "OSTINATO_AUTH_AUDIENCE", NAME, "Whom tokens must be for (`aud`).")
    auth_issuer: str = setting("", "OSTINATO_AUTH_ISSUER", NAME, "Who must have made tokens (`iss`).")
    auth_lifetime: timedelta = setting(
        30 * DAY,
        "OSTINATO_AUTH_LIFETIME",
        duration("1m", "366d"),
        "The longest that a token may be good for.",
    )
    auth_default_role: DefaultRole = setting(
        DefaultRole.NONE,
        "OSTINATO_AUTH_DEFAULT_ROLE",
        one_of(DefaultRole),
        "The role of tokens without `role`; none refuses them.",
    )
    auth_required: bool = setting(
        False,
        "OSTINATO_AUTH_REQUIRED",
        switch(),
        "Whether every request needs a credential, though tokens have no key here: API keys alone.",
    )
    allow_private_addresses: Egress = setting(
        PUBLIC_ONLY,
        "OSTINATO_ALLOW_PRIVATE_ADDRESSES",
        egress(),
        "Private networks that jobs, hooks and sources may call; `on` is all of them, with this host.",
    )
    allow_commands: bool = setting(
        False,
        "OSTINATO_ALLOW_COMMANDS",
        switch(),
        "Whether jobs may run programs (the task `command`), with all rights of the worker.",
    )
    allow_shell: bool = setting(
        False, "OSTINATO_ALLOW_SHELL", switch(), "Whether such a program may be a script for a shell."
    )
    command_environment: tuple[str, ...] = setting(
        USUAL_ENVIRONMENT,
        "OSTINATO_COMMAND_ENVIRONMENT",
        names(),
        "The variables of the worker that a program gets too.",
    )
    python_prefixes: tuple[str, ...] = setting(
        (),
        "OSTINATO_PYTHON_PREFIXES",
        names(),
        "The modules whose functions jobs may call (the task `python`), with all that is inside them.",
    )
    secrets: tuple[str, ...] = setting(
        USUAL_SECRETS,
        "OSTINATO_SECRETS",
        grants(),
        "The secrets that jobs, hooks, sources and providers may name.",
    )
    heartbeat_url: Secret = setting(
        Secret(), "OSTINATO_HEARTBEAT_URL", WEB_ADDRESS, "What to call every minute while all is well."
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
        if self.engine is EngineKind.RQ and not self.redis_url:
            raise InvalidSetting("engine rq needs redis_url: say where Redis is, such as redis://localhost.")
        if self.auth_secret and self.auth_public_key:
            raise InvalidSetting(
                "auth_secret and auth_public_key exclude each other: set the one that signs."
            )

    @property
    def auth_configured(self) -> bool:
        """True if a request needs a credential."""
        return bool(self.auth_secret or self.auth_public_key) or self.auth_required

    @property
    def permits(self) -> Permits:
        """Permissions of built-in tasks."""
        return Permits(
            egress=self.allow_private_addresses,
            commands=self.allow_commands,
            shell=self.allow_shell,
            environment=self.command_environment,
            python=self.python_prefixes,
            secrets=self.secrets,
            ours=tuple(self._own_secrets()),
        )

    def _own_secrets(self) -> Iterator[str]:
        """List the references to secrets of these settings, and to the files that the settings came from."""
        for each in SETTINGS:
            value = getattr(self, each.name)
            if isinstance(value, Secret) and value.is_reference:
                yield str(value)
        yield from (f"file:{origin}" for origin in {*self.origins.values()} - {DEFAULT, ARGUMENT, *BY_ENV})

    @classmethod
    def load(
        cls,
        overrides: Mapping[str, object] = {},
        environ: Mapping[str, str] = os.environ,
        folder: Path = Path(),
    ) -> Self:
        """Collect the settings; an override of None is one that was not given."""
        file, path = file_in(folder)
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


def _unknown_in_environ(environ: Mapping[str, str]) -> list[str]:
    ours = {name for name in environ if name.startswith(PREFIX)}
    return [
        f"The environment variable {name} is no setting and was ignored" + _did_you_mean(name, "env")
        for name in sorted(ours - BY_ENV.keys() - HANDED_TO_COMMANDS - OF_THE_COMMAND_LINE - FOR_TESTS)
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


def file_in(folder: Path) -> tuple[Mapping[str, object], str]:
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

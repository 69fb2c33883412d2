"""Settings of an operator, as one frozen value.

The first of these that has a value wins:

    keyword arguments, command line
    environment variables, OSTINATO_*
    ostinato.toml in the working folder or, where there is none, [tool.ostinato] of its pyproject.toml
    defaults

A setting is one field of `Settings`: its default, its environment variable, its allowed values, and a sentence for
the reference. The field's name is also its name in files and as a keyword argument.
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
    PROBE_ADDRESS,
    PUBLIC_KEY,
    REDIS_URL,
    SCHEMA,
    TOKEN_SECRET,
    TRACE_URL,
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
from ostinato.core.builtin import USUAL_ENVIRONMENT, USUAL_SECRETS, Permits
from ostinato.core.errors import Invalid, InvalidSetting
from ostinato.core.policy import Isolation
from ostinato.core.times import DAY, SECOND

T = TypeVar("T")


def setting(default: T, kind: SettingKind[T], help: str, env: str = "") -> T:
    """Declare a setting. Its variable is OSTINATO_ and its name in capitals, unless `env` names another one."""
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
        if self.kind.secret:
            return InvalidSetting(f"{self.name} has an invalid value ({origin}). {why}")
        return InvalidSetting(f"{self.name} cannot be {_quoted(value)} ({origin}). {why}")


def _quoted(value: object) -> str:
    safe = repr(masked(value)) if isinstance(value, str) else str(value)
    return safe if len(safe) <= 100 else safe[:100] + "…"


PREFIX = "OSTINATO_"
HANDED_TO_COMMANDS = frozenset({"OSTINATO_RUN_JOB", "OSTINATO_RUN_KEY", "OSTINATO_RUN_ATTEMPT", "OSTINATO_RUN_DUE_AT"})
# Flags of the command line read these.
OF_THE_COMMAND_LINE = frozenset({"OSTINATO_APP", "OSTINATO_SERVER", "OSTINATO_TOKEN"})
FOR_TESTS = frozenset({"OSTINATO_WITNESS"})  # see task/witness.py
DEFAULT = "default"
ARGUMENT = "argument"

NAME = text("a text of at most 255 characters", r"[^\0-\x1f\x7f]{0,255}")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Settings:
    """The settings of a process. They are always valid: a wrong value raises InvalidSetting."""

    database_url: str = setting(
        "sqlite:///ostinato.db", DATABASE_URL, "The database that stores jobs, runs and history."
    )
    schema: str = setting("ostinato", SCHEMA, "The PostgreSQL schema of Ostinato's tables.")
    data_folder: str = setting(
        "",
        FOLDER,
        "The folder of SQLite files that sources may name. Empty: the folder of our own file, else the working folder.",
    )
    timezone: str = setting("UTC", zone_name(), "The default time zone of schedules.")
    poll_interval: timedelta = setting(
        5 * SECOND, duration("10ms", "10m"), "The time between two checks for work if no notification arrives."
    )
    concurrency: int = setting(5, number(1, 10_000), "The maximum number of runs of a worker at once.")
    queues: tuple[str, ...] = setting((), names(), "The queues that a worker serves. Empty: all.")
    features: tuple[str, ...] = setting((), names(), "The features of other installed packages to use. Experimental.")
    engine: EngineKind = setting(
        EngineKind.LOCAL, one_of(EngineKind), "The engine that runs due jobs: Ostinato's workers or RQ's."
    )
    redis_url: Secret = setting(Secret(), REDIS_URL, "The Redis server of RQ's workers.")
    lease: timedelta = setting(
        30 * SECOND,
        duration("1s", "30m"),
        "The time after its last renewal when a worker counts as dead and loses its runs.",
        env="OSTINATO_LEASE_SECONDS",
    )
    renew: timedelta = setting(
        10 * SECOND,
        duration("10ms", "10m"),
        "How often a worker renews its lease. Less than half of the lease; by default at most a third.",
        env="OSTINATO_RENEW_SECONDS",
    )
    sweep: timedelta = setting(
        10 * SECOND,
        duration("10ms", "10m"),
        "How often to look for lost runs and old history.",
        env="OSTINATO_SWEEP_SECONDS",
    )
    metrics: timedelta = setting(
        30 * SECOND,
        duration("10ms", "10m"),
        "How often to query the database for metrics.",
        env="OSTINATO_METRICS_SECONDS",
    )
    shutdown_grace: timedelta = setting(
        20 * SECOND, duration("0s"), "How long runs may continue after their worker is asked to stop."
    )
    isolation: Isolation = setting(Isolation.THREAD, def_isolation(), "Where `def` tasks run by default.")
    stop_grace: timedelta = setting(
        5 * SECOND, duration("0s", "10m"), "The time between SIGTERM and SIGKILL when a task's process is stopped."
    )
    recycle_runs: int = setting(
        1000, number(1, 1_000_000_000), "The number of runs after which a task process is replaced."
    )
    recycle_memory_mb: int = setting(
        256, number(0, 100_000_000), "The memory growth in MiB after which a task process is replaced."
    )
    keep_executions: int = setting(
        100, number(1, 10_000), "The number of a job's newest executions that are kept, whatever their age."
    )
    keep_days: int = setting(
        30, number(0, 36_500), "The number of days for which a job's newest 10,000 executions are kept."
    )
    keep_log_mb: int = setting(
        10, number(0, 1000), "The maximum size in MiB of an execution's stored output. 0: none is stored."
    )
    capture_output: bool = setting(
        True, switch(), "Whether to store also the output and logs of tasks on the event loop and in threads."
    )
    run_log: bool = setting(True, switch(), "Whether to log the start and success of each run.")
    log_format: LogFormat = setting(LogFormat.TEXT, one_of(LogFormat), "The format of log lines.")
    log_level: LogLevel = setting(LogLevel.INFO, one_of(LogLevel), "The lowest level that is logged.")
    http_process: bool = setting(
        True,
        switch(),
        "Whether `ostinato serve` answers HTTP in a separate process, so that clients cannot delay jobs.",
    )
    probe: str = setting(
        "",
        PROBE_ADDRESS,
        "Where `ostinato worker` answers /livez, /readyz and /metrics. Without a host: 127.0.0.1. Empty: nowhere.",
    )
    otel: bool = setting(False, switch(), "Whether to trace and measure enqueues and runs with OpenTelemetry.")
    trace_url: str = setting(
        "", TRACE_URL, "The page of a trace in your tracing system, which the dashboard links; {trace_id} stands in it."
    )
    sentry: bool = setting(
        False, switch(), "Whether to report exceptions of runs, and check-ins of recurring jobs, to Sentry."
    )
    auth_secret: Secret = setting(Secret(), TOKEN_SECRET, "The secret that signs tokens (HS256).")
    auth_public_key: Secret = setting(
        Secret(), PUBLIC_KEY, "The public key that verifies tokens signed elsewhere (RS256, EdDSA)."
    )
    auth_audience: str = setting("", NAME, "The audience of accepted tokens (`aud`).")
    auth_issuer: str = setting("", NAME, "The issuer of accepted tokens (`iss`).")
    auth_lifetime: timedelta = setting(30 * DAY, duration("1m", "366d"), "The maximum lifetime of a token.")
    auth_default_role: DefaultRole = setting(
        DefaultRole.NONE, one_of(DefaultRole), "The role of tokens without `role`. none: they are refused."
    )
    auth_required: bool = setting(
        False, switch(), "Whether every request needs a credential, even without a key for tokens: then API keys only."
    )
    allow_private_addresses: Egress = setting(
        PUBLIC_ONLY,
        egress(),
        "The private networks that jobs, hooks and sources may call. on: all of them, and this host.",
    )
    allow_commands: bool = setting(
        False, switch(), "Whether jobs may run programs (task `command`) with all rights of the worker."
    )
    allow_shell: bool = setting(False, switch(), "Whether the task `command` may run shell scripts.")
    command_environment: tuple[str, ...] = setting(
        USUAL_ENVIRONMENT, names(), "The worker's environment variables that programs also get."
    )
    python_prefixes: tuple[str, ...] = setting(
        (), names(), "The modules whose functions jobs may call (task `python`), with their submodules."
    )
    secrets: tuple[str, ...] = setting(
        USUAL_SECRETS, grants(), "The secrets that jobs, hooks, sources and providers may name."
    )
    heartbeat_url: Secret = setting(
        Secret(), WEB_ADDRESS, "The URL that is called every minute while there is no problem."
    )

    # The origin of each value: "default", "argument", an environment variable, or the path of a file.
    origins: Mapping[str, str] = field(default_factory=dict, compare=False)
    # Sentences about unknown names, for the log.
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
            raise InvalidSetting("auth_secret and auth_public_key exclude each other. Set only one.")

    @property
    def auth_configured(self) -> bool:
        """True if requests need a credential."""
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
        """List references to the secrets of these settings, and to the files they came from."""
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
        """Collect the settings from all origins; an override of None does not count."""
        file, path = file_in(folder)
        given = _defaults() | _from_file(file, path) | _from_environ(environ) | _from_arguments(overrides)
        if given["renew"].origin == DEFAULT:  # a shorter lease then needs no other setting
            lease = BY_NAME["lease"].read(*given["lease"])
            given["renew"] = _Given(min(given["renew"].value, lease / 3), DEFAULT)
        return cls(
            **{name: value for name, (value, _) in given.items()},
            origins={name: origin for name, (_, origin) in given.items()},
            warnings=(*_of_chronos(environ), *_unknown_in_environ(environ), *_unknown_in_file(file, path)),
        )

    @classmethod
    def one(cls, name: str, environ: Mapping[str, str] = os.environ, folder: Path = Path()) -> Any:
        """Read one setting from environment and files, whether or not the others are right."""
        file, path = file_in(folder)
        return BY_NAME[name].read(*(_defaults() | _from_file(file, path) | _from_environ(environ))[name])

    def shown(self) -> Mapping[str, str]:
        """Return each setting as text, with passwords masked."""
        return {each.name: written(getattr(self, each.name)) for each in SETTINGS}

    def __repr__(self) -> str:
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in self.shown().items())})"

    def _origin(self, name: str) -> str:
        return self.origins.get(name, ARGUMENT)


SETTINGS = tuple(
    Setting(
        line.name,
        line.metadata["env"] or f"OSTINATO_{line.name.upper()}",
        line.default,
        line.metadata["kind"],
        line.metadata["help"],
    )
    for line in fields(Settings)
    if line.metadata
)
BY_NAME = {each.name: each for each in SETTINGS}
BY_ENV = {each.env: each for each in SETTINGS}
OF_CHRONOS = ("POLL_INTERVAL", "CONCURRENCY")


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
        raise InvalidSetting(f"{unknown[0]} is not a setting" + _did_you_mean(unknown[0], "name"))
    return {name: _Given(value, ARGUMENT) for name, value in overrides.items() if value is not None}


def _unknown_in_environ(environ: Mapping[str, str]) -> list[str]:
    ours = {name for name in environ if name.startswith(PREFIX)}
    return [
        f"The environment variable {name} is not a setting and was ignored" + _did_you_mean(name, "env")
        for name in sorted(ours - BY_ENV.keys() - HANDED_TO_COMMANDS - OF_THE_COMMAND_LINE - FOR_TESTS)
    ]


def _of_chronos(environ: Mapping[str, str]) -> Iterator[str]:
    """Name the variables of CHRONOS's workers (seed 004) with what to write here; its interval is in milliseconds."""
    for name in OF_CHRONOS:
        value = environ.get(name, "")
        if value.isdigit() and PREFIX + name not in environ:
            wanted = f"{int(value) / 1000:g}s" if name == "POLL_INTERVAL" else value
            yield f"The environment variable {name}={value} is not read: write {PREFIX}{name}={wanted}."


def _unknown_in_file(file: Mapping[str, object], path: str) -> list[str]:
    return [
        f"{name} in {path} is not a setting and was ignored" + _did_you_mean(name, "name")
        for name in sorted(file.keys() - BY_NAME.keys())
    ]


def _did_you_mean(unknown: str, spelling: Literal["name", "env"]) -> str:
    """End a sentence with the closest setting. Users mix up its two spellings, so both are compared."""
    from difflib import get_close_matches  # imported late: only mistakes need it

    known = BY_NAME | {env.removeprefix(PREFIX).lower(): each for env, each in BY_ENV.items()}
    close = get_close_matches(unknown.removeprefix(PREFIX).lower(), known, n=1)
    return f"; did you mean {getattr(known[close[0]], spelling)}?" if close else "."


def file_in(folder: Path) -> tuple[Mapping[str, object], str]:
    """Read the settings from the file of a folder, and return its path too."""
    own, project = folder.absolute() / "ostinato.toml", folder.absolute() / "pyproject.toml"
    if own.is_file():
        return _table(own), str(own)
    return (_table(project, "tool", "ostinato") if project.is_file() else {}), str(project)


def _table(path: Path, *keys: str) -> Mapping[str, object]:
    import tomllib  # imported late: most processes have no file

    try:
        table = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidSetting(f"{path} cannot be read: {error}. Correct or remove it.") from None
    for key in keys:
        table = table.get(key, {})
        if not isinstance(table, dict):
            raise InvalidSetting(f"{key} in {path} must be a table: [{'.'.join(keys)}].")
    return table

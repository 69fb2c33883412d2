"""Kinds of settings: reading and writing of their values."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final, Generic, TypeVar

from ostinato.config.secret import Secret
from ostinato.core.addresses import EVERYWHERE, PUBLIC_ONLY, Egress
from ostinato.core.auth import KERNEL, OURS, is_of_kernel
from ostinato.core.errors import Invalid
from ostinato.core.policy import Isolation
from ostinato.core.times import format_duration, parse_duration, zone

GRANT: Final = re.compile(r"env:(?:[A-Za-z_][A-Za-z0-9_]*\*?|\*)|file:/(?:[^\0-\x1f*]*[^\0-\x1f*/]|[^\0-\x1f*]*/\*|\*)")

ADDRESS: Final = re.compile(r"(?:(?P<host>\[[0-9a-fA-F:.]+\]|[^\s:/@\[\]]+):)?(?P<port>[0-9]{1,5})")

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)


class LogFormat(StrEnum):
    """The format of log lines."""

    TEXT = "text"
    JSON = "json"


class EngineKind(StrEnum):
    """The engine that runs due jobs."""

    LOCAL = "local"  # Ostinato's own workers
    RQ = "rq"


class LogLevel(StrEnum):
    """The lowest level that is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class DefaultRole(StrEnum):
    """The role of a token without `role`."""

    NONE = "none"
    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class SettingKind(Generic[T]):
    """The kind of a setting: its values in words, and its reader.

    `parse` takes text, a TOML value or the final value. It raises Invalid with its own explanation, or another
    ValueError if `allowed` is explanation enough.
    """

    allowed: str
    parse: Callable[[object], T]
    secret: bool = False  # errors do not show the value


def text(allowed: str, pattern: str) -> SettingKind[str]:
    def parse(value: object) -> str:
        if isinstance(value, str) and re.fullmatch(pattern, value):
            return value
        raise ValueError

    return SettingKind(allowed, parse)


def address(allowed: str) -> SettingKind[str]:
    def parse(value: object) -> str:
        given = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
        found = ADDRESS.fullmatch(given)
        if value == "" or (found is not None and int(found["port"]) <= 65535):
            return given
        raise ValueError

    return SettingKind(allowed, parse)


def duration(least: str, most: str = "1d") -> SettingKind[timedelta]:
    shortest, longest = parse_duration(least), parse_duration(most)
    allowed = f"a duration from {least} to {most}, in seconds or written like 5s"

    def parse(value: object) -> timedelta:
        if not isinstance(value, str | int | float | timedelta):
            raise ValueError
        found = parse_duration(value)
        if found > longest and re.fullmatch(r"[\d.]+", str(value)):  # usually meant as milliseconds
            raise Invalid(f"That would be {format_duration(found)}. Allowed is {allowed}.")
        if not shortest <= found <= longest:
            raise ValueError
        return found

    return SettingKind(allowed, parse)


def number(least: int, most: int) -> SettingKind[int]:
    def parse(value: object) -> int:
        if isinstance(value, str | int) and not isinstance(value, bool) and least <= int(value) <= most:
            return int(value)
        raise ValueError

    return SettingKind(f"a whole number from {least} to {most}", parse)


def switch() -> SettingKind[bool]:
    def parse(value: object) -> bool:
        word = str(value).strip().lower()
        if word in ("on", "true", "yes", "1"):
            return True
        if word in ("off", "false", "no", "0"):
            return False
        raise ValueError

    return SettingKind("on or off", parse)


def egress() -> SettingKind[Egress]:
    def parse(value: object) -> Egress:
        if isinstance(value, Egress):
            return value
        if isinstance(value, list | tuple) and all(isinstance(each, str) for each in value):
            return Egress.of(value)
        try:
            return EVERYWHERE if switch().parse(value) else PUBLIC_ONLY
        except ValueError:
            return Egress.of(str(value).split(","))

    return SettingKind("off, on, or networks separated by commas, such as 10.0.0.0/8", parse)


def one_of(choices: type[E]) -> SettingKind[E]:
    return SettingKind("one of " + ", ".join(choices), lambda value: choices(str(value).strip().lower()))


def def_isolation() -> SettingKind[Isolation]:
    def parse(value: object) -> Isolation:
        wanted = Isolation(str(value).strip().lower())
        if wanted is Isolation.ASYNC:
            raise ValueError
        return wanted

    return SettingKind("thread or process", parse)


def names() -> SettingKind[tuple[str, ...]]:
    def parse(value: object) -> tuple[str, ...]:
        given = value.split(",") if isinstance(value, str) else value
        if isinstance(given, list | tuple) and all(isinstance(name, str) for name in given):
            return tuple(dict.fromkeys(name.strip() for name in given if name.strip()))
        raise ValueError

    return SettingKind("names, separated by commas", parse)


def grants() -> SettingKind[tuple[str, ...]]:
    """Return the kind of a list of references to secrets; a final `*` stands for any rest of the name."""

    def parse(value: object) -> tuple[str, ...]:
        found = names().parse(value)
        if all(GRANT.fullmatch(each) and not each.startswith(OURS) for each in found) and not any(
            is_of_kernel(each.removeprefix("file:")) for each in found
        ):
            return found
        raise ValueError

    allowed = "references such as env:SECRET_* or file:/run/secrets/*, separated by commas"
    return SettingKind(f"{allowed}; not env:OSTINATO_*, and no file in {', '.join(KERNEL)}", parse)


def zone_name() -> SettingKind[str]:
    return SettingKind("the name of a time zone, such as Europe/Paris or UTC", lambda value: zone(str(value)).key)


def secret(allowed: str, is_right: Callable[[str], bool]) -> SettingKind[Secret]:
    """Return the kind of a text that is never shown; a reference is read when the value is used."""

    def parse(value: object) -> Secret:
        given = Secret(value) if isinstance(value, str) else value
        if not isinstance(given, Secret):
            raise ValueError
        if not given or given.is_reference or is_right(given.reveal()):
            return given
        raise ValueError

    return SettingKind(f"{allowed}, or a reference to it: env:NAME or file:PATH", parse, secret=True)


DATABASE_URL = text(
    "sqlite:///file.db, sqlite:////absolute/path/file.db or postgresql://user:password@host/database",
    r"(sqlite:///|postgres(ql)?://)[^\0-\x1f]+",
)
PROBE_ADDRESS = address("a port, or host:port, such as 8061 or 0.0.0.0:8061")
FOLDER = text("the path of a folder", r"[^\0-\x1f]{0,4000}")
SCHEMA = text(  # a name that needs no quotes in SQL; pg_… is reserved by PostgreSQL
    "a name of up to 63 characters a-z, 0-9 and _ that begins with neither a digit nor pg_",
    r"(?!pg_)[a-z_][a-z0-9_]{0,62}",
)

TOKEN_SECRET = secret("a text of at least 32 bytes", lambda value: len(value.encode()) >= 32)
PUBLIC_KEY = secret(
    "an RSA or Ed25519 public key in PEM",
    lambda value: value.lstrip().startswith("-----BEGIN PUBLIC KEY-----"),
)
WEB_ADDRESS = secret("an http or https URL", lambda value: re.fullmatch(r"https?://[^\s/@]+(/\S*)?", value) is not None)
TRACE_URL = text(
    "an http or https URL with {trace_id}, and {span_id} if you like; empty: no link",
    r"|https?://(?=[^\0-\x20]*\{trace_id\})(?:[^\0-\x20{}]|\{trace_id\}|\{span_id\})+",
)
REDIS_URL = secret(
    "redis://host:port/number, rediss://… or unix://…",
    lambda value: re.fullmatch(r"(rediss?|unix)://\S+", value) is not None,
)


def written(value: object) -> str:
    """Return the value of a setting as text for a file or variable; passwords are masked."""
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
    """Mask the passwords of URLs in a text; if unsure, mask too much."""
    hidden = re.sub(r"^((?:[\w+.-]+://)?+[^:]*:).*@", r"\1***@", value, flags=re.DOTALL)
    return re.sub(r"(password=)[^&\s]*", r"\1***", hidden, flags=re.IGNORECASE)

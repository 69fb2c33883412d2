"""`http`: call a URL."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from urllib.parse import urlsplit

from ostinato.core import arguments
from ostinato.core.addresses import LONGEST_URL
from ostinato.core.arguments import (
    AUTH,
    URL,
    FieldKind,
    Flaw,
    anything,
    arg,
    choice,
    many,
    mapping,
    span,
    switch,
    text,
    whole,
)
from ostinato.core.auth import Auth, header_flaw
from ostinato.core.builtin import BuiltIn, Permits, refuse_private
from ostinato.core.errors import WrongArgument

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
LARGEST_KEPT: Final = 200_000
STATUSES: Final = "200, 200-299 or 2xx"
OURS: Final = frozenset({"idempotency-key", "x-job-id", "x-execution-key", "x-attempt"})
METADATA: Final = ".".join(("job", "metadata"))
# Names of the run that a template may use. The names in `job.metadata` and in `args` are the user's.
DUE: Final = ("date", "time", "year", "month", "day", "hour", "minute", "unix")
OF_THE_RUN: Final = frozenset(
    {"due_at", "number", "attempt", "execution_number", "occurrence_key", "execution_key", "execution_id"}
    | {f"due.{part}" for part in DUE}
    | {f"job.{part}" for part in ("id", "name", "key", "task", "queue", "tags")}
)


@dataclass(frozen=True, slots=True)
class _Statuses:
    """Statuses of answers: from one to another, both included."""

    first: int
    last: int

    def __contains__(self, status: int) -> bool:
        return self.first <= status <= self.last


def _statuses(value: Any) -> _Statuses:
    written = str(value).strip().lower() if isinstance(value, int | str) and not isinstance(value, bool) else ""
    if len(written) == 3 and written.endswith("xx") and written[0] in "12345":
        return _Statuses(int(written[0]) * 100, int(written[0]) * 100 + 99)
    first, _, last = written.partition("-")
    if first.isdecimal() and (last or first).isdecimal() and 100 <= int(first) <= int(last or first) <= 599:
        return _Statuses(int(first), int(last or first))
    raise Flaw(f"must be a status or a range of them, such as {STATUSES}, not {value!r}.")


STATUS: Final = FieldKind(
    {"anyOf": [{"type": "integer"}, {"type": "string"}], "examples": [200, "2xx", "200-299"]}, _statuses
)
TEMPLATE_URL: Final = FieldKind({**URL.schema, "format": "uri-template"}, text(LONGEST_URL, empty=False).read)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpArgs:
    """The arguments of the task `http`."""

    url: str = arg(TEMPLATE_URL, "URL to call; values of templates are percent-encoded.")
    method: str = arg(choice(*METHODS), "Method of the request.", "GET")
    headers: Mapping[str, str] = arg(mapping(text(8000), 100), "Headers to send; templates are filled.", {})
    body: str | None = arg(text(1_000_000, lines=True), "Body to send, as text with templates.", None)
    json: Any = arg(anything(), "Body to send, as JSON whose texts are templates; instead of body.", None)
    values: Mapping[str, Any] = arg(mapping(anything()), "Values for templates: {{ args.values.name }}.", {})
    expect: tuple[_Statuses, ...] = arg(many(STATUS, 100, 1), "Statuses of a good answer.", ["2xx"])
    retry: tuple[_Statuses, ...] = arg(
        many(STATUS, 100),
        "Statuses to retry; any other ends the occurrence.",
        [408, 425, 429, "5xx"],
    )
    auth: Auth | None = arg(AUTH, "Credentials; secrets by reference: env:SECRET_NAME or file:/run/secrets/NAME.", None)
    timeout: timedelta = arg(span("100ms", "1h"), "Timeout of the whole call.", "30s")
    redirects: int = arg(whole(0, 10), "Maximum number of redirects; each address is checked.", 5)
    keep: int = arg(whole(0, LARGEST_KEPT), "Maximum number of bytes of the answer in the result.", 65_536)
    idempotency_key: bool = arg(switch(), "Send Idempotency-Key: the same for every attempt.", True)

    def __post_init__(self) -> None:
        if self.body is not None and self.json is not None:
            raise Flaw("and json exclude each other: use one.", "body")
        if self.method in ("GET", "HEAD") and (self.body is not None or self.json is not None):
            raise Flaw(f"must be POST, PUT, PATCH or DELETE to send a body, not {self.method}.", "method")
        for name, value in self.headers.items():
            _check_header(name, value)
        for field in ("url", "headers", "body", "json"):
            for name in arguments.placeholders(getattr(self, field)):
                self._check_placeholder(field, name)
        _check_url(self.sample_url())

    def sample_url(self) -> str:
        """Return the URL with a sample in the place of every placeholder, for checks."""
        return arguments.PLACEHOLDER.sub(lambda found: found[0][1:] if found[0][0] == "\\" else "1", self.url)

    def _check_placeholder(self, field: str, name: str) -> None:
        """Check the name of a placeholder, as far as it is known when the job is created."""
        if name in OF_THE_RUN or name == METADATA or name.startswith(f"{METADATA}."):
            return
        if name.startswith("args.values."):
            known: Mapping[str, Any] = {"args": {"values": self.values}}
        else:
            known = {}
        try:
            arguments.look_up(name, known)
        except Flaw as flaw:
            raise flaw.under(field) from None


def _check_header(name: str, value: str) -> None:
    if not name.isascii() or not all(each.isalnum() or each in "!#$%&'*+-.^_`|~" for each in name) or not name:
        raise Flaw("is not the name of a header.", f"headers.{name[:100]}")
    flaw = "is set by Ostinato: leave it out." if name.lower() in OURS else header_flaw(name)
    if flaw is not None:
        raise Flaw(flaw, f"headers.{name}")
    if any(ord(each) < 32 and each != "\t" for each in value) or not value.isascii():
        raise Flaw("must be one line of ASCII.", f"headers.{name}")


def _check_url(url: str) -> None:
    try:
        URL.read(url)
    except Flaw as flaw:
        raise flaw.under("url") from None


def _refuse(args: HttpArgs, permits: Permits) -> None:
    refuse_private(args.sample_url(), "args.url", permits)


def _refuse_open(args: HttpArgs, names: Sequence[str]) -> None:
    """Raise WrongArgument if one of these values decides which server is called."""
    one, other = (_destination(args.url, names, sample) for sample in ("1", "2"))
    if one != other:
        raise WrongArgument(
            "run_args",
            "run_args cannot name a value that stands in the scheme, host or port of args.url: "
            "an operator would choose the server.",
        )


def _destination(url: str, names: Sequence[str], sample: str) -> tuple[str, str]:
    """Return scheme, host and port of a URL in which this sample replaces each of these values."""

    def filled(name: re.Match[str]) -> str:
        value = f"{name[1].strip()}."
        return sample if any(value.startswith(f"args.{name}.") for name in names) else "1"

    parts = urlsplit(arguments.PLACEHOLDER.sub(filled, url))
    return parts.scheme, parts.netloc


BUILT_INS: Final = (
    BuiltIn(
        "http",
        "Call a URL and check the status of the answer.",
        HttpArgs,
        refuse=_refuse,
        openable=("values",),
        refuse_open=_refuse_open,
        subject=("url",),
    ),
)

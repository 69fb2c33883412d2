"""Job templates: the body of a job with placeholders, and the parameters that fill them.

    {"name": "ping", "parameters": [{"name": "url", "type": "url"}],
     "job": {"task": "http", "args": {"url": "{{ params.url }}"}, "schedule": {"every": "5m"}}}

A parameter has a type, and its value is checked before it is filled in. A value is filled in whole, so it cannot change
the shape of the job. Other placeholders (`{{ due_at }}`) are left for the run.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ostinato.core import arguments
from ostinato.core.arguments import (
    SECRET,
    URL,
    FieldKind,
    Flaw,
    anything,
    arg,
    choice,
    many,
    mapping,
    number,
    of,
    read,
    shown,
    span,
    switch,
    text,
    whole,
)
from ostinato.core.errors import WrongArgument

PARAMS: Final = "params"
NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
PARAMETER: Final = re.compile(r"[a-z][a-z0-9_]{0,49}")
LARGEST: Final = 2**53

KINDS: Final[Mapping[str, FieldKind[Any]]] = {
    "text": text(),
    "lines": text(100_000, lines=True),
    "integer": whole(-LARGEST, LARGEST),
    "number": number(-LARGEST, LARGEST),
    "boolean": switch(),
    "duration": span("1ms", "3660d"),
    "url": URL,
    "secret": SECRET,
    "list": many(text(100_000), 1000),
    "object": mapping(anything()),
    "json": anything(),
}


def _named(pattern: re.Pattern[str], like: str) -> FieldKind[str]:
    def read(value: Any) -> str:
        if isinstance(value, str) and pattern.fullmatch(value):
            return value
        raise Flaw(f"must be a name like {like}, not {shown(value)}.")

    return FieldKind({"type": "string", "pattern": f"^{pattern.pattern}$"}, read)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter of a template. Without a default it is required."""

    name: str = arg(_named(PARAMETER, "start_url"), "Name of the parameter; the job uses it as {{ params.NAME }}.")
    type: str = arg(choice(*KINDS), "Type of the value.", "text")
    description: str = arg(text(500), "Purpose of the parameter.", "")
    default: Any = arg(anything(), "Default value; without one the parameter is required.", None)
    choices: tuple[str, ...] = arg(many(text(1000), 100), "Allowed texts.", [])

    def __post_init__(self) -> None:
        if self.choices and self.type != "text":
            raise Flaw("are for parameters of the type text.", "choices")
        if self.default is not None:
            try:
                self.kind.read(self.default)
            except Flaw as flaw:
                raise flaw.under("default") from None

    @property
    def kind(self) -> FieldKind[Any]:
        return choice(*self.choices) if self.choices else KINDS[self.type]

    @property
    def schema(self) -> dict[str, Any]:
        default = {} if self.default is None else {"default": self.default}
        return {**self.kind.schema, "description": self.description, **default}


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A body of a job with parameters, from which similar jobs are created."""

    name: str = arg(_named(NAME, "nightly-backup"), "Name of the template.")
    description: str = arg(text(2000), "Purpose of its jobs.", "")
    parameters: tuple[Parameter, ...] = arg(many(of(Parameter), 50), "Parameters that each new job fills in.", [])
    job: Mapping[str, Any] = arg(mapping(anything(), 100), "Body of the job, with placeholders: {{ params.NAME }}.")

    def __post_init__(self) -> None:
        names = [each.name for each in self.parameters]
        for name in names:
            if names.count(name) > 1:
                raise Flaw(f"has two parameters {name!r}; give one another name.", "parameters")
        for name in arguments.placeholders(self.job):
            if name.startswith(f"{PARAMS}.") and name.split(".")[1] not in names:
                raise Flaw(f"has {{{{ {name} }}}}, and there is no such parameter; add it to parameters.", "job")

    @property
    def schema(self) -> dict[str, Any]:
        """Describe the parameters as JSON schema, like those of a task."""
        return {
            "type": "object",
            "properties": {each.name: each.schema for each in self.parameters},
            "required": [each.name for each in self.parameters if each.default is None],
            "additionalProperties": False,
        }

    def body(self, given: Mapping[str, Any], over: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the body of a job: the template with its parameters filled in, then the fields of `over`."""
        params = self._params(given)
        try:
            filled = arguments.fill(dict(self.job), {PARAMS: params}, f"{PARAMS}.")
        except Flaw as flaw:
            raise WrongArgument("job", f"The job of the template {self.name} {flaw.rest}") from None
        return {**filled, **(over or {})}

    @property
    def usual(self) -> Mapping[str, Any]:
        """Return the body with all defaults filled in; a parameter without one stays a placeholder."""
        params = {
            each.name: f"{{{{ {PARAMS}.{each.name} }}}}" if each.default is None else each.default
            for each in self.parameters
        }
        try:
            filled: Mapping[str, Any] = arguments.fill(dict(self.job), {PARAMS: params}, f"{PARAMS}.")
        except Flaw:  # a name inside a parameter that is not known yet
            return self.job
        return filled

    def _params(self, given: Mapping[str, Any]) -> dict[str, Any]:
        known = {each.name: each for each in self.parameters}
        for name in given.keys() - known.keys():
            there = ", ".join(known) or "none"
            raise WrongArgument(f"{PARAMS}.{name}", f"{PARAMS}.{name} does not exist; there are {there}.")
        return {name: self._param(each, given.get(name)) for name, each in known.items()}

    def _param(self, parameter: Parameter, value: Any) -> Any:
        """Check a value and return it as given: the body is JSON, and is read like that of any job."""
        where = f"{PARAMS}.{parameter.name}"
        chosen = parameter.default if value is None else value
        if chosen is None:
            raise WrongArgument(where, f"{where} is required: {parameter.description or parameter.type}")
        try:
            parameter.kind.read(chosen)
        except Flaw as flaw:
            path = flaw.under(where).path
            raise WrongArgument(path, f"{path} {flaw.rest}") from None
        return chosen


def read_template(given: Any) -> Template:
    """Read a template; WrongArgument names the wrong field."""
    return read(Template, given, "template")


def parameters_json(template: Template) -> list[dict[str, Any]]:
    """Write the parameters as JSON, without fields that have their default."""
    return [
        {
            name: list(value) if isinstance(value, tuple) else value
            for name in Parameter.__slots__
            if (value := getattr(each, name)) not in (None, "", ())
        }
        for each in template.parameters
    ]


def _ours(name: str, description: str, job: dict[str, Any], *parameters: dict[str, Any]) -> Template:
    return read_template({"name": name, "description": description, "parameters": list(parameters), "job": job})


def shipped() -> dict[str, Template]:
    """Return the templates that Ostinato ships."""
    found = (_crawl(), _ping(), _backup())
    return {each.name: each for each in found}


def _crawl() -> Template:
    return _ours(
        "crawl-a-site",
        "Crawl a site on a schedule and make its pages searchable.",
        {
            "task": "crawl",
            "name": "Crawl {{ params.url }}",
            "args": {"url": "{{ params.url }}", "max_pages": "{{ params.max_pages }}"},
            "schedule": {"every": "{{ params.every }}"},
        },
        {"name": "url", "type": "url", "description": "Start URL; its host is the scope."},
        {"name": "every", "type": "duration", "default": "1d", "description": "How often."},
        {"name": "max_pages", "type": "integer", "default": 1000, "description": "Maximum number of pages."},
    )


def _ping() -> Template:
    return _ours(
        "ping-a-url",
        "Call a URL every few minutes; a run fails when the answer is not as expected.",
        {
            "task": "http",
            "name": "Ping {{ params.url }}",
            "args": {
                "url": "{{ params.url }}",
                "expect": "{{ params.expect }}",
                "timeout": "{{ params.timeout }}",
                "keep": 0,
            },
            "schedule": {"every": "{{ params.every }}"},
            "max_retries": 0,
        },
        {"name": "url", "type": "url", "description": "URL to call."},
        {"name": "every", "type": "duration", "default": "5m", "description": "How often."},
        {"name": "expect", "type": "list", "default": ["2xx"], "description": "Statuses of a good answer."},
        {"name": "timeout", "type": "duration", "default": "10s", "description": "Timeout of the call."},
    )


def _backup() -> Template:
    return _ours(
        "nightly-backup",
        "Run a backup program once a night. The task command must be allowed.",
        {
            "task": "command",
            "name": "Nightly backup",
            "args": {"argv": "{{ params.argv }}", "secrets": "{{ params.secrets }}"},
            "schedule": {"cron": "{{ params.cron }}", "timezone": "{{ params.timezone }}"},
            "timeout": "{{ params.timeout }}",
            "max_retries": 2,
            "backoff": "10m",
            "overlap": "skip",
        },
        {
            "name": "argv",
            "type": "list",
            "description": 'The program: ["pg_dump", "--file", "/backup/shop"].',
        },
        {
            "name": "secrets",
            "type": "object",
            "default": {},
            "description": "Environment variables from secrets.",
        },
        {
            "name": "cron",
            "type": "text",
            "default": "30 2 * * *",
            "description": "Schedule, as a cron expression.",
        },
        {"name": "timezone", "type": "text", "default": "UTC", "description": "Time zone of the schedule."},
        {"name": "timeout", "type": "duration", "default": "2h", "description": "Timeout of the run."},
    )

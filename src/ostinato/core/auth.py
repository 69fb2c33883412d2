"""Credentials of outgoing requests. Secrets are stored by reference: their place, not their text."""

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

from ostinato.core.addresses import check_url
from ostinato.core.errors import Invalid, WrongArgument

REFERENCE: Final = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*|file:[^\0-\x1f]+")
OURS: Final = "env:OSTINATO_"  # settings of Ostinato, such as the database's password: never sent elsewhere
KERNEL: Final = ("/proc", "/sys", "/dev")  # files of processes (their variables too) and of devices
OPEN: Final = re.compile(r"\{\{[^{}]*\}\}")  # a value that a template leaves open
SECRET_FIELDS: Final = frozenset({"token", "password", "value", "clientSecret", "client_secret"})
SECRET_HEADERS: Final = frozenset({"authorization", "proxy-authorization", "cookie", "x-api-key"})
# Headers that say where a request ends, or what happens to its connection. A second, different value would let one
# request pass as two.
FRAMING_HEADERS: Final = frozenset(
    {
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "te",
        "trailer",
        "upgrade",
        "expect",
        "keep-alive",
    }
)
TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")  # a header's name, as HTTP has it


@dataclass(frozen=True, slots=True)
class Bearer:
    """`Authorization: Bearer …`"""

    token: str


@dataclass(frozen=True, slots=True)
class Basic:
    """`Authorization: Basic …`"""

    username: str
    password: str


@dataclass(frozen=True, slots=True)
class InHeader:
    """A header of its own, such as `X-Api-Key`."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class InQuery:
    """A parameter of the URL."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """OAuth 2: Ostinato requests a token with an id and a secret, and sends it as a bearer token."""

    token_url: str
    client_id: str
    client_secret: str
    scope: str = ""


Auth = Bearer | Basic | InHeader | InQuery | ClientCredentials
RequestKey = Bearer | InHeader | InQuery  # a credential that a request carries as it is

FIELDS: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {  # by type: required, and optional
    "bearer": (("token",), ()),
    "basic": (("username", "password"), ()),
    "header": (("name", "value"), ()),
    "query": (("name", "value"), ()),
    "oauth2_client_credentials": (("tokenUrl", "clientId", "clientSecret"), ("scope",)),
}
SPELLINGS: Final = {"token_url": "tokenUrl", "client_id": "clientId", "client_secret": "clientSecret"}


def parse_auth(given: object, what: str = "auth") -> Auth:
    """Read the `auth` of a definition; Invalid names the wrong field."""
    if not isinstance(given, Mapping):
        raise Invalid(f"{what} must be an object with a type: {', '.join(FIELDS)}.")
    said = {SPELLINGS.get(str(name), str(name)): value for name, value in given.items()}
    kind = said.pop("type", None)
    if kind is None and (close := get_close_matches("type", said, n=1)):
        raise Invalid(f"{what}.{close[0]} is not known; did you mean type? It is one of {', '.join(FIELDS)}.")
    if not isinstance(kind, str) or kind not in FIELDS:
        raise Invalid(f"{what}.type must be one of {', '.join(FIELDS)}, not {kind!r}.")
    needed, possible = FIELDS[kind]
    for name in said:
        if name not in needed + possible:
            close = get_close_matches(name, needed + possible, n=1)
            hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(needed + possible)}."
            raise Invalid(f"{what}.{name} is not known for {kind}; {hint}")
    for name in needed + possible:
        value = said.get(name, "" if name in possible else None)
        if not isinstance(value, str) or (name in needed and not value):
            raise Invalid(f"{what}.{name} is missing, or is not text; {kind} needs {', '.join(needed)}.")
        said[name] = value
    return _made(kind, said, what)


def check_reference(text: object, what: str) -> str:
    """Check the reference of a secret. A literal secret is refused, and not repeated."""
    if not isinstance(text, str) or not REFERENCE.fullmatch(text):
        raise Invalid(
            f"{what} must say where the secret is, env:SECRET_NAME or file:/run/secrets/NAME, and not what it is."
        )
    if text.startswith(OURS):
        raise Invalid(f"{what} must not name one of Ostinato's own settings ({text}): these are never sent elsewhere.")
    if is_of_kernel(text.removeprefix("file:")):
        raise Invalid(f"{what} must not name a file in {', '.join(KERNEL)} ({text}): these hold no secrets of yours.")
    return text


def is_of_kernel(path: str) -> bool:
    """Return whether a path, as it is written, leads into a file system of the kernel."""
    plain = f"/{posixpath.normpath(path).lstrip('/')}" if path.startswith("/") else ""
    return any(f"{plain}/".startswith(f"{folder}/") for folder in KERNEL)


def references(args: Any, holders: Iterable[str] = ()) -> Iterator[str]:
    """List the references to secrets in the args of a built-in task; `holders` are args that may hold such args."""
    if not isinstance(args, Mapping):
        return
    for name in holders:
        yield from references(args.get(name))
    auth, named = args.get("auth"), args.get("secrets")
    found = [auth.get(name) for name in SECRET_FIELDS] if isinstance(auth, Mapping) else []
    found += named.values() if isinstance(named, Mapping) else ()
    found.append(args.get("database"))
    yield from (each for each in found if isinstance(each, str) and REFERENCE.fullmatch(each))


def check_no_credentials(args: Any, where: str = "args", holders: Iterable[str] = ()) -> None:
    """Raise WrongArgument if args of a built-in task hold a credential, before all of their values are known.

    Steps of workflows and templates of jobs leave values open (`$ref`, `{{ params.x }}`); these are checked later.
    """
    if not isinstance(args, Mapping):
        return
    for name in holders:
        check_no_credentials(args.get(name), f"{where}.{name}")
    for name in _mapping(args.get("headers")):
        if (flaw := header_flaw(str(name))) is not None:
            raise WrongArgument(f"{where}.headers.{name}", f"{where}.headers.{name} {flaw}")
    auth, named = _mapping(args.get("auth")), _mapping(args.get("secrets"))
    written = {f"{where}.auth.{name}": auth[name] for name in SECRET_FIELDS & auth.keys()}
    written |= {f"{where}.secrets.{name}": value for name, value in named.items()}
    for place, value in written.items():
        if isinstance(value, str) and not OPEN.fullmatch(value):
            try:
                check_reference(value, place)
            except Invalid as error:
                raise WrongArgument(place, str(error)) from None


def _mapping(given: Any) -> Mapping[str, Any]:
    return given if isinstance(given, Mapping) else {}


def secrets_of(auth: Auth) -> tuple[str, ...]:
    """List the references to secrets in a value of `auth`."""
    match auth:
        case Bearer(token):
            return (token,)
        case Basic(_, password):
            return (password,)
        case InHeader(_, value) | InQuery(_, value):
            return (value,)
        case ClientCredentials(client_secret=secret):
            return (secret,)


def header_flaw(name: str) -> str | None:
    """Return why a definition may not set a header, as the rest of a sentence that begins with its name."""
    plain = name.lower()
    if plain in SECRET_HEADERS:
        return "would be stored and shown: write it as auth, with env:SECRET_NAME or file:/run/secrets/NAME."
    if plain in FRAMING_HEADERS or plain.startswith("proxy-"):
        return "is set by Ostinato: leave it out."
    return None


def check_header_name(name: str, what: str) -> str:
    if not TOKEN.fullmatch(name):
        raise Invalid(f"{what} must be the name of a header: letters, digits and dashes.")
    return name


def _made(kind: str, said: Mapping[str, str], what: str) -> Auth:
    match kind:
        case "bearer":
            return Bearer(check_reference(said["token"], f"{what}.token"))
        case "basic":
            return Basic(said["username"], check_reference(said["password"], f"{what}.password"))
        case "header":
            name = check_header_name(said["name"], f"{what}.name")
            if name.lower() in FRAMING_HEADERS:
                raise Invalid(f"{what}.name cannot be {name}: Ostinato sets this header.")
            return InHeader(name, check_reference(said["value"], f"{what}.value"))
        case "query":
            return InQuery(said["name"], check_reference(said["value"], f"{what}.value"))
        case _:
            return ClientCredentials(
                check_url(said["tokenUrl"], f"{what}.tokenUrl"),
                said["clientId"],
                check_reference(said["clientSecret"], f"{what}.clientSecret"),
                said["scope"],
            )

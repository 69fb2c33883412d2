"""Secrets: values that answers, log lines, errors and reprs never show.

A secret is given as text or by reference: `env:NAME` is the value of an environment variable, `file:PATH` the
content of a file (without the line break at its end). A reference is not secret: it may be shown and stored.
"""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ostinato.core.auth import OURS, REFERENCE, is_of_kernel
from ostinato.core.builtin import USUAL_SECRETS, Permits
from ostinato.core.errors import Invalid

LARGEST_SECRET_FILE: Final = 65_536  # bytes of a file that holds a secret
HIDDEN: Final = "***"


class Secret:
    """A secret of the settings, as text or reference. Secrets that jobs and hooks name go through `Grants`."""

    __slots__ = ("_given",)

    def __init__(self, given: str = "") -> None:
        self._given = given

    @property
    def is_reference(self) -> bool:
        return REFERENCE.fullmatch(self._given) is not None

    def reveal(self, environ: Mapping[str, str] = os.environ) -> str:
        """Return the secret itself; raise Invalid if its reference finds nothing."""
        if not self.is_reference:
            return self._given
        kind, _, where = self._given.partition(":")
        found = environ.get(where, "") if kind == "env" else _content(Path(where))
        if not found:
            raise Invalid(f"There is no secret at {self._given}: it is not set or empty. Set it.")
        return found

    def __bool__(self) -> bool:
        return bool(self._given)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._given == other._given

    def __hash__(self) -> int:
        return hash(self._given)

    def __str__(self) -> str:
        return self._given if self.is_reference else HIDDEN if self._given else ""

    def __repr__(self) -> str:
        return f"Secret({str(self)!r})"


@dataclass(frozen=True, slots=True)
class Grants:
    """The secrets of a host that jobs, hooks, sources and providers may name: the setting `secrets`.

    A name is a reference; a final `*` stands for the rest of a variable's name, or for each file directly in a
    folder. Subfolders are not granted: `/run/secrets` also contains the token of a Kubernetes service account.
    """

    names: tuple[str, ...] = USUAL_SECRETS
    ours: tuple[str, ...] = ()  # references to the secrets of the settings, which are never granted

    @classmethod
    def of(cls, permits: Permits) -> "Grants":
        return cls(permits.secrets, permits.ours)

    def is_ours(self, reference: str) -> bool:
        """Return whether a reference means a secret of the settings, by any path."""
        return reference.startswith(OURS) or any(_is_same(reference, each) for each in self.ours)

    def allows(self, reference: str) -> bool:
        """Return whether a reference is granted. The real path of a file counts: links and `..` are resolved."""
        if self.is_ours(reference):
            return False
        kind, _, where = reference.partition(":")
        if kind == "env":
            return any(_matches(reference, name) for name in self.names)
        real = os.path.realpath(where)
        return not is_of_kernel(real) and any(_holds(name, where) for name in self.names)

    def reveal(self, reference: str, environ: Mapping[str, str] = os.environ) -> str:
        """Read a secret; if this host does not grant it, raise Invalid and say what to add to the setting."""
        if not self.allows(reference):
            raise Invalid(self.refusal(reference))
        kind, _, where = reference.partition(":")
        real = reference if kind == "env" else f"file:{os.path.realpath(where)}"
        return Secret(real).reveal(environ)

    def refusal(self, reference: str) -> str:
        """Say that a reference is not granted, and what to do."""
        if self.is_ours(reference):
            return f"The secret {reference} is one of Ostinato's settings and is never granted. Name another secret."
        link = ""
        if reference.startswith("file:") and os.path.realpath(path := reference[5:]) != os.path.abspath(path):
            link = " Its path has a link or leads out of its folder; the folder of the file itself counts."
        return (
            f"The secret {reference} is not granted on this host.{link} "
            f"Add {reference} to OSTINATO_SECRETS (secrets in ostinato.toml), where its worker runs."
        )


def _is_same(one: str, other: str) -> bool:
    """Return whether two references are equal, or name one file."""
    if one == other or not (one.startswith("file:") and other.startswith("file:")):
        return one == other
    try:
        return os.path.samefile(one[5:], other[5:])
    except OSError:
        return False


def _matches(reference: str, name: str) -> bool:
    return reference.startswith(name[:-1]) if name.endswith("*") else reference == name


def _holds(name: str, where: str) -> bool:
    """Return whether a granted file is this one, or lies directly in a granted folder.

    A link may lead to a subfolder: Kubernetes stores its files in `..data`.
    """
    kind, _, path = name.partition(":")
    if kind != "file":
        return False
    real = os.path.realpath(where)
    if not path.endswith("/*"):
        return os.path.realpath(path) == real
    folder = os.path.realpath(path[:-1])
    if os.path.dirname(real) == folder:
        return real != folder
    is_inside = real.startswith(folder.rstrip("/") + "/")
    return is_inside and os.path.realpath(os.path.dirname(where) or ".") == folder


def _content(path: Path) -> str:
    try:
        # NONBLOCK: opening a pipe would wait for its writer
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise Invalid(f"The secret at file:{path} cannot be read: it is not a plain file.")
            found = file.read(LARGEST_SECRET_FILE + 1)
    except OSError as error:
        raise Invalid(f"The secret at file:{path} cannot be read: {error.strerror}.") from None
    if len(found) > LARGEST_SECRET_FILE:
        raise Invalid(f"The secret at file:{path} is too long: at most {LARGEST_SECRET_FILE} bytes.")
    try:
        return found.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError:
        raise Invalid(f"The secret at file:{path} is not text in UTF-8.") from None

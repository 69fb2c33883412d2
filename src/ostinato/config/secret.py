"""Secrets: values that no answer, log line, error or repr shows.

A secret is given as it is, or by reference: `env:NAME` is the value of an environment variable, `file:PATH` the
content of a file (without the line break at its end). A reference says where a secret is, not what it is: it may be
shown, and kept in a database.
"""

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ostinato.core.auth import REFERENCE
from ostinato.core.errors import Invalid

LONGEST: Final = 65_536  # bytes of a file that holds a secret
HIDDEN: Final = "***"


class Secret:
    """A secret, or where to find it."""

    __slots__ = ("_given",)

    def __init__(self, given: str = "") -> None:
        self._given = given

    @property
    def is_reference(self) -> bool:
        return REFERENCE.fullmatch(self._given) is not None

    def reveal(self, environ: Mapping[str, str] = os.environ) -> str:
        """The secret itself; Invalid when its reference leads nowhere."""
        if not self.is_reference:
            return self._given
        kind, _, where = self._given.partition(":")
        found = environ.get(where, "") if kind == "env" else _content(Path(where))
        if not found:
            raise Invalid(f"There is no secret at {self._given}: it is not set, or empty.")
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


def _content(path: Path) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe would keep us waiting
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise Invalid(f"The secret at file:{path} cannot be read: it is not a plain file.")
            found = file.read(LONGEST + 1)
    except OSError as error:
        raise Invalid(f"The secret at file:{path} cannot be read: {error.strerror}.") from None
    if len(found) > LONGEST:
        raise Invalid(f"The secret at file:{path} is too long: at most {LONGEST} bytes.")
    try:
        return found.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError:
        raise Invalid(f"The secret at file:{path} is not text in UTF-8.") from None

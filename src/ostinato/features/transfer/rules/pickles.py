"""Pickles of other programs, read without running any of their code.

A pickle is a program: it names functions and calls them. Here a name is looked up in a list of values and of classes
that only keep what they are given; no module is imported and nothing of the store is called. A name that is not on the
list ends the reading with `Invalid`, before anything was done with it. The list is the caller's, so that each reader
knows the classes of its own system.
"""

import io
import pickle
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta, timezone
from typing import Any, Final
from zoneinfo import ZoneInfo

from ostinato.core.errors import Invalid
from ostinato.core.times import zone

LARGEST: Final = 1_000_000  # bytes of one pickle

Name = tuple[str, str]


class Kept:
    """An object of a class that is on the list: the name of the class, its arguments and its state."""

    kind: str = ""

    def __new__(cls, *args: Any, **kwargs: Any) -> "Kept":
        made = super().__new__(cls)
        made.args = args
        made.state = {}
        return made

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Take any arguments: `__new__` has kept them."""

    args: tuple[Any, ...]
    state: Any

    def __setstate__(self, state: Any) -> None:
        self.state = state


def _zone(*args: Any) -> ZoneInfo:
    """Return a zone by its name, whichever library it is of there."""
    if not args or not isinstance(args[0], str):
        raise Invalid("A time zone has no name.")
    return zone(args[0])


def _utc(*_: Any) -> ZoneInfo:
    return zone("UTC")


def _encoded(written: Any, codec: Any) -> bytes:
    """Stand in for `codecs.encode`: pickles before protocol 3 write bytes as text."""
    if not isinstance(written, str) or codec != "latin1":
        raise Invalid("It encodes something else than bytes.")
    return written.encode("latin1")


class _ZoneClass:
    """The class ZoneInfo, of which a pickle takes the function `_unpickle`."""


def _member(of: Any, name: Any) -> Callable[..., Any]:
    """Stand in for `getattr`: pickles of ZoneInfo ask for this one function."""
    if of is not _ZoneClass or name != "_unpickle":
        raise Invalid(f"It asks for the member {str(name)[:60]!r}, which is not read.")
    return _zone


# Values of the standard library and of zones; constructors without effects.
VALUES: Final[Mapping[Name, Any]] = {
    ("datetime", "datetime"): datetime,
    ("datetime", "date"): date,
    ("datetime", "time"): time,
    ("datetime", "timedelta"): timedelta,
    ("datetime", "timezone"): timezone,
    ("_codecs", "encode"): _encoded,
    ("builtins", "getattr"): _member,
    ("__builtin__", "getattr"): _member,
    ("zoneinfo", "ZoneInfo"): _ZoneClass,
    ("zoneinfo", "ZoneInfo._unpickle"): _zone,
    ("backports.zoneinfo", "ZoneInfo"): _ZoneClass,
    ("pytz", "_p"): _zone,
    ("pytz", "_UTC"): _utc,
    ("pytz", "utc"): _utc,
    ("pytz_deprecation_shim._impl", "wrap_zone"): _zone,
}


def read_pickle(data: bytes, classes: frozenset[Name]) -> Any:
    """Read a pickle that names only these classes, and plain values; Invalid for every other."""
    if len(data) > LARGEST:
        raise Invalid(f"The pickle has {len(data):,} bytes; at most {LARGEST:,} are read.")
    try:
        return _Reader(data, classes).load()
    except Invalid:
        raise
    except Exception as error:  # noqa: BLE001  a damaged pickle is wrong in any way
        raise Invalid(f"The pickle cannot be read: {type(error).__name__}.") from None


def _refuse(reader: pickle.Unpickler) -> None:
    raise Invalid("It has an instruction that is not read.")


class _Reader(pickle._Unpickler):
    """A reader whose names come from the list alone. Its classes are made anew for each pickle.

    It is the reader in Python: the one in C takes as much memory as an instruction names (LONG_BINPUT, BYTEARRAY8).
    """

    dispatch = {  # noqa: RUF012  as in the class above
        **pickle._Unpickler.dispatch,
        **{code[0]: _refuse for code in (pickle.BYTEARRAY8, pickle.EXT1, pickle.EXT2, pickle.EXT4, pickle.NEXT_BUFFER)},
    }

    def __init__(self, data: bytes, classes: frozenset[Name]) -> None:
        super().__init__(io.BytesIO(data))
        self._classes = classes
        self._made_classes: dict[Name, type[Kept]] = {}

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in VALUES:
            return VALUES[module, name]
        if (module, name) not in self._classes:
            raise Invalid(f"It names {module[:60]}.{name[:60]}, which is not read.")
        if (module, name) not in self._made_classes:
            self._made_classes[module, name] = type(name, (Kept,), {"kind": name})
        return self._made_classes[module, name]

    def persistent_load(self, pid: Any) -> Any:
        raise Invalid("It refers to something outside itself.")


def zone_name(value: object) -> str:
    """Return the name of a zone that was read; UTC for none."""
    match value:
        case None:
            return "UTC"
        case ZoneInfo(key=str(key)):
            return key
        case timezone() if not value.utcoffset(None):
            return "UTC"
    raise Invalid(f"{str(value)[:60]} is an offset and no time zone: a schedule needs a zone.")

"""Calls to the operating system. A missing call (macOS) is replaced by the nearest one, or does nothing."""

import ctypes
import errno
import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PR_SET_PDEATHSIG: Final = 1
PR_SET_CHILD_SUBREAPER: Final = 36
PROC: Final = Path("/proc")
HAS_PROC: Final = (PROC / "self/stat").exists()
MEMORY_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
TICKS: Final = os.sysconf("SC_CLK_TCK")
MB: Final = 1024 * 1024


def adopt_orphans() -> None:
    """Make this process the parent of each descendant that loses its own parent."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def die_with(parent: int) -> None:
    """Let the system kill this process when its parent ends for any reason."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent has ended already
        os._exit(1)


def tell_when_parent_ends(number: int) -> None:
    """Request this signal for the end of the thread that started this process."""
    _prctl(PR_SET_PDEATHSIG, number)


def descendants(pid: int) -> list[int]:
    """Return the living descendants of a process, the nearest first."""
    found, look_at = list[int](), [pid]
    while look_at:
        children = [child for each in look_at for child in children_of(each) if not _has_ended(child)]
        found += children
        look_at = children
    return found


def children_of(pid: int) -> list[int]:
    """Return the children of a process, with zombies."""
    children = list[int]()
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError):
                children += map(int, _read(f"/proc/{pid}/task/{thread}/children").split())
    return children


def kill(pid: int) -> None:
    """Kill a process, and its group if it leads one."""
    with suppress(OSError):
        os.killpg(pid, signal.SIGKILL)
    with suppress(OSError):
        os.kill(pid, signal.SIGKILL)


def group_lives(group: int) -> bool:
    """Return True if a process of that group still runs."""
    try:
        os.killpg(group, 0)
    except OSError as error:
        return error.errno == errno.EPERM
    return not HAS_PROC or any(_group_of(int(each)) == group for each in os.listdir(PROC) if each.isdigit())


@dataclass(frozen=True, slots=True)
class _Usage:
    """Usage of a process: CPU seconds, with the children it has waited for, and bytes of memory."""

    cpu: float
    memory: int


def usage_of(pid: int) -> _Usage | None:
    """Return the usage of a process now; None if it has ended or is unknown."""
    try:
        fields = _stat(pid)
    except OSError:
        return None
    user, system, of_children, system_of_children = map(int, fields[11:15])
    ticks = user + system + of_children + system_of_children
    return _Usage(ticks / TICKS, int(fields[21]) * MEMORY_PAGE)


def memory_now() -> int:
    """Return the bytes of memory of this process; 0 without /proc."""
    with suppress(OSError):
        return int(_read("/proc/self/statm").split()[1]) * MEMORY_PAGE
    return 0


def reserved_now() -> int:
    """Return the bytes that RLIMIT_DATA counts for this process, used or not; 0 without /proc."""
    with suppress(OSError):
        return int(_read("/proc/self/statm").split()[5]) * MEMORY_PAGE
    return 0


def forget_peak() -> None:
    """Reset the memory peak of this process to its present usage."""
    with suppress(OSError), open("/proc/self/clear_refs", "wb", buffering=0) as refs:
        refs.write(b"5")


def _has_ended(pid: int) -> bool:
    try:
        return _stat(pid)[0] in "ZX"
    except OSError:
        return True


def _group_of(pid: int) -> int | None:
    try:
        fields = _stat(pid)
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[2])


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/pid/stat from the state on: the name before them may contain any character."""
    return _read(f"/proc/{pid}/stat").rpartition(")")[2].split()


def _read(path: str) -> str:
    with open(path, "rb", buffering=0) as file:
        return file.read(65536).decode("utf-8", "replace")


def _prctl(option: int, value: int) -> None:
    with suppress(AttributeError, OSError):  # not Linux: only process groups remain
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)

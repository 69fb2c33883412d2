"""Limits of a run, set by the process that runs it, and the error of a run that exceeds one.

Only soft limits are set: a hard one could not be raised again for the next run. A run that does not stop at a
soft limit (or hides its error) is stopped by the supervisor, which measures the run's processes.
"""

import errno
import os
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from math import ceil
from types import FrameType
from typing import Any

from ostinato.core.outcome import Error, Failed
from ostinato.core.policy import Policies
from ostinato.core.times import format_duration
from ostinato.isolation import system
from ostinato.task.signals import described


class CpuLimitReached(BaseException):
    """Raised inside a task that has used its CPU seconds."""


def names(policies: Policies) -> dict[str, str]:
    """Return the limits that are set: the kind of error and its message."""
    cpu, memory = policies.cpu_limit, policies.memory_limit_mb
    named = {
        "CpuLimit": None if cpu is None else format_duration(cpu),
        "MemoryLimit": None if memory is None else f"{memory} MB",
        "OpenFilesLimit": None if policies.open_files_limit is None else f"{policies.open_files_limit} files",
        "OutputLimit": None if policies.output_limit_mb is None else f"{policies.output_limit_mb} MB",
    }
    return {kind: text for kind, text in named.items() if text is not None}


def watched(policies: Policies) -> dict[str, float]:
    """Return the limits that the supervisor measures: CPU seconds, bytes of memory and of output."""
    wanted = {
        "cpu": None if policies.cpu_limit is None else policies.cpu_limit.total_seconds(),
        "memory": None if policies.memory_limit_mb is None else policies.memory_limit_mb * system.MB,
        "output": None if policies.output_limit_mb is None else policies.output_limit_mb * system.MB,
    }
    return {name: value for name, value in wanted.items() if value is not None}


def exceeded(kind: str, policies: Policies, traceback: str | None = None) -> Failed:
    """Return the failure that names the limit: `MemoryLimit: 512 MB`."""
    return Failed(Error(kind, names(policies).get(kind, ""), traceback))


def named(error: BaseException, policies: Policies) -> Failed | None:
    """Return the failure if the task exceeded a limit; None for any other error."""
    kind = _kind(error)
    if kind is None or kind not in names(policies):
        return None
    return exceeded(kind, policies, described(error).traceback)


def _kind(error: BaseException) -> str | None:
    match error:
        case CpuLimitReached():
            return "CpuLimit"
        case MemoryError() | OSError(errno=errno.ENOMEM):
            return "MemoryLimit"
        case OSError(errno=errno.EMFILE):
            return "OpenFilesLimit"
        case _:
            return None


@contextmanager
def kept(policies: Policies) -> Iterator[None]:
    """Set the limits inside the `with` block."""
    undo = list[Callable[[], Any]]()
    if policies.cpu_limit is not None:
        used = resource.getrusage(resource.RUSAGE_SELF)
        seconds = used.ru_utime + used.ru_stime + policies.cpu_limit.total_seconds()
        before = signal.signal(signal.SIGXCPU, _out_of_time)
        undo.append(lambda: signal.signal(signal.SIGXCPU, before))
        undo.append(_soft(resource.RLIMIT_CPU, ceil(seconds)))
    if policies.memory_limit_mb is not None:
        unused = max(system.reserved_now() - system.memory_now(), 0)
        undo.append(_soft(resource.RLIMIT_DATA, policies.memory_limit_mb * system.MB + unused))
    if policies.open_files_limit is not None:
        undo.append(_soft(resource.RLIMIT_NOFILE, policies.open_files_limit + len(os.listdir("/dev/fd"))))
    try:
        yield
    finally:
        for each in reversed(undo):
            each()


def _soft(which: int, value: int) -> Callable[[], None]:
    """Set a soft limit; return the function that restores it."""
    before, hard = resource.getrlimit(which)
    lowest = value if hard == resource.RLIM_INFINITY else min(value, hard)
    with suppress(OSError, ValueError):
        resource.setrlimit(which, (lowest, hard))
    return lambda: resource.setrlimit(which, (before, hard))


def _out_of_time(_number: int, _frame: FrameType | None) -> None:
    # Only once: the system sends the signal every second, also while the task cleans up.
    signal.signal(signal.SIGXCPU, signal.SIG_IGN)
    raise CpuLimitReached

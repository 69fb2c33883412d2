"""Jobs of rq-scheduler, as Redis keeps them: a score with the next time, and a hash with two pickles."""

import zlib
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from ostinato.core.errors import Invalid
from ostinato.core.lifecycle import FormerState
from ostinato.core.schedule import Cron
from ostinato.core.times import format_duration
from ostinato.features.transfer.rules.found import (
    Found,
    Times,
    by,
    changes_clocks,
    every,
    instant,
    once,
    since,
    text,
    whole,
    without_empty,
)
from ostinato.features.transfer.rules.pickles import LARGEST, read_pickle

SCHEDULED: Final = "rq:scheduler:scheduled_jobs"
JOB: Final = "rq:job:"


def scheduled_job(job_id: str, score: float, stored: Mapping[bytes, bytes], timezone: str, now: datetime) -> Found:
    """Read a job: the hash of RQ, and its score, which is the next time."""
    func, instance, args, kwargs = _call(stored.get(b"data", b""))
    if instance is not None:
        raise Invalid("It calls a method of an object, which cannot be named here.")
    meta, next_at = _meta(stored.get(b"meta", b"")), instant(score)
    if next_at is None:
        raise Invalid("It has no time.")
    schedule, times, written, changes = _when(meta, next_at, timezone, now)
    given = dict(kwargs)
    if args:
        given["args"] = list(args)
        changes.append("its positional arguments have no names here: they arrive as the list args.")
    repeat, seconds = meta.get("repeat"), stored.get(b"timeout", b"").decode()
    job = {
        "task": func, "args": given, "key": f"rq-{job_id}", "name": text(func)[:200], "schedule": schedule,
        "queue": stored.get(b"origin", b"default").decode(), "total_repeats": None if repeat is None else whole(repeat),
        "timeout": f"{seconds}s" if seconds.isdigit() and int(seconds) else None,
    }  # fmt: skip
    return Found(
        ref=job_id, title=func, schedule=written, job={**without_empty(job), "max_retries": 0},
        state=FormerState(created_at=instant(stored.get(b"created_at", b"").decode()), next_at=next_at),
        times=times if repeat is None else _at_most(times, whole(repeat)), changes=tuple(changes),
    )  # fmt: skip


def _call(data: bytes) -> tuple[str, Any, Any, Mapping[str, Any]]:
    """Return function, object and arguments of a call; the compressed pickle may not grow beyond its limit."""
    opener = zlib.decompressobj()
    try:
        whole_one = opener.decompress(data, LARGEST) if data[:1] == b"x" else data
    except zlib.error:
        raise Invalid("Its call cannot be unpacked.") from None
    if opener.unconsumed_tail:
        raise Invalid(f"Its call has more than {LARGEST:,} bytes.")
    match read_pickle(whole_one, frozenset()):
        case (str(func), instance, args, dict(kwargs)):
            return func, instance, args, kwargs
    raise Invalid("Its call cannot be read.")


def _meta(data: bytes) -> Mapping[str, Any]:
    meta = read_pickle(data, frozenset()) if data else {}
    if not isinstance(meta, dict):
        raise Invalid("Its meta data cannot be read.")
    return meta


def _when(
    meta: Mapping[str, Any], next_at: datetime, timezone: str, now: datetime
) -> tuple[dict[str, Any], Times, str, list[str]]:
    if meta.get("interval"):
        period = timedelta(seconds=whole(meta["interval"]))
        return {"every": format_duration(period)}, every(period, next_at), f"every {period}", []
    if meta.get("cron_string"):
        name = timezone if meta.get("use_local_timezone") else "UTC"
        cron = Cron(text(meta["cron_string"]), name)
        times = since(by(cron), next_at)
        return {"cron": cron.expression, "timezone": name}, times, f"{cron.expression} {name}", _nights(name, now)
    return {"at": next_at.isoformat()}, once(next_at), f"at {next_at.isoformat()}", []


def _nights(name: str, now: datetime) -> list[str]:
    """Name a zone whose clocks change: it counts wall times there, without a rule for those nights."""
    if not changes_clocks(name, now):
        return []
    return [f"it has no rule for the nights when the clocks of {name} change; here Debian's holds."]


def _at_most(times: Times, most: int) -> Times:
    return lambda after, n: times(after, min(n, most))

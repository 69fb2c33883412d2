"""Documents of CHRONOS (seed 004), as `mongoexport` writes them: a line of extended JSON for each, or one list."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from ostinato.core.errors import Invalid
from ostinato.core.lifecycle import FormerState, PastRun
from ostinato.core.model import Ending, first_of
from ostinato.core.outcome import OutcomeKind
from ostinato.core.schedule import Cron
from ostinato.core.times import format_duration
from ostinato.features.transfer.rules.found import (
    Found,
    Times,
    by,
    every,
    instant,
    never,
    once,
    since,
    text,
    whole,
    without_empty,
)

Document = Mapping[str, Any]

MILLISECOND: Final = timedelta(milliseconds=1)
WAITING: Final = ("WAITING", "BLOCKED")
READ: Final = frozenset(
    {"_id", "jobId", "jobName", "description", "jobType", "scheduleTime", "cronExpression", "interval", "nextRunAt",
     "lastRunAt", "timezone", "status", "dependsOnJobId", "pausedAt", "payload", "taskType", "priority", "retryCount",
     "maxRetries", "retryDelay", "useExponentialBackoff", "nextRetryAt", "lastError", "lastErrorStack", "lockedBy",
     "lockedAt", "lockTimeout", "result", "executionDuration", "createdBy", "tags", "isActive", "expireAt", "createdAt",
     "updatedAt", "timeout", "__v"}
)  # fmt: skip


def documents(written: str) -> Iterator[Document]:
    """Read the output of mongoexport; its wrappers of ids, dates and numbers become plain values."""
    if written.lstrip().startswith("["):
        found = json.loads(written)
    else:
        found = [json.loads(line) for line in written.splitlines() if line.strip()]
    for each in found:
        if not isinstance(each, dict):
            raise Invalid(f"A document is a JSON object, not {str(each)[:60]}.")
        yield plain(each)


def plain(value: Any) -> Any:
    """Unwrap `{"$oid": …}`, `{"$date": …}`, `{"$numberLong": …}` and the like."""
    if isinstance(value, list):
        return [plain(each) for each in value]
    if not isinstance(value, dict):
        return value
    match value:
        case {"$oid": str(identity)}:
            return identity
        case {"$date": {"$numberLong": str(milliseconds)}}:
            return datetime.fromtimestamp(int(milliseconds) / 1000, UTC).isoformat()
        case {"$date": int(milliseconds)}:
            return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat()
        case {"$date": str(written)}:
            return written
        case {"$numberLong": str(number)} | {"$numberInt": str(number)}:
            return int(number)
        case {"$numberDouble": str(number)} | {"$numberDecimal": str(number)}:
            return float(number)
    return {name: plain(each) for name, each in value.items()}


def chronos_job(document: Document) -> Found:
    """Read a document of `jobs`."""
    task = text(document.get("taskType"))
    if not task:
        raise Invalid("It has no taskType.")
    state = _state(document)
    schedule, times, written = _schedule(document, state)
    retries = whole(document.get("maxRetries"), 3)
    job = {
        "task": task,
        "args": document.get("payload") or {},
        "key": f"chronos-{document['jobId']}" if document.get("jobId") else None,
        "name": text(document.get("jobName"))[:200],
        "description": text(document.get("description"))[:10_000],
        "schedule": schedule,
        "priority": min(max(whole(document.get("priority"), 5), 1), 10),
        "tags": [text(tag)[:100] for tag in document.get("tags") or []][:50],
        "owner": text(document.get("createdBy")),
        "backoff": _backoff(document),
        "timeout": None if document.get("timeout") is None else f"{whole(document['timeout'])}ms",
        "when_exhausted": "fail",
        "metadata": _metadata(document),
    }
    return Found(
        ref=text(document.get("jobId") or document["_id"]), title=f"{task}: {text(document.get('jobName'))}",
        schedule=written, id=id_of(text(document["_id"])), job={**without_empty(job), "max_retries": retries},
        state=state, times=never if state.is_over else times,
        from_now="every" in schedule and (state.paused_at is not None or state.next_at is None),
        notes=tuple(_notes(document)), changes=tuple(_changes(document)),
    )  # fmt: skip


def id_of(identity: str) -> UUID:
    """Return the id of a document here: that of its creation, which an ObjectId names, and of its text."""
    try:
        made = datetime.fromtimestamp(int(identity[:8], 16), UTC)
    except ValueError:
        made = datetime(2020, 1, 1, tzinfo=UTC)
    digest = int.from_bytes(hashlib.sha256(f"chronos {identity}".encode()).digest()[:7], "big")
    return UUID(int=first_of(made).int | digest)


def _schedule(document: Document, state: FormerState) -> tuple[dict[str, Any], Times, str]:
    if document.get("jobType") == "RECURRING" or document.get("cronExpression") or document.get("interval"):
        expression, zone = text(document.get("cronExpression")), text(document.get("timezone")) or "UTC"
        if expression:
            cron = Cron(_without_seconds(expression), zone)
            return {"cron": cron.expression, "timezone": zone}, since(by(cron), state.next_at), f"{expression} {zone}"
        period = whole(document.get("interval")) * MILLISECOND
        if not period:
            raise Invalid("It is RECURRING, but has neither a cronExpression nor an interval.")
        next_at = None if state.paused_at is not None else state.next_at
        if state.failures and next_at is not None:
            next_at += period  # it is the time of the retry
        return {"every": format_duration(period)}, every(period, next_at), f"every {document['interval']} ms"
    at = instant(document.get("scheduleTime")) or instant(document.get("nextRunAt"))
    if at is None:
        raise Invalid("It is ONE_TIME, but has no scheduleTime.")
    due = state.next_at or at
    return {"at": due.isoformat()}, once(due), f"at {at.isoformat()}"


def _without_seconds(expression: str) -> str:
    """Return five fields; a sixth, in front, may only name the second 0."""
    fields = expression.split()
    if len(fields) != 6:
        return expression
    if fields[0] != "0":
        raise Invalid(f"{expression!r} names seconds: the finest cron schedule here is a minute; use an interval.")
    return " ".join(fields[1:])


def _backoff(document: Document) -> dict[str, Any]:
    base = f"{whole(document.get('retryDelay'), 60_000)}ms"
    if document.get("useExponentialBackoff") is False:
        return {"kind": "fixed", "base": base, "cap": base}
    return {"base": base, "cap": "365d"}  # it has no cap there


def _state(document: Document) -> FormerState:
    status = text(document.get("status")) or "SCHEDULED"
    changed, last_at = instant(document.get("updatedAt")), instant(document.get("lastRunAt"))
    created = instant(document.get("createdAt")) or _made(document)
    over = status in ("COMPLETED", "FAILED")
    ended = (last_at or changed or created) if over else None
    stopped = status == "PAUSED" or document.get("isActive") is False or status in WAITING
    next_at = instant(document.get("nextRunAt")) or instant(document.get("nextRetryAt"))
    runs = _last_run(document, last_at, status)
    retries = whole(document.get("retryCount"))
    return FormerState(
        created_at=created, next_at=None if over else next_at, last_at=last_at,
        paused_at=(instant(document.get("pausedAt")) or changed or created) if stopped and not over else None,
        cancelled_at=(changed or created) if status == "CANCELLED" else None, ended_at=ended,
        ended_as={"COMPLETED": Ending.COMPLETED, "FAILED": Ending.FAILED}.get(status), counted=_counted(document, runs),
        failures=retries if status == "SCHEDULED" and not stopped and _waits_for_retry(document) else 0, runs=runs,
    )  # fmt: skip


def _waits_for_retry(document: Document) -> bool:
    """Return True if the next run is a retry: the count of an earlier failure stays after a success there."""
    retry_at, next_at = instant(document.get("nextRetryAt")), instant(document.get("nextRunAt"))
    return bool(document.get("retryCount")) and (retry_at is not None and retry_at == next_at)


def _counted(document: Document, runs: tuple[PastRun, ...]) -> dict[OutcomeKind, int]:
    """Return what the document knows: failures, and the newest run."""
    failed = whole(document.get("retryCount"))
    completed = sum(run.outcome is OutcomeKind.COMPLETED for run in runs)
    return {OutcomeKind.COMPLETED: completed, OutcomeKind.FAILED: failed}


def _last_run(document: Document, at: datetime | None, status: str) -> tuple[PastRun, ...]:
    """Return the newest run; `lastRunAt` is its end."""
    if at is None:
        return ()
    failed = bool(document.get("lastError")) or status == "FAILED"
    started = at - whole(document.get("executionDuration")) * MILLISECOND
    result = None if failed or document.get("result") is None else json.dumps(document["result"])
    return (
        PastRun(
            started_at=started, finished_at=at, outcome=OutcomeKind.FAILED if failed else OutcomeKind.COMPLETED,
            attempt=max(whole(document.get("retryCount")) - 1, 0) if failed else 0, result=result,
            error=(text(document.get("lastError")) or None) if failed else None,
            traceback=(text(document.get("lastErrorStack")) or None) if failed else None,
        ),
    )  # fmt: skip


def _made(document: Document) -> datetime:
    return datetime.fromtimestamp((id_of(text(document["_id"])).int >> 80) / 1000, UTC)


def _metadata(document: Document) -> dict[str, Any]:
    """Keep the id, and the fields that are not known here."""
    others = {name: value for name, value in document.items() if name not in READ}
    return {"chronos": {"_id": text(document["_id"]), **others}}


def _notes(document: Document) -> Iterator[str]:
    if document.get("status") in ("RUNNING", "QUEUED"):
        yield "it was running there: it runs again here at once."
    if document.get("isActive") is False:
        yield "it is not active there: it arrives paused."
    if others := sorted(name for name in document if name not in READ):
        yield f"fields that have no meaning here are kept in its metadata: {', '.join(others)}."


def _changes(document: Document) -> Iterator[str]:
    if document.get("dependsOnJobId"):
        yield (
            f"It runs after the job {document['dependsOnJobId']} there: "
            f"ostinato job edit JOB --after {id_of(text(document['dependsOnJobId']))}"
        )


# What the environment of its worker says here: named when its jobs are imported.
SETTINGS: Final = {
    "POLL_INTERVAL=3000 (milliseconds)": "OSTINATO_POLL_INTERVAL=3s",
    "CONCURRENCY=10": "OSTINATO_CONCURRENCY=10, or --concurrency 10",
}

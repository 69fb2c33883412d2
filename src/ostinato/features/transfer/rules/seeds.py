"""Rows of the systems of the user: Hermes (seed 000), Pipelit (001) and the interval scheduler of a crawler (003).

The words of their rows are those that our doors of the same name take, with the same defaults.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from ostinato.core.errors import Invalid
from ostinato.core.lifecycle import FormerState, PastRun
from ostinato.core.model import Ending
from ostinato.core.outcome import OutcomeKind
from ostinato.core.schedule import Cron, Every, Schedule
from ostinato.features.sources.rules import key_of, read_source
from ostinato.features.transfer.rules.found import (
    Found,
    Times,
    by,
    every,
    instant,
    never,
    once,
    text,
    whole,
    without_empty,
)

Row = Mapping[str, Any]

UNITS: Final = {"minutes": timedelta(minutes=1), "hours": timedelta(hours=1), "days": timedelta(days=1)}
OUTCOMES: Final = {
    "completed": OutcomeKind.COMPLETED, "failed": OutcomeKind.FAILED, "cancelled": OutcomeKind.CANCELLED,
}  # fmt: skip
WAS_RUNNING: Final = "it was running there: it runs again here at once."


# -- the interval scheduler


def interval_job(row: Row, counted: Mapping[OutcomeKind, int], executions: Sequence[Row], timezone: str) -> Found:
    """Read a row of `jobs`, with the counts and the rows of its `job_executions`."""
    period = _period(row)
    state = _interval_state(row, counted, executions)
    from_now = period is not None and (state.paused_at is not None or state.next_at is None)
    schedule, times = _interval_schedule(row, period, timezone, state)
    named = without_empty({"url": row.get("url"), "source_id": row.get("source_id")})
    job = {
        "task": "crawl",
        "args": without_empty({**named, "source_name": row.get("source_name")}),
        "name": text(row.get("source_name"))[:200],
        **schedule,
        "max_retries": whole(row.get("max_retries"), 3),
        "retry_backoff_seconds": whole(row.get("retry_backoff_seconds"), 60),
        "metadata": object_of(row.get("metadata")),
    }
    return Found(
        ref=text(row["id"]), title=text(row.get("source_name") or row.get("url")),
        schedule=_interval_words(row, period), id=UUID(text(row["id"])), job=without_empty(job), state=state,
        times=never if state.is_over else times, from_now=from_now,
        notes=(WAS_RUNNING,) if row.get("status") == "running" else (),
    )  # fmt: skip


def _period(row: Row) -> timedelta | None:
    minutes = row.get("interval_minutes")
    if minutes is None:
        return None
    kind = text(row.get("interval_type")) or "minutes"
    if kind not in UNITS:
        raise Invalid(f"interval_type is one of {', '.join(UNITS)}, not {kind[:60]!r}.")
    return whole(minutes) * UNITS[kind]


def _interval_words(row: Row, period: timedelta | None) -> str:
    if period is not None:
        return f"every {row['interval_minutes']} {row.get('interval_type') or 'minutes'}"
    return text(row.get("schedule_time")) if _is_legacy(row) else "once"


def _is_legacy(row: Row) -> bool:
    return bool(row.get("schedule_time")) and bool(row.get("schedule_enabled"))


def _interval_schedule(
    row: Row, period: timedelta | None, timezone: str, state: FormerState
) -> tuple[dict[str, Any], Times]:
    """Return the fields of the schedule, and its due times. A job that keeps its cron expression can go back to it."""
    kept = {"schedule_time": row["schedule_time"], "timezone": timezone} if row.get("schedule_time") else {}
    if period is not None:
        words = {"interval_minutes": row["interval_minutes"], "interval_type": row.get("interval_type") or "minutes"}
        return {**words, **kept}, every(period, _after_retry(state, period))
    if _is_legacy(row):
        return kept, by(Cron(text(row["schedule_time"]), timezone))
    at = state.next_at or instant(row.get("started_at")) or state.created_at
    if at is None:
        raise Invalid("It has neither an interval nor a time.")
    return {"schedule": {"at": at.isoformat()}, "when_exhausted": "fail"}, once(at)


def _after_retry(state: FormerState, period: timedelta) -> datetime | None:
    """Return the next time of an interval: after a retry, a period later; None where a resume decides it."""
    if state.paused_at is not None or state.next_at is None:
        return None
    return state.next_at + period if state.failures else state.next_at


def _interval_state(row: Row, counted: Mapping[OutcomeKind, int], executions: Sequence[Row]) -> FormerState:
    status, changed = text(row.get("status")), instant(row.get("updated_at"))
    cancelled = instant(row.get("cancelled_at")) or (changed if status == "cancelled" else None)
    ended = (instant(row.get("completed_at")) or changed) if status in ("completed", "failed") else None
    paused = (instant(row.get("paused_at")) or changed) if row.get("is_paused") or status == "paused" else None
    created = instant(row.get("created_at"))
    return FormerState(
        created_at=created, next_at=instant(row.get("next_run_at")), last_at=instant(row.get("started_at")),
        paused_at=paused, cancelled_at=(cancelled or created) if status == "cancelled" else None,
        ended_at=(ended or created) if status in ("completed", "failed") else None,
        ended_as=Ending(status) if status in ("completed", "failed") else None, counted=counted,
        failures=whole(row.get("current_retry_count")) if status in ("pending", "scheduled") else 0,
        runs=tuple(interval_run(each) for each in executions if each.get("status") in OUTCOMES),
    )  # fmt: skip


def interval_run(row: Row) -> PastRun:
    """Read a row of `job_executions`. Its id, which orders nothing, is kept beside the figures of the run."""
    started = instant(row["started_at"])
    if started is None:
        raise Invalid("An execution has no started_at.")
    finished = instant(row.get("completed_at"))
    if finished is None:
        finished = started + timedelta(milliseconds=whole(row.get("duration_ms")))
    account = {
        "cpu_ms": row.get("cpu_time_ms"), "memory_mb": row.get("memory_peak_mb"),
        "items_crawled": row.get("items_crawled"), "items_indexed": row.get("items_indexed"),
        "imported_id": text(row.get("id")), "metadata": object_of(row.get("metadata")) or None,
    }  # fmt: skip
    return PastRun(
        started_at=started, finished_at=finished, outcome=OUTCOMES[row["status"]],
        attempt=whole(row.get("retry_attempt")), execution_number=whole(row.get("execution_number")) or None,
        error=text(row.get("error_message")) or None, traceback=text(row.get("stack_trace")) or None,
        account=json.dumps({name: value for name, value in account.items() if value is not None}),
    )  # fmt: skip


def object_of(value: object) -> dict[str, Any]:
    """Read an object of a JSON column; drivers return it as text or read."""
    if isinstance(value, str | bytes):
        value = json.loads(value) if value else {}
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Invalid(f"{str(value)[:60]!r} is no JSON object.")
    return value


# -- Pipelit


def pipelit_job(row: Row) -> Found:
    """Read a row of `scheduled_jobs`."""
    seconds, status = whole(row.get("interval_seconds")), text(row.get("status")) or "active"
    period, state = timedelta(seconds=seconds), _pipelit_state(row, status)
    next_at = _after_retry(state, period)
    job = {
        "task": "workflow",
        "args": without_empty(
            {
                "workflow": workflow_of(row.get("workflow_id")),
                "trigger": row.get("trigger_node_id"),
                "payload": object_of(row.get("trigger_payload")),
            }
        ),
        "schedule": {"every": f"{seconds}s"},
        "name": text(row.get("name"))[:200],
        "description": text(row.get("description"))[:10_000],
        "owner": text(row.get("user_profile_id")),
        "total_repeats": whole(row.get("total_repeats")),
        "max_retries": whole(row.get("max_retries"), 3),
        "timeout": f"{whole(row.get('timeout_seconds'), 600)}s",
        "backoff": {"base": f"{seconds}s", "cap": f"{10 * seconds}s"},
        "when_exhausted": "fail",
    }
    return Found(
        ref=text(row["id"]), title=f"{text(row.get('name'))}: workflow {workflow_of(row.get('workflow_id'))}",
        schedule=f"every {seconds} s", id=UUID(text(row["id"])), job=without_empty(job), state=state,
        times=never if state.is_over else _limited(every(period, next_at), row), from_now=next_at is None,
        notes=_pipelit_notes(row, status),
    )  # fmt: skip


def workflow_of(value: object) -> int | str:
    """Return the id of a workflow: a number, or a name."""
    written = text(value)
    return int(written) if written.isdigit() else written


def _limited(times: Times, row: Row) -> Times:
    """End with the last repeat."""
    total = whole(row.get("total_repeats"))
    left = max(total - whole(row.get("current_repeat")), 0)
    return (lambda after, n: times(after, min(n, left))) if total else times


def _pipelit_state(row: Row, status: str) -> FormerState:
    runs, errors = whole(row.get("run_count")), whole(row.get("error_count"))
    changed, last_at = instant(row.get("updated_at")), instant(row.get("last_run_at"))
    retries = whole(row.get("current_retry"))
    ended = (changed or last_at or instant(row.get("created_at"))) if status in ("done", "dead") else None
    failed = retries > 0 or status == "dead"
    last = PastRun(
        started_at=last_at, finished_at=last_at, outcome=OutcomeKind.FAILED if failed else OutcomeKind.COMPLETED,
        attempt=max(retries - 1, 0), error=(text(row.get("last_error")) or None) if failed else None,
        account=json.dumps({"imported_id": f"sched-{row['id']}-n{whole(row.get('current_repeat'))}-rc{retries}"}),
    ) if last_at is not None and (runs or errors) else None  # fmt: skip
    return FormerState(
        created_at=instant(row.get("created_at")), next_at=instant(row.get("next_run_at")), last_at=last_at,
        paused_at=(changed or last_at) if status in ("paused", "stopped") else None, ended_at=ended,
        ended_as={"done": Ending.COMPLETED, "dead": Ending.FAILED}.get(status),
        counted={OutcomeKind.COMPLETED: runs, OutcomeKind.FAILED: errors},
        repeats_done=whole(row.get("current_repeat")), failures=retries if status == "active" else 0,
        runs=() if last is None else (last,),
    )  # fmt: skip


def _pipelit_notes(row: Row, status: str) -> tuple[str, ...]:
    notes = []
    if status == "stopped":
        notes.append("it is stopped there: it arrives paused.")
    if status == "paused" and whole(row.get("current_retry")):
        notes.append("it waits for a retry there: after a resume it begins with a fresh budget.")
    return tuple(notes)


# -- Hermes


def hermes_source(definition: Row, retries: Row | None, newest: datetime | None, now: datetime, timezone: str) -> Found:
    """Read a definition, its row of `retries`, and the newest `created_at` of its rows."""
    source = read_source(definition, timezone)
    active = source.active
    row = retries or {}
    reset = source.execution.reset_period
    begun, count = instant(row.get("period_start")), whole(row.get("retry_count"))
    if begun is not None and now - begun >= reset:
        begun, count = None, 0
    retry_at = instant(row.get("next_retry_at")) if count else None
    next_at = None if newest is None or not active else _following(source.schedule, newest)
    is_spent = begun is not None and count >= source.execution.max_retries
    if is_spent and begun is not None:
        next_at, retry_at = begun + reset, None
    state = FormerState(
        next_at=next_at if retry_at is None else retry_at, last_at=newest, paused_at=None if active else now,
        failures=0 if retry_at is None else count, period_start=begun, period_failures=count,
        counted={OutcomeKind.FAILED: count} if count else {},
    )  # fmt: skip
    return Found(
        ref=key_of(source.name), title=source.url, schedule=text(definition.get("schedule")) or "daily",
        source=dict(definition), state=state, from_now=next_at is None and retry_at is None,
        times=_hermes_times(source.schedule, next_at, retry_at) if active else never,
        notes=() if active else (f"its status is {source.status}: it arrives paused.",),
    )  # fmt: skip


def _following(schedule: Schedule, newest: datetime) -> datetime | None:
    """Return the next time after the newest row, as Hermes counts it."""
    return newest + schedule.period if isinstance(schedule, Every) else next(iter(by(schedule)(newest, 1)), None)


def _hermes_times(schedule: Schedule, next_at: datetime | None, retry_at: datetime | None) -> Times:
    if not isinstance(schedule, Every):
        return by(schedule)
    return every(schedule.period, next_at if retry_at is None else retry_at + schedule.period)


def hermes_definition(row: Row) -> dict[str, Any]:
    """Read a row of definitions: one column with the whole as JSON, or a column for each word."""
    whole_one = next((row[name] for name in ("definition", "config", "source") if row.get(name)), None)
    if whole_one is not None:
        found = object_of(whole_one)
        return {**{name: row[name] for name in ("name", "status") if row.get(name)}, **found}
    other = {"table_name": "table", "source_name": "name", "data_path": "dataPath"}
    return {
        other.get(name, name): _word(value) for name, value in row.items() if value is not None and name not in OURS
    }


OURS: Final = frozenset({"id", "created_at", "updated_at"})  # columns of the row, not words of the definition


def _word(value: object) -> object:
    if isinstance(value, str) and value[:1] in "{[":
        return json.loads(value)
    return value


def by_job(rows: Iterable[Row], column: str = "job_id") -> dict[str, list[Row]]:
    """Group rows by the job that they belong to."""
    grouped: dict[str, list[Row]] = {}
    for row in rows:
        grouped.setdefault(text(row[column]), []).append(row)
    return grouped

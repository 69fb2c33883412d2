"""Sentry: exceptions of runs, and check-ins of recurring jobs. Nothing imports this unless the setting `sentry` is on.

The program calls `sentry_sdk.init`; Ostinato never does. An exception is captured where it is raised, with its stack:
on the run's thread, on the loop, or in a process of its own. A check-in is sent when the start or the end of an
occurrence is stored, by the worker that stored it: a worker that was killed is reported by the one that finds it lost.
"""

import asyncio
import math
import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid5

import sentry_sdk
from sentry_sdk.crons import capture_checkin
from sentry_sdk.integrations.logging import ignore_logger
from sentry_sdk.utils import event_from_exception

from ostinato.core.lifecycle.settling import may_retry
from ostinato.core.model import AskedBy, Claimed, Definition, Execution, Live
from ostinato.core.outcome import Failed, OutcomeKind
from ostinato.core.schedule import Cron, Every, Schedule
from ostinato.core.times import MINUTE
from ostinato.task import Context, Registry, Terminated
from ostinato.task.around import ours
from ostinato.task.signals import frames_of_task, hide_frames_of, of_failure
from ostinato.telemetry.reports import End, Telemetry

if TYPE_CHECKING:
    from sentry_sdk._types import Event, MonitorConfig

OUR_LOGGERS: Final = (  # not ostinato.task: what a task logs belongs to the program
    "ostinato", "ostinato.access", "ostinato.dashboard", "ostinato.engine", "ostinato.isolation", "ostinato.resources",
    "ostinato.rest", "ostinato.rq", "ostinato.service", "ostinato.store",
)  # fmt: skip
LONGEST_SLUG: Final = 50
STOPPED: Final = (asyncio.CancelledError, Terminated)

hide_frames_of(__file__)


def reporting(ctx: Context) -> Iterator[None]:
    """Report the exception of a run, and keep its tags and breadcrumbs apart from those of other runs."""
    with sentry_sdk.isolation_scope() as scope:
        scope.set_transaction_name(ctx.task, source="task")
        scope.set_tag("ostinato.task", ctx.task)
        scope.set_tag("ostinato.queue", ctx.live.queue)
        scope.set_context("ostinato", _about(ctx))
        try:
            yield
        except GeneratorExit:  # the loop is closed
            raise
        except BaseException as error:
            _capture(ctx, error)
            raise


REPORTING: Final = ours(reporting)


def observe(telemetry: Telemetry, registry: Registry) -> None:
    """Report the exceptions of a worker's runs, and check in its recurring jobs."""
    for name in OUR_LOGGERS:
        ignore_logger(name)
    registry.arounds.put_first(REPORTING)
    telemetry.observers += (_CheckIns(),)


def _capture(ctx: Context, error: BaseException) -> None:
    """Send an error that fails the run: a warning while retries are left."""
    failure, client = of_failure(error), sentry_sdk.get_client()
    if failure is None or (ctx.cancelled and isinstance(error, STOPPED)) or not client.is_active():
        return
    again = _is_tried_again(ctx, error, failure)
    event: Event
    event, hint = event_from_exception(
        (type(error), error, frames_of_task(error)),
        client_options=client.options,
        mechanism={"type": "ostinato", "handled": again},
    )
    event["level"] = "warning" if again else "error"
    event["fingerprint"] = ["{{ default }}", ctx.task]
    sentry_sdk.capture_event(event, hint=hint)


def _is_tried_again(ctx: Context, error: BaseException, failure: Failed) -> bool:
    """Return True if retries are left. A step has the retries of its node, which its run does not know."""
    if failure.final or ctx.step:
        return False
    return may_retry(ctx.definition.policies, ctx.live, type(error).__name__)


def _about(ctx: Context) -> dict[str, Any]:
    fields = {
        "job_id": str(ctx.job_id), "job_key": ctx.job_key, "execution_id": str(ctx.execution_id),
        "execution_key": ctx.execution_key, "number": ctx.number, "attempt": ctx.attempt, "queue": ctx.live.queue,
        "due_at": ctx.due_at.isoformat(), "worker": ctx.worker, "step": ctx.step or None,
        "traceparent": ctx.traceparent,
    }  # fmt: skip
    return {name: value for name, value in fields.items() if value is not None}


class _CheckIns:
    """The check-ins of recurring jobs: one for each occurrence of the schedule, whatever its attempts."""

    def started(self, claimed: Sequence[Claimed]) -> None:
        for each in claimed:
            if not each.live.attempt:
                self._check_in(each.live, each.definition, "in_progress")

    def ended(self, about: Live | Execution, definition: Definition | None, end: End) -> None:
        if definition is None or about.started_at is None or end.again:
            return
        status = "ok" if end.outcome is OutcomeKind.COMPLETED else "error"
        self._check_in(about, definition, status, max((end.at - about.started_at).total_seconds(), 0.0))

    def _check_in(
        self, about: Live | Execution, definition: Definition, status: str, duration: float | None = None
    ) -> None:
        if about.step or about.asked is not AskedBy.SCHEDULE:
            return
        config = monitor_of(definition)
        if config is not None:
            check_in_id = uuid5(about.job_id, str(about.number)).hex
            capture_checkin(slug_of(definition, about.job_id.hex), check_in_id, status, duration, config)


def monitor_of(definition: Definition) -> "MonitorConfig | None":
    """Return what Sentry has to know of a job; None if it cannot know when the job is due."""
    schedule, policies = _schedule_of(definition.schedule), definition.policies
    if schedule is None or policies.window is not None:
        return None
    config: dict[str, Any] = {"schedule": schedule}
    if isinstance(definition.schedule, Cron):
        config["timezone"] = definition.schedule.timezone
    if policies.late_after is not None:
        config["checkin_margin"] = _minutes(policies.late_after)
    if policies.timeout is not None:
        config["max_runtime"] = _minutes(policies.timeout)
    return config  # type: ignore[return-value]


def slug_of(definition: Definition, job_id: str) -> str:
    """Return the name of the monitor: app and key, or the name or id of the job."""
    name = definition.key or f"{definition.name or definition.task}-{job_id[-8:]}"
    slug = re.sub(r"[^a-z0-9_-]+", "-", f"{definition.app}-{name}".lower()).strip("-")
    if len(slug) <= LONGEST_SLUG:
        return slug
    mark = sha256(slug.encode()).hexdigest()[:8]
    return f"{slug[: LONGEST_SLUG - 9]}-{mark}"


def _schedule_of(schedule: Schedule) -> dict[str, Any] | None:
    match schedule:
        case Cron(expression):
            return {"type": "crontab", "value": expression}
        case Every(period) if not period % MINUTE:
            return {"type": "interval", "value": period // MINUTE, "unit": "minute"}
        case _:
            return None


def _minutes(span: timedelta) -> int:
    return max(math.ceil(span / MINUTE), 1)

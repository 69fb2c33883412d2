"""Plan of a conversion from cron, and the comparison of due times before and after."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from ostinato.cli.times import absolute
from ostinato.cli.verbs import ApiCalls
from ostinato.core.describe import describe
from ostinato.core.schedule import Cron
from ostinato.features.transfer.crontab import VERIFIED, CronPlan, Difference, differences, plan


@dataclass(frozen=True, slots=True)
class Compared:
    """Due times that differ before and after a conversion."""

    differences: Sequence[Difference]

    def sentences(self) -> list[str]:
        return [f"it was due {_at(each.before)}, and is now {_at(each.after)}" for each in self.differences]

    def as_json(self) -> list[dict[str, str | None]]:
        return [{"before": _iso(each.before), "after": _iso(each.after)} for each in self.differences]


def planned(schedule: Cron, now: datetime, keep_cron: bool) -> CronPlan:
    return CronPlan(schedule) if keep_cron else plan(schedule, now)


def compare(api: ApiCalls, job: str, before: Cron) -> Compared:
    """Compare the next due times of a job with those of a cron expression."""
    answer = api.get(api.job(job, "next"), n=VERIFIED)
    return comparison(before, [datetime.fromisoformat(at) for at in answer["times"]], api.now())


def comparison(before: Cron, times: list[datetime], now: datetime) -> Compared:
    return Compared(differences(before, times, now))


def schedule_words(made: CronPlan) -> str:
    return describe(made.schedule, made.start_at)


def shown_times(times: Sequence[datetime], now: datetime) -> str:
    return "; ".join(absolute(at, now) for at in times)


def _at(instant: datetime | None) -> str:
    return "never" if instant is None else f"{instant.astimezone():%Y-%m-%d %H:%M:%S %Z}"


def _iso(instant: datetime | None) -> str | None:
    return None if instant is None else instant.astimezone(UTC).isoformat().replace("+00:00", "Z")

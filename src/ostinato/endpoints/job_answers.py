"""Jobs as endpoints answer them."""

from collections.abc import Iterable

from ostinato.endpoints.table import Ask
from ostinato.service import JobView, Service
from ostinato.shapes.job_answer import JobAnswer


def answers(service: Service, views: Iterable[JobView]) -> list[JobAnswer]:
    """Return the answers for jobs, each with the outcome of its newest run."""
    views = service.jobs.with_reasons(list(views))
    last = service.jobs.last_runs(views) if views else {}
    return [JobAnswer.of(view, last.get(view.id)) for view in views]


def answer(ask: Ask, view: JobView) -> JobAnswer:
    """Return the answer for a job, with its version as ETag."""
    ask.headers["ETag"] = f'"{view.facts.version}"'
    return answers(ask.service, [view])[0]

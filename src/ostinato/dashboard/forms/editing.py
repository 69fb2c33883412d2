"""Job edits from the dashboard form: compare it with the job, check the result, list the differences, save."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ostinato.core.model import Definition
from ostinato.dashboard.forms import diff, job
from ostinato.dashboard.forms.arguments import Arguments
from ostinato.dashboard.forms.errors import WrongFields
from ostinato.dashboard.page_request import PageRequest
from ostinato.service import JobView
from ostinato.shapes import job_body
from ostinato.shapes.answers import as_json
from ostinato.shapes.job_answer import JobAnswer
from ostinato.shapes.job_body import BodyContext, JobEdit
from ostinato.shapes.own_job import OurWords


def body_context(visit: PageRequest) -> BodyContext:
    """Return the context in which a request body is read: time, zone, app, run args."""
    return BodyContext(visit.now, visit.site.settings.timezone, visit.service.app, visit.service.tasks.run_args)


def answer_of(visit: PageRequest, view: JobView) -> JobAnswer:
    """A job as it goes out over REST."""
    return JobAnswer.of(view, visit.service.jobs.last_runs([view]).get(view.id))


def texts_of(visit: PageRequest, answer: JobAnswer) -> dict[str, str]:
    """Return the texts of the form for an existing job."""
    arguments = Arguments.of(visit.service, answer.task)
    return {**job.texts_of(as_json(answer)), **arguments.texts_of(answer.args)}


def args_of(visit: PageRequest, texts: Mapping[str, str], before: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Read the arguments from the form; check them against the task's schema if they changed."""
    arguments = Arguments.of(visit.service, texts.get("task", "").strip())
    args = arguments.read(texts)
    if args != before and (wrong := arguments.flaws(args)):
        raise WrongFields(wrong)
    return args


@dataclass(frozen=True, slots=True)
class JobEditing:
    """A wanted edit of a job, and its changes."""

    visit: PageRequest
    view: JobView
    change: Callable[[Definition], Definition]
    lines: list[diff.DiffLine]
    allow_unknown: bool

    @classmethod
    def of(cls, visit: PageRequest, view: JobView, texts: Mapping[str, str]) -> "JobEditing":
        """Build and check the edit; raise Invalid or ValidationError if it is not allowed."""
        answer = answer_of(visit, view)
        body = job.changed_body(texts, texts_of(visit, answer))
        same_task = "task" not in body
        args = args_of(visit, texts, answer.args if same_task else None)
        if args != answer.args:
            body["args"] = args
        change = job_body.edit(JobEdit.model_validate(body), answer, body_context(visit))
        wanted = change(view.definition)
        allow = same_task or bool(visit.form.get("allow_unknown"))
        visit.service.jobs.check(wanted, view.definition, allow_unknown=allow)
        after = answer_of(visit, replace(view, job=replace(view.job, definition=wanted)))
        return cls(visit, view, change, diff.changes(_words(answer), _words(after)), allow)

    def save(self) -> None:
        """Save the edit; raise Stale if the job has changed since `view` was read."""
        self.visit.service.jobs.edit(
            self.view.id,
            self.change,
            by=self.visit.by,
            expected_version=self.view.facts.version,
            allow_unknown=self.allow_unknown,
        )


def _words(answer: JobAnswer) -> dict[str, Any]:
    """Return the job's fields as the REST API names them, for the diff."""
    shown = {name: value for name, value in as_json(answer).items() if name in OurWords.model_fields}
    return {name: value for name, value in shown.items() if name != "timezone"}  # the schedule has it

"""Pages that create and edit jobs, and the parts that the form loads during typing."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from pydantic import ValidationError
from starlette.responses import HTMLResponse, Response

from ostinato.core.access import Role
from ostinato.core.errors import OstinatoError, Stale
from ostinato.core.model import Definition
from ostinato.core.times import zone_names
from ostinato.dashboard.forms import fields, job
from ostinato.dashboard.forms.fields import Form, typed
from ostinato.dashboard.forms.job import Arguments
from ostinato.dashboard.page_request import PageRequest, WrongFields, get, post, with_error
from ostinato.service import JobView
from ostinato.service.paging import allowance
from ostinato.shapes import job_body
from ostinato.shapes.answers import as_json, refused
from ostinato.shapes.changes import PreviewBody, previewed
from ostinato.shapes.job_answer import JobAnswer
from ostinato.shapes.job_body import BodyContext, JobBody, JobEdit
from ostinato.shapes.job_words import OurWords

# -- Job edits from the dashboard form: compare it with the job, check the result, list the differences, save


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
class _JobEditing:
    """A wanted edit of a job, and its changes."""

    visit: PageRequest
    view: JobView
    change: Callable[[Definition], Definition]
    lines: list[fields.DiffLine]
    allow_unknown: bool

    @classmethod
    def of(cls, visit: PageRequest, view: JobView, texts: Mapping[str, str]) -> "_JobEditing":
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
        return cls(visit, view, change, fields.changes(_words(answer), _words(after)), allow)

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


# -- Pages that create and edit jobs, and the parts that the form loads during typing

SHOWN_TIMES: Final = 5  # next times beside the schedule
NEW: Final = "/jobs/new"
FIRST_RUN_WORDS: Final = ("", "now")


# -- a new job


def new(visit: PageRequest) -> Response:
    """Show an empty form, or one filled in from another job (`?like=`) or from the address (`?task=`)."""
    texts = {**job.BEGINNING, **typed(visit.query, job.FIELDS)}
    if like := visit.query.get("like"):
        texts = texts_of(visit, answer_of(visit, visit.service.jobs.get(like))) | {"key": ""}
    return _form(visit, texts)


def make(visit: PageRequest) -> Response:
    """Create the job, or show the form again with a preview or its errors."""
    texts = typed(visit.form, visit.form)
    if visit.form.get("do") != "save":
        return _form(visit, texts)
    try:
        said = job.new_body(texts)
        body = JobBody.model_validate({**said, "args": args_of(visit, texts)})
        definition = job_body.new_definition(body, body_context(visit))
        unknown = bool(visit.form.get("allow_unknown"))
        made, is_new = visit.service.jobs.make(definition, by=visit.by, allow_unknown=unknown)
    except (OstinatoError, ValidationError) as error:
        return _form(visit, texts, error)
    message = "The job is created." if is_new else f"A job with the key {made.key} exists already: this one."
    return visit.redirect(f"/jobs/{made.id}", message, visit.service.jobs.secrets(made), [made.task])


# -- an existing job


def edit(visit: PageRequest) -> Response:
    view = visit.service.jobs.get(visit.path_param("id"))
    return _form(visit, texts_of(visit, answer_of(visit, view)), view=view)


def change(visit: PageRequest) -> Response:
    """Show the changes of an edit; save them if the visitor has reviewed exactly these."""
    view, texts = visit.service.jobs.get(visit.path_param("id")), typed(visit.form, visit.form)
    if visit.form.get("do") not in ("review", "save"):
        return _form(visit, texts, view=view)
    lines = None
    try:
        editing = _JobEditing.of(visit, view, texts)
        lines = editing.lines
        if texts.get("version") != str(view.facts.version):
            raise Stale(
                f"This job was changed during your edit; its version is now {view.facts.version}. Your values are still"
                " here. Review how they would change the new version."
            )
        if not lines or texts.get("reviewed") != fields.digest(lines):
            return _form(visit, texts, view=view, lines=lines)
        editing.save()
    except (OstinatoError, ValidationError) as error:
        return _form(visit, texts, error, view=view, lines=lines)
    saved, message = visit.service.jobs.get(view.id), f"Saved: {', '.join(line.name for line in lines)}."
    return visit.redirect(f"/jobs/{view.id}", message, visit.service.jobs.secrets(saved), [saved.task])


# -- parts loaded during typing


def preview(visit: PageRequest) -> Response:
    """Show the next times of a schedule, or its error."""
    texts = typed(visit.query, ("schedule", "timezone"))
    return _fragment(visit, "preview.html", foreseen=_foreseen(visit, texts))


def show_arguments(visit: PageRequest) -> Response:
    """Show the fields for the arguments of a task."""
    task = visit.query.get("task", "").strip()
    arguments = Arguments.of(visit.service, task)
    return _fragment(visit, "arguments.html", form=Form(arguments.fields, {}), task=task, arguments=arguments)


def _fragment(visit: PageRequest, template: str, **answer: Any) -> Response:
    return HTMLResponse(visit.site.render(template, visit, **answer))


# -- the form


def _form(
    visit: PageRequest,
    texts: dict[str, str],
    error: OstinatoError | ValidationError | None = None,
    *,
    view: JobView | None = None,
    lines: list[fields.DiffLine] | None = None,
) -> Response:
    task = texts.get("task", "").strip()
    arguments = Arguments.of(visit.service, task)
    form = Form({**job.FIELDS, **arguments.fields}, texts)
    if error is not None:
        visit, form = with_error(visit, "job", form, error)
    return visit.page(
        "job_form.html",
        form=form,
        view=view,
        lines=lines,
        digest=fields.digest(lines or []),
        when=job.WHEN,
        groups=job.GROUPS,
        foreseen=_foreseen(visit, texts),
        zones=sorted(zone_names()),
        tasks=[each.name for each in visit.service.tasks.list()],
        task=task,
        arguments=arguments,
    )


def _foreseen(visit: PageRequest, texts: dict[str, str]) -> dict[str, Any]:
    """Describe the schedule: a sentence and the next times, or the error."""
    schedule = texts.get("schedule", "").strip()
    zone = texts.get("timezone", "").strip() if job.zone_counts(texts) else ""
    if schedule.lower() in FIRST_RUN_WORDS:
        return {"sentence": "once, as soon as it is saved", "times": [], "zone": None, "wrong": ""}
    try:
        asked = PreviewBody.model_validate({"schedule": schedule, "timezone": zone or None, "n": SHOWN_TIMES})
        found = previewed(asked, body_context(visit), allowance())
    except OstinatoError as error:
        return {"sentence": "", "times": [], "zone": None, "wrong": str(error)}
    except ValidationError as error:
        return {"sentence": "", "times": [], "zone": None, "wrong": refused(error.errors()).detail}
    return {"sentence": found.description, "times": found.times, "zone": found.timezone, "wrong": ""}


ROUTES: Final = (
    get(NEW, new, Role.ADMIN),
    post(NEW, make, Role.ADMIN),
    get("/jobs/preview", preview),
    get("/jobs/arguments", show_arguments, Role.ADMIN),
    get("/jobs/{id}/edit", edit, Role.ADMIN),
    post("/jobs/{id}/edit", change, Role.ADMIN),
)

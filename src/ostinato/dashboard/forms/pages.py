"""Pages that create and edit jobs, and the parts that the form loads during typing."""

from typing import Any, Final

from pydantic import ValidationError
from starlette.responses import HTMLResponse, Response

from ostinato.core.access import Role
from ostinato.core.errors import OstinatoError, Stale
from ostinato.core.zones import zone_names
from ostinato.dashboard.forms import diff, job
from ostinato.dashboard.forms.arguments import Arguments
from ostinato.dashboard.forms.editing import JobEditing, answer_of, args_of, body_context, texts_of
from ostinato.dashboard.forms.errors import with_error
from ostinato.dashboard.forms.fields import Form, typed
from ostinato.dashboard.page_request import PageRequest
from ostinato.dashboard.routes import get, post
from ostinato.service import JobView
from ostinato.service.allowance import allowance
from ostinato.shapes import job_body
from ostinato.shapes.errors import refused
from ostinato.shapes.job_body import JobBody
from ostinato.shapes.previews import PreviewBody, previewed

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
        editing = JobEditing.of(visit, view, texts)
        lines = editing.lines
        if texts.get("version") != str(view.facts.version):
            raise Stale(
                f"This job was changed during your edit; its version is now {view.facts.version}. Your values are still"
                " here. Review how they would change the new version."
            )
        if not lines or texts.get("reviewed") != diff.digest(lines):
            return _form(visit, texts, view=view, lines=lines)
        editing.save()
    except (OstinatoError, ValidationError) as error:
        return _form(visit, texts, error, view=view, lines=lines)
    saved, message = visit.service.jobs.get(view.id), f"Saved: {', '.join(line.name for line in lines)}."
    return visit.redirect(f"/jobs/{view.id}", message, visit.service.jobs.secrets(saved), [saved.task])


# -- during typing


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
    lines: list[diff.DiffLine] | None = None,
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
        digest=diff.digest(lines or []),
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

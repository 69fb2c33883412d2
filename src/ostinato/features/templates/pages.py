"""Job templates: the list, and a form that creates a job from a template."""

from typing import Final

from pydantic import ValidationError
from starlette.responses import Response

from ostinato.core.access import Role
from ostinato.core.errors import OstinatoError
from ostinato.dashboard.forms import job
from ostinato.dashboard.forms.fields import Form, typed
from ostinato.dashboard.forms.job import Arguments
from ostinato.dashboard.forms.pages import body_context
from ostinato.dashboard.page_request import PageRequest, WrongFields, get, post, with_error
from ostinato.features.templates.service import TemplateService, TemplateView
from ostinato.features.templates.shapes import TemplateAnswer, definition_of

JOB_FIELDS: Final = {name: job.FIELDS[name] for name in ("name", "schedule", "timezone", "key", "queue", "tags")}


def show_all(visit: PageRequest) -> Response:
    return visit.page("templates.html", views=visit.part(TemplateService).list())


def show(visit: PageRequest) -> Response:
    return _page(visit, visit.part(TemplateService).get(visit.path_param("name")), {})


def use(visit: PageRequest) -> Response:
    """Create a job from a template, or show the form with its errors."""
    view, texts = visit.part(TemplateService).get(visit.path_param("name")), typed(visit.form, visit.form)
    try:
        arguments = Arguments.of_schema(TemplateAnswer.of(view).args)
        params = arguments.read(texts)
        if flaws := arguments.flaws(params):
            raise WrongFields(flaws)
        over = job.new_body({name: texts.get(name, "") for name in JOB_FIELDS})
        definition = definition_of(
            visit.part(TemplateService).body(view.template.name, params, over), body_context(visit)
        )
        made, is_new = visit.service.jobs.make(definition, by=visit.by)
    except (OstinatoError, ValidationError) as error:
        return _page(visit, view, texts, error)
    message = "The job is created." if is_new else f"A job with the key {made.key} exists already: this one."
    return visit.redirect(f"/jobs/{made.id}", message, visit.service.jobs.secrets(made), [made.task])


def _page(
    visit: PageRequest,
    view: TemplateView,
    texts: dict[str, str],
    error: OstinatoError | ValidationError | None = None,
) -> Response:
    answer = TemplateAnswer.of(view)
    arguments = Arguments.of_schema(answer.args)
    form = Form({**arguments.fields, **JOB_FIELDS}, texts)
    if error is not None:
        visit, form = with_error(visit, "template", form, error)
    return visit.page("one_template.html", answer=answer, form=form, otherwise=JOB_FIELDS)


ROUTES: Final = (
    get("/templates", show_all),
    get("/templates/{name}", show),
    post("/templates/{name}/jobs", use, Role.ADMIN),
)

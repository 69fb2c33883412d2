"""Sources: the list, one with its records and runs, and a form that can test the first page before it is saved."""

from typing import Any, Final

from starlette.responses import Response

from ostinato.core.access import Role
from ostinato.core.auth import references
from ostinato.core.errors import Conflict, Invalid, OstinatoError
from ostinato.dashboard.charts import Bar
from ostinato.dashboard.forms import fields
from ostinato.dashboard.forms.fields import Form, typed
from ostinato.dashboard.page_request import PageRequest, get, post, with_error
from ostinato.features.sources import form as source_form
from ostinato.features.sources.service import SourceContext, SourceService, SourceView
from ostinato.features.sources.shapes import TriedAnswer
from ostinato.service.views import ExecutionView
from ostinato.shapes.base import WrongField

RECORDS: Final = 20
RUNS: Final = 10
STATES: Final = 20  # parts
MOST_ASKED: Final = 100
SHOWN_ROWS: Final = 25  # rows of a test fetch
CHANGES: Final = (("completed", "inserted"), ("running", "updated"), ("failed", "deleted"))  # their colours


# -- lists


def list_sources(visit: PageRequest) -> Response:
    """Show all sources; the first `MOST_ASKED` with the rows that their last run has added."""
    found = visit.part(SourceService).list()
    newest = {view.name: visit.service.executions.list(view.job.id, limit=1) for view in found[:MOST_ASKED]}
    rows = {name: runs[0].items_indexed for name, runs in newest.items() if runs}
    return visit.page("sources.html", sources=found, rows=rows)


def show(visit: PageRequest) -> Response:
    view = visit.part(SourceService).get(visit.path_param("name"))
    records, trouble = list[dict[str, Any]](), ""
    try:
        records = list(visit.part(SourceService).records(view.name, RECORDS))
    except OstinatoError as error:  # this process may not reach the database of the source
        trouble = str(error)
    runs = visit.service.executions.list(view.job.id, limit=RUNS)
    return visit.page(
        "source.html",
        view=view,
        states=visit.part(SourceService).states(view.name, limit=STATES),
        changes=[_bar_of(run) for run in reversed(runs)],
        kinds=CHANGES,
        columns=list(records[0]) if records else [],
        records=records,
        records_trouble=trouble,
        runs=runs,
    )


def _bar_of(run: ExecutionView) -> Bar:
    """Return the changes of a run as a bar."""
    counted = dict(run.counters or {})
    parts = [(kind, counted.get(word, 0)) for kind, word in CHANGES]
    told = ", ".join(f"{int(counted.get(word, 0)):,} {word}" for _, word in CHANGES)
    return Bar(parts, f"#{run.number}: {told}", is_known=bool(run.counters))


# -- actions


def run(visit: PageRequest) -> Response:
    view = visit.part(SourceService).run(visit.path_param("name"), by=visit.by)
    return visit.redirect(f"/sources/{view.name}", "The source runs as soon as a worker is free.")


def delete(visit: PageRequest) -> Response:
    name, with_data = visit.path_param("name"), bool(visit.form.get("with_data"))
    rows = visit.part(SourceService).delete(name, with_data=with_data, by=visit.by)
    message = f", with {rows:,} rows" if with_data else "; its rows stay"
    return visit.redirect("/sources", f"The source {name} is deleted{message}.")


# -- the form


def new(visit: PageRequest) -> Response:
    texts = dict(source_form.BEGINNING)
    if like := visit.query.get("like"):
        texts = source_form.texts_of(visit.part(SourceService).get(like).written) | {"name": ""}
    return _form(visit, texts)


def make(visit: PageRequest) -> Response:
    """Create the source, or fetch one page of it as a test."""
    texts, tried = typed(visit.form, visit.form), None
    try:
        definition = source_form.definition_of(texts)
        if visit.form.get("do") == "test":
            tried = TriedAnswer.of(visit.part(SourceService).test(definition, _here(visit)))
        elif visit.form.get("do") == "save":
            view = visit.part(SourceService).create(definition, _here(visit), by=visit.by)
            message = "The source is created. Its first run starts at once."
            return visit.redirect(f"/sources/{view.name}", message, references(view.written))
    except OstinatoError as error:
        return _form(visit, texts, error)
    return _form(visit, texts, tried=tried)


def edit(visit: PageRequest) -> Response:
    view = visit.part(SourceService).get(visit.path_param("name"))
    return _form(visit, source_form.texts_of(view.written), view=view)


def change(visit: PageRequest) -> Response:
    """Show the changes or a test; save the changes if the visitor has reviewed exactly these."""
    view, texts = visit.part(SourceService).get(visit.path_param("name")), typed(visit.form, visit.form)
    tried, lines = None, None
    try:
        definition = source_form.definition_of({**texts, "name": view.name}, view.written)
        if visit.form.get("do") == "test":
            tried = TriedAnswer.of(visit.part(SourceService).test(definition, _here(visit)))
        elif visit.form.get("do") in ("review", "save"):
            visit.part(SourceService).plan([definition], _here(visit))  # Invalid if the definition has an error
            lines = fields.changes(_words(view.written, definition), _words(definition, view.written))
            if lines and texts.get("reviewed") == fields.digest(lines):
                visit.part(SourceService).replace(view.name, definition, _here(visit), by=visit.by)
                return visit.redirect(f"/sources/{view.name}", "The source is saved.", references(definition))
    except OstinatoError as error:
        return _form(visit, texts, error, view=view, lines=lines)
    return _form(visit, texts, view=view, tried=tried, lines=lines)


def _words(definition: Any, other: Any) -> dict[str, Any]:
    """Return the definition with all names of both."""
    return {name: definition.get(name) for name in dict.fromkeys([*definition, *other])}


def _here(visit: PageRequest) -> SourceContext:
    settings = visit.site.settings
    return SourceContext(settings.timezone, settings.permits)


def _form(
    visit: PageRequest,
    texts: dict[str, str],
    error: OstinatoError | None = None,
    *,
    view: SourceView | None = None,
    tried: TriedAnswer | None = None,
    lines: list[fields.DiffLine] | None = None,
) -> Response:
    form = Form(source_form.FIELDS, texts)
    if error is not None:
        visit, form = with_error(visit, "source", form, _in_its_field(view, error))
    return visit.page(
        "source_form.html",
        form=form,
        view=view,
        tried=tried,
        shown=SHOWN_ROWS,
        lines=lines,
        digest=fields.digest(lines or []),
        groups=source_form.GROUPS,
    )


def _in_its_field(view: SourceView | None, error: OstinatoError) -> OstinatoError:
    """Attach an error that begins with a field's name to that field."""
    if isinstance(error, Conflict) and view is None:
        return WrongField("name", str(error))
    if not isinstance(error, Invalid) or isinstance(error, WrongField):
        return error
    sentence = str(error) if view is None else str(error).removeprefix(f"{view.name}: ")
    place = fields.PLACE.match(sentence)
    field = "" if place is None else place[1].replace("[", ".").replace("]", "")
    return WrongField(field, sentence) if _is_ours(field) else Invalid(sentence)


def _is_ours(field: str) -> bool:
    known = source_form.FIELDS
    return any(name == field or field.startswith(f"{name}.") or name.startswith(f"{field}.") for name in known)


ROUTES: Final = (
    get("/sources", list_sources),
    get("/sources/new", new, Role.ADMIN),
    post("/sources/new", make, Role.ADMIN),
    get("/sources/{name}", show),
    post("/sources/{name}/run", run, Role.OPERATOR),
    post("/sources/{name}/delete", delete, Role.ADMIN),
    get("/sources/{name}/edit", edit, Role.ADMIN),
    post("/sources/{name}/edit", change, Role.ADMIN),
)

"""Errors of a form: beside their fields, or above the form."""

from collections.abc import Mapping
from dataclasses import replace

from pydantic import ValidationError

from ostinato.core.errors import Invalid, OstinatoError, UnknownTask
from ostinato.dashboard.forms.fields import Form
from ostinato.dashboard.page_request import PageRequest, Trouble
from ostinato.shapes.errors import refused


class WrongFields(Invalid):
    """Several fields are wrong."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        super().__init__(" ".join(fields.values()))
        self.fields = fields


def with_error(
    visit: PageRequest, where: str, form: Form, error: OstinatoError | ValidationError
) -> tuple[PageRequest, Form]:
    """Add an error to the request and the form: beside its fields, or above the form."""
    trouble = _trouble(error)
    errors = trouble.fields or {"": trouble.sentence}
    above = form.unplaced(errors)
    marked = form.wrong(errors)
    if len(above) < len(errors):
        above.insert(0, "Nothing was saved. Correct the marked fields.")
    return visit.with_error(where, replace(trouble, sentence=" ".join(above), fields=marked.errors)), marked


def _trouble(error: OstinatoError | ValidationError) -> Trouble:
    match error:
        case ValidationError():
            return Trouble.from_answer(refused(error.errors()))
        case WrongFields():
            return Trouble(str(error), 422, error.fields)
        case UnknownTask():
            return Trouble(str(error), 422, {"task": str(error)})
        case _:
            return Trouble.of(error)

"""Commands and questions about job templates: the shipped ones and those of users."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from ostinato.core.auth import check_no_credentials
from ostinato.core.errors import Conflict, NotFound
from ostinato.core.payload import decode, encode
from ostinato.features.templates.rows import TemplateRow, Templates
from ostinato.features.templates.rules import Template, parameters_json, read_template, shipped
from ostinato.service import Service


@dataclass(frozen=True, slots=True)
class TemplateView:
    """A template and its origin."""

    template: Template
    built_in: bool
    updated_at: datetime | None = None
    updated_by: str = ""

    @property
    def parameters(self) -> list[dict[str, Any]]:
        """The parameters as JSON."""
        return parameters_json(self.template)


class TemplateService:
    """Commands and questions about templates."""

    def __init__(self, service: Service) -> None:
        self._rows, self._clock, self._known = service.store.part(Templates), service.clock, service.known

    @cached_property
    def _shipped(self) -> dict[str, Template]:
        return shipped()

    def list(self) -> list[TemplateView]:
        """List the templates, by name."""
        ours = [TemplateView(each, built_in=True) for each in self._shipped.values()]
        theirs = [_view(row) for row in self._rows.list()]
        return sorted([*ours, *theirs], key=lambda view: view.template.name)

    def get(self, name: str) -> TemplateView:
        if name in self._shipped:
            return TemplateView(self._shipped[name], built_in=True)
        row = self._rows.get(name)
        if row is None:
            raise NotFound(f"There is no template {name[:100]!r}.")
        return _view(row)

    def save(self, given: Mapping[str, Any], *, by: str = "", new: bool = False) -> TemplateView:
        """Create a template, or change the one of that name; `new`: Conflict if there is one."""
        template = read_template(dict(given))
        self._refuse_ours(template.name)
        if self._known.has_built_in(str(template.usual.get("task"))):
            check_no_credentials(template.usual.get("args"), "job.args", self._known.features.holders)
        now = self._clock.now()
        parameters = encode(parameters_json(template), "parameters")
        row = TemplateRow(template.name, template.description, parameters, encode(template.job, "job"), now, now, by)
        return _view(self._rows.save(row, new=new))

    def delete(self, name: str, *, by: str = "") -> None:
        """Delete a template; jobs made from it stay as they are."""
        self._refuse_ours(name)
        self._rows.delete(name, self._clock.now(), by)

    def body(self, name: str, params: Mapping[str, Any], over: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the body of a job, filled in; `over`: further fields of this job."""
        return self.get(name).template.body(params, over)

    def _refuse_ours(self, name: str) -> None:
        if name in self._shipped:
            raise Conflict(f"The template {name} is built in: choose another name.")


def _view(row: TemplateRow) -> TemplateView:
    template = read_template(
        {
            "name": row.name,
            "description": row.description,
            "parameters": decode(row.parameters, "parameters"),
            "job": decode(row.body, "job"),
        }
    )
    return TemplateView(template, False, row.updated_at, row.updated_by)

"""Shapes of one action for many jobs: the request, and a result for each job."""

from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field, WithJsonSchema

from ostinato.core.arguments import read, schema
from ostinato.core.read_models import JobFilter
from ostinato.shapes.answers import JsonObject
from ostinato.shapes.base import RequestBody, Text, WrongField
from ostinato.shapes.queries import Chosen

MOST_JOBS = 1000

Action = Literal["pause", "resume", "cancel", "delete", "retry", "run", "restart"]


FILTER: Final = schema(Chosen)


def _either(schema: dict[str, Any]) -> None:
    """Document that either ids or a filter is required, and that the filter must not be empty."""
    ids, chosen = schema["properties"]["ids"]["anyOf"][0], schema["properties"]["filter"]["anyOf"][0]
    says = [{"required": [name], "properties": {name: {"not": {"enum": [None]}}}} for name in FILTER["properties"]]
    schema["oneOf"] = [
        {"required": ["ids"], "properties": {"ids": ids, "filter": {"enum": [None]}}},
        {
            "required": ["filter"],
            "properties": {"filter": {"allOf": [chosen, {"anyOf": says}]}, "ids": {"enum": [None]}},
        },
    ]


class BulkBody(RequestBody):
    """An action, and its jobs by id (or key) or by a filter; at most 1,000 jobs."""

    model_config = ConfigDict(json_schema_extra=_either)

    action: Action
    ids: Annotated[list[Text], Field(max_length=MOST_JOBS)] | None = None
    filter: Annotated[dict[str, Any], WithJsonSchema(FILTER)] | None = None

    def check(self) -> None:
        if (self.ids is None) == (self.filter is None):
            raise WrongField("ids", "Say which jobs: either ids, or a filter.")
        if self.filter is not None and not any(value is not None for value in self.filter.values()):
            raise WrongField("filter", "An empty filter would match every job: give a condition.")

    @property
    def chosen(self) -> JobFilter | None:
        """The filter, read; None for jobs by id."""
        return None if self.filter is None else read(Chosen, self.filter, "filter").filter()


class BulkResult(JsonObject):
    """The result for one job."""

    id: str
    ok: bool
    status_code: int
    detail: str | None


class BulkAnswer(JsonObject):
    """The results for all jobs. `remaining` counts further jobs that match the filter: repeat the request for them."""

    action: Action
    succeeded: int
    failed: int
    remaining: int
    results: list[BulkResult]

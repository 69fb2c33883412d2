"""Job templates of users, as rows."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ostinato.core.errors import Conflict, NotFound
from ostinato.core.model import Event, Json
from ostinato.store import rows
from ostinato.store.database import Tx
from ostinato.store.store import Store

MOST_TEMPLATES: Final = 1000


@dataclass(frozen=True, slots=True)
class TemplateRow:
    """One template; `parameters` and `body` are JSON."""

    name: str
    description: str
    parameters: Json
    body: Json
    created_at: datetime
    updated_at: datetime
    updated_by: str


TEMPLATE: Final = rows.Shape(TemplateRow)


class Templates:
    """Table of templates."""

    def __init__(self, store: Store) -> None:
        self._database, self._chance = store.database, store.chance

    def save(self, template: TemplateRow, *, new: bool = False) -> TemplateRow:
        """Save a template, replacing one of the same name; with `new`, raise Conflict if it exists."""
        with self._database.write() as tx:
            if tx.row("get_template", name=template.name) is None:
                self._refuse_too_many(tx)
            done = tx.run(
                "add_template" if new else "save_template",
                name=template.name, description=template.description, parameters=template.parameters,
                body=template.body, now=template.updated_at, by=template.updated_by,
            )  # fmt: skip
            if not done:
                raise Conflict(f"There is a template {template.name} already: change it, or choose another name.")
            self._tell(tx, "template.saved", template.name, template.updated_at, template.updated_by)
            row = tx.row("get_template", name=template.name)
        assert row is not None
        return TEMPLATE.of(row)

    def get(self, name: str) -> TemplateRow | None:
        with self._database.read() as tx:
            row = tx.row("get_template", name=name)
        return None if row is None else TEMPLATE.of(row)

    def list(self) -> list[TemplateRow]:
        """List all templates by name."""
        with self._database.read() as tx:
            return [TEMPLATE.of(row) for row in tx.rows("list_templates")]

    def delete(self, name: str, now: datetime, by: str) -> None:
        with self._database.write() as tx:
            if not tx.run("delete_template", name=name):
                raise NotFound(f"There is no template {name!r}.")
            self._tell(tx, "template.deleted", name, now, by)

    def _refuse_too_many(self, tx: Tx) -> None:
        row = tx.row("count_templates")
        if row is not None and row[0] >= MOST_TEMPLATES:
            raise Conflict(f"There are {MOST_TEMPLATES} templates already; delete some.")

    def _tell(self, tx: Tx, kind: str, name: str, at: datetime, by: str) -> None:
        data = json.dumps({"template": name})
        tx.run("insert_events", [rows.EVENT.row(Event(self._chance.id(at), at, kind, by=by, data=data))])

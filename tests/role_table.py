"""The least role of every route, and real things for the ids in its path."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from ostinato import Ostinato
from ostinato.core.access import Role
from ostinato.core.model import Job
from ostinato.core.outcome import OutcomeKind
from ostinato.features.workflows.service import WorkflowService
from tests.dashboard.conftest import Visitor
from tests.features.crawling.test_pages import Library, a_page
from tests.sources import a_source

OPEN = "open"

# One line per route: a route that is not here, or is here and nowhere else, fails tests/rest/test_roles.py.
TABLE = """
open      GET    /healthz
open      GET    /readyz
viewer    GET    /metrics
viewer    GET    /openapi.json
viewer    GET    /docs
viewer    GET    /docs/begin.js
viewer    GET    /docs/openapi.json
viewer    GET    /docs/{name}
admin     POST   /api/v1/jobs
viewer    GET    /api/v1/jobs
viewer    GET    /api/v1/jobs/status-counts
operator  POST   /api/v1/jobs/bulk
viewer    GET    /api/v1/jobs/{id}
admin     PATCH  /api/v1/jobs/{id}
admin     PUT    /api/v1/jobs/{id}
admin     DELETE /api/v1/jobs/{id}
viewer    GET    /api/v1/jobs/{id}/next
viewer    GET    /api/v1/jobs/{id}/skips
viewer    GET    /api/v1/jobs/{id}/why
viewer    GET    /api/v1/jobs/{id}/executions
viewer    GET    /api/v1/jobs/{id}/stats
operator  POST   /api/v1/jobs/{id}/pause
operator  POST   /api/v1/jobs/{id}/resume
operator  POST   /api/v1/jobs/{id}/cancel
operator  POST   /api/v1/jobs/{id}/retry
operator  POST   /api/v1/jobs/{id}/run
operator  POST   /api/v1/jobs/{id}/restart
viewer    GET    /api/v1/declined
admin     POST   /api/v1/declined/redeclare
viewer    GET    /api/v1/executions
viewer    GET    /api/v1/executions/{id}
viewer    GET    /api/v1/executions/{id}/log
viewer    GET    /api/v1/executions/{id}/steps
operator  POST   /api/v1/executions/{id}/cancel
operator  POST   /api/v1/executions/{id}/release
viewer    GET    /api/v1/schedules
viewer    GET    /api/v1/schedules/
admin     POST   /api/v1/schedules
admin     POST   /api/v1/schedules/
admin     POST   /api/v1/schedules/batch-delete
admin     POST   /api/v1/schedules/batch-delete/
viewer    GET    /api/v1/schedules/{id}
viewer    GET    /api/v1/schedules/{id}/
admin     PATCH  /api/v1/schedules/{id}
admin     PATCH  /api/v1/schedules/{id}/
admin     DELETE /api/v1/schedules/{id}
admin     DELETE /api/v1/schedules/{id}/
operator  POST   /api/v1/schedules/{id}/pause
operator  POST   /api/v1/schedules/{id}/pause/
operator  POST   /api/v1/schedules/{id}/resume
operator  POST   /api/v1/schedules/{id}/resume/
operator  POST   /api/v1/schedules/{id}/restart
operator  POST   /api/v1/schedules/{id}/restart/
viewer    GET    /api/v1/scheduler/metrics
viewer    POST   /api/v1/preview
viewer    GET    /api/v1/workers
operator  POST   /api/v1/workers/{id}/drain
viewer    GET    /api/v1/queues
operator  POST   /api/v1/queues/{name}/pause
operator  POST   /api/v1/queues/{name}/resume
admin     PATCH  /api/v1/queues/{name}
viewer    GET    /api/v1/tasks
viewer    GET    /api/v1/tasks/{name}
viewer    GET    /api/v1/templates
admin     POST   /api/v1/templates
viewer    GET    /api/v1/templates/{name}
admin     PUT    /api/v1/templates/{name}
admin     DELETE /api/v1/templates/{name}
admin     POST   /api/v1/templates/{name}/jobs
admin     POST   /api/v1/keys
admin     GET    /api/v1/keys
admin     DELETE /api/v1/keys/{id}
admin     POST   /api/v1/access/end
admin     POST   /api/v1/hooks
admin     GET    /api/v1/hooks
admin     GET    /api/v1/hooks/{id}
admin     DELETE /api/v1/hooks/{id}
admin     POST   /api/v1/hooks/{id}/test
admin     GET    /api/v1/hooks/{id}/deliveries
viewer    GET    /api/v1/providers
admin     POST   /api/v1/providers
viewer    GET    /api/v1/providers/{domain}
admin     PUT    /api/v1/providers/{domain}
admin     DELETE /api/v1/providers/{domain}
viewer    GET    /api/v1/pages
viewer    GET    /api/v1/pages/{id}
viewer    GET    /api/v1/events
viewer    GET    /api/v1/imports
admin     POST   /api/v1/imports/{name}
admin     POST   /api/v1/imports/{name}/undo
admin     POST   /api/v1/workflows
viewer    GET    /api/v1/workflows
viewer    GET    /api/v1/workflows/{id}
admin     PUT    /api/v1/workflows/{id}
admin     DELETE /api/v1/workflows/{id}
operator  POST   /api/v1/workflows/{id}/run
operator  POST   /api/v1/triggers/{kind}
admin     POST   /api/v1/sources
viewer    GET    /api/v1/sources
admin     POST   /api/v1/sources/test
admin     POST   /api/v1/sources/apply
viewer    GET    /api/v1/sources/{name}
admin     PUT    /api/v1/sources/{name}
admin     PATCH  /api/v1/sources/{name}
admin     DELETE /api/v1/sources/{name}
operator  POST   /api/v1/sources/{name}/run
viewer    GET    /api/v1/sources/{name}/records
viewer    GET    /api/v1/sources/{name}/state
admin     PUT    /api/v1/sources/{name}/state
admin     DELETE /api/v1/sources/{name}/state
open      GET    /static/{name}
open      GET    /login
open      POST   /login
open      POST   /logout
viewer    GET    /
viewer    GET    /jobs
admin     GET    /jobs/new
admin     POST   /jobs/new
viewer    GET    /jobs/preview
admin     GET    /jobs/arguments
operator  POST   /jobs/bulk
operator  POST   /jobs/bulk/sure
viewer    GET    /jobs/{id}
admin     GET    /jobs/{id}/edit
admin     POST   /jobs/{id}/edit
operator  POST   /jobs/{id}/run
operator  POST   /jobs/{id}/retry
operator  POST   /jobs/{id}/restart
operator  POST   /jobs/{id}/pause
operator  POST   /jobs/{id}/resume
operator  POST   /jobs/{id}/cancel
admin     POST   /jobs/{id}/delete
viewer    GET    /executions
viewer    GET    /executions/{id}
operator  POST   /executions/{id}/cancel
operator  POST   /executions/{id}/release
operator  POST   /executions/{id}/run
viewer    GET    /calendar
viewer    GET    /sources
admin     GET    /sources/new
admin     POST   /sources/new
viewer    GET    /sources/{name}
operator  POST   /sources/{name}/run
admin     POST   /sources/{name}/delete
admin     GET    /sources/{name}/edit
admin     POST   /sources/{name}/edit
viewer    GET    /pages
viewer    GET    /pages/{id}
viewer    GET    /workflows
admin     GET    /workflows/new
admin     POST   /workflows/new
viewer    GET    /workflows/{id}
operator  POST   /workflows/{id}/run
admin     POST   /workflows/{id}/delete
admin     GET    /workflows/{id}/edit
admin     POST   /workflows/{id}/edit
viewer    GET    /providers
admin     POST   /providers
admin     POST   /providers/{domain}/delete
viewer    GET    /templates
viewer    GET    /templates/{name}
admin     POST   /templates/{name}/jobs
viewer    GET    /workers
operator  POST   /workers/{id}/drain
operator  POST   /queues/{name}/pause
operator  POST   /queues/{name}/resume
viewer    GET    /events
viewer    GET    /settings
admin     POST   /settings/keys
admin     POST   /settings/keys/{id}/revoke
admin     POST   /settings/access/end
"""

Route = tuple[str, str]  # method, path


def table() -> dict[Route, str]:
    rows = [line.split() for line in TABLE.strip().splitlines()]
    found = {(method, path): role for role, method, path in rows}
    assert len(found) == len(rows), "a route stands there twice"
    return found


class Things:
    """Something real for every id of a path; new for each request, since some requests delete it."""

    def __init__(self, app: Ostinato) -> None:
        app.register("fine", lambda: None)
        self.app, self.service, self._names = app, app.scheduler, (f"name{n}" for n in count(1))
        self.busy = Library(Visitor(app))
        self.busy.keep(a_page(text="lamp"))
        self.page = self.busy.name("lamp")

    def path(self, route: Route) -> str:
        """The path with ids of things that exist."""
        _, path = route
        words = path.removeprefix("/api/v1").strip("/").split("/")
        if "{" not in path:
            return path
        place = next(n for n, word in enumerate(words) if word.startswith("{"))
        made = getattr(self, f"a_{words[place - 1]}".replace("/", "_"))(words[place + 1 :])
        return path.replace(words[place], str(made))

    def a_jobs(self, _: object = None) -> str:
        return str(self._job().id)

    def _job(self) -> Job:
        return self.busy.add(key=None, task="fine", name=next(self._names))

    def a_schedules(self, _: object = None) -> str:
        return self.a_jobs()

    def a_executions(self, then: list[str]) -> str:
        if then == ["steps"]:
            workflow = self.a_workflows()
            run = self.service.part(WorkflowService).run(int(workflow))
            return str(run.lives[0].id)
        job = self._job()
        if then[:1] in (["cancel"], ["release"]):
            return str(self.busy.run(job).id)
        return str(self.busy.ended(job, 1, OutcomeKind.COMPLETED).id)

    def a_workers(self, _: object = None) -> str:
        return str(self.busy.worker.id)

    def a_queues(self, _: object = None) -> str:
        return self.busy.queue

    def a_tasks(self, _: object = None) -> str:
        return "fine"

    def a_docs(self, _: object = None) -> str:
        return "swagger-ui.css"

    def a_triggers(self, _: object = None) -> str:
        return "payment.made"

    def a_pages(self, _: object = None) -> str:
        return self.page

    def a_keys(self, _: object = None) -> str:
        return str(self.service.keys.create(next(self._names), Role.VIEWER).row.id)

    def a_hooks(self, _: object = None) -> str:
        return self._made("/hooks", HOOK)["id"]

    def a_providers(self, _: object = None) -> str:
        return self._made("/providers", self.provider())["domain"]

    def a_templates(self, _: object = None) -> str:
        return self._made("/templates", self.template())["name"]

    def a_workflows(self, _: object = None) -> str:
        return str(self._made("/workflows", self.workflow())["id"])

    def a_imports(self, then: list[str]) -> str:
        name = next(self._names)
        if then:
            answer = self.admin.post(
                f"/api/v1/imports/{name}", json={"kind": "x", "jobs": [{"ref": "1", "job": EVERY}]}
            )
            assert answer.status_code == 200, answer.text
        return name

    def a_sources(self, _: object = None) -> str:
        return self._made("/sources", self.source())["name"]

    def _made(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = self.admin.post(f"/api/v1{path}", json=body)
        assert answer.status_code == 201, answer.text
        return answer.json()

    # -- bodies

    def provider(self) -> dict[str, Any]:
        return {"domain": f"{next(self._names)}.example.org", "limit": 60, "period": "1m"}

    def template(self) -> dict[str, Any]:
        return {"name": next(self._names), "job": {"task": "fine", "schedule": {"every": "1h"}}}

    def workflow(self) -> dict[str, Any]:
        nodes = [{"id": "t", "type": "trigger_schedule"}, {"id": "n", "task": "fine", "after": ["t"]}]
        return {"name": next(self._names), "nodes": nodes}

    def source(self) -> dict[str, Any]:
        name = next(self._names)
        return a_source(name=name, table=name, incremental={"cursor": "day", "startParam": "since"})

    def body(self, route: Route) -> Any:
        """What the API is sent: a body that is right for the route, or None."""
        method, path = route
        make = BODIES.get(f"{method} {path.removeprefix('/api/v1').rstrip('/')}")
        return None if make is None else make(self)

    def declined(self) -> str:
        """The key of a declared job that was deleted."""
        key = next(self._names)
        self.app.register(key, lambda: None)
        self.app.schedule(self.app.call(key), every="1h", key=key)
        self.app.apply_declarations()
        self.service.jobs.delete(key)
        return key


EVERY = {"task": "fine", "schedule": {"every": "1h"}}
ANOTHER = {"description": "another"}
HOOK = {"url": "https://hooks.example.org/1", "kinds": ["failure"]}
BODIES: dict[str, Callable[[Things], Any]] = {
    "POST /jobs": lambda _: EVERY,
    "PATCH /jobs/{id}": lambda _: ANOTHER,
    "PUT /jobs/{id}": lambda _: ANOTHER,
    "POST /jobs/bulk": lambda things: {"action": "pause", "ids": [things.a_jobs()]},
    "POST /schedules": lambda things: {
        "name": "x",
        "workflow_id": int(things.a_workflows()),
        "interval_seconds": 60,
    },
    "POST /schedules/batch-delete": lambda things: {"schedule_ids": [things.a_jobs()]},
    "PATCH /schedules/{id}": lambda _: ANOTHER,
    "POST /declined/redeclare": lambda things: {"key": things.declined()},
    "POST /preview": lambda _: {"schedule": {"every": "1h"}},
    "PATCH /queues/{name}": lambda _: {"max_queued": 10},
    "POST /templates": Things.template,
    "PUT /templates/{name}": lambda _: {"job": EVERY},
    "POST /templates/{name}/jobs": lambda _: {"params": {}},
    "POST /imports/{name}": lambda _: {"kind": "crontab", "dry_run": True, "jobs": [{"ref": "1", "job": EVERY}]},
    "POST /keys": lambda _: {"name": "x", "role": "viewer"},
    "POST /access/end": lambda _: {"name": "ann"},
    "POST /hooks": lambda _: HOOK,
    "POST /providers": Things.provider,
    "PUT /providers/{domain}": lambda _: {"limit": 5, "period": "1m"},
    "POST /workflows": Things.workflow,
    "PUT /workflows/{id}": lambda _: ANOTHER,
    "POST /triggers/{kind}": lambda _: {"amount": 1},
    "POST /sources": Things.source,
    "POST /sources/test": lambda _: a_source(url="http://127.0.0.1:9/"),  # refused: nothing is called
    "POST /sources/apply": lambda things: {"sources": [things.source()]},
    "PUT /sources/{name}": Things.source,
    "PATCH /sources/{name}": lambda _: ANOTHER,
    "PUT /sources/{name}/state": lambda _: {"cursor": "2026-01-01"},
}

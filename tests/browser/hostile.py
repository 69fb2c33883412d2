"""An app whose every word is hostile, a server that has it all, and every page of the site."""

from __future__ import annotations

from html import escape
from typing import Any
from urllib.parse import quote

from ostinato.dashboard.app import routes_of
from ostinato.feature import our_features
from tests.browser.place import Place
from tests.browser.small_site import a_small_site
from tests.waiting import eventually

HOSTILE = "\"'><script>window.hacked=1;alert(1)</script><img src=x onerror=window.hacked=1>{{7*7}}"

TASKS = f"""
import asyncio
from ostinato import Context, Ostinato

HOSTILE = {HOSTILE!r}
app = Ostinato("shop <b>bold</b>")

class Hostile(Exception):
    pass

@app.task
def evil(ctx: Context, **args) -> dict:
    ctx.log.warning(HOSTILE, field=HOSTILE)
    print(HOSTILE)
    ctx.progress(1, 2, message=HOSTILE)
    return {{HOSTILE: [HOSTILE]}}

@app.task
def fails(**args) -> None:
    raise Hostile(HOSTILE)

@app.task
async def holds(ctx: Context, **args) -> None:
    ctx.progress(1, 2, message=HOSTILE)
    await asyncio.Event().wait()
"""


class HostilePlace(Place):
    """A place where everything that can be text is hostile."""

    APP = TASKS
    further: list[str]

    def fill(self) -> dict[str, str]:
        """One of everything, and the id of each for the addresses of pages: by the beginning of the path."""
        said: dict[str, Any] = {
            "name": HOSTILE, "description": HOSTILE, "owner": HOSTILE, "tags": [HOSTILE[:100]],
            "metadata": {HOSTILE: HOSTILE}, "args": {HOSTILE: HOSTILE},
        }  # fmt: skip
        done = self.job(task="evil", schedule="1h", first_run="now", key=HOSTILE, **said)
        failed = self.job(task="fails", max_retries=0, **said)
        running = self.job(task="holds", **said)
        self.job(task="evil", schedule="0 9 * * mon", **said | {"name": f"{HOSTILE} later"})
        assert self("POST", "/api/v1/keys", {"name": HOSTILE, "role": "viewer"}).code == 201
        assert self("PUT", "/api/v1/providers/api.example.org", {"limit": 5, "period": "1m"}).code == 201
        parameters = [{"name": "x", "type": "text", "description": HOSTILE}]
        template = {"name": "evil", "description": HOSTILE, "parameters": parameters}
        code, made = self("POST", "/api/v1/templates", {**template, "job": {"task": "evil", "name": "{{ params.x }}"}})
        assert code == 201, made
        workflow, run = self._workflow()
        source = self._source()
        crawled = self._crawled()
        ended = eventually(lambda: self._newest(done["id"], "completed"))
        broken = eventually(lambda: self._newest(failed["id"], "failed"))
        held = eventually(lambda: self._newest(running["id"], "running"))
        whole = eventually(lambda: self._newest(run, "failed"))
        self.further += [f"/executions/{each}" for each in (broken, held, whole)]
        self.further += [f"/jobs/{failed['id']}", f"/jobs?text={quote(HOSTILE)}", f"/events?job={done['id']}"]
        self.further += ["/pages?q=lamp", "/pages?q=nothing", f"/pages?q={quote(HOSTILE)}"]
        return {
            "/jobs": done["id"],
            "/executions": ended,
            "/workflows": workflow,
            "/sources": source,
            "/templates": "evil",
            "/pages": crawled,
        }

    def _workflow(self) -> tuple[str, str]:
        nodes = [
            {"id": "by_hand", "type": "trigger_manual"},
            {"id": "waits", "type": "trigger_event", "event": HOSTILE},
            {"id": "first", "task": "evil", "args": {HOSTILE: HOSTILE}, "after": ["by_hand"]},
            {"id": "second", "task": "fails", "args": {"x": HOSTILE}, "after": ["first"]},
        ]
        body = {"name": HOSTILE, "description": HOSTILE, "nodes": nodes}
        code, made = self("POST", "/api/v1/workflows", body)
        assert code == 201, made
        code, started = self("POST", f"/api/v1/workflows/{made['id']}/run", {"payload": {HOSTILE: HOSTILE}})
        assert code == 202, started
        return str(made["id"]), started["job_id"]

    def _crawled(self) -> str:
        """A page that was found by a crawl."""
        shown = escape(HOSTILE)
        page = (
            f'<title>{shown}</title><meta name="description" content="{shown}"><p>lamp {shown} \x02 {shown}</p>'
            f'<a href="/{quote(HOSTILE)}?{quote(HOSTILE)}={quote(HOSTILE)}">x</a><i>{shown}</i>'
        )
        with a_small_site({"/": page}) as url:
            args = {"url": url, "delay": 0, "extract": {"evil": "i::text"}, "user_agent": "Evil"}
            crawl = self.job(task="crawl", name=HOSTILE, args=args)
            eventually(lambda: self._newest(crawl["id"], "completed"))
        self.further = [f"/jobs/{crawl['id']}"]
        return str(self.get("/pages?q=lamp")["pages"][0]["id"])

    def _source(self) -> str:
        fields = [{"source": "a", "target": "b"}]
        body = {
            "name": "evil", "url": "https://example.org/?q=<b>", "table": "evil", "status": HOSTILE[:100],
            "description": HOSTILE, "owner": HOSTILE, "tags": [HOSTILE[:100]],
            "params": [{"name": "x", "value": HOSTILE}], "response": {"dataPath": ".", "fields": fields},
        }  # fmt: skip
        code, made = self("POST", "/api/v1/sources", body)
        assert code == 201, made
        return "evil"

    def _newest(self, job: str, state: str) -> str:
        found = self.get(f"/jobs/{job}/executions?limit=1")["executions"]
        return found[0]["id"] if found and found[0]["status"] == state else ""


def pages(ids: dict[str, str]) -> list[str]:
    """The address of every page there is: a new one is in it by itself, and fails if nobody says what stands in it."""
    found = []
    for route in routes_of(our_features()):
        if route.method != "GET" or route.path in ("/jobs/preview", "/jobs/arguments"):
            continue
        path = route.path
        if "{" in path:
            beginning = "/" + path.split("/")[1]
            path = path.replace("{id}", ids[beginning]).replace("{name}", ids[beginning])
        assert "{" not in path, path
        found.append(path)
    return found

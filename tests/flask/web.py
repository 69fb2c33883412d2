"""A Flask app that attaches itself when its module is imported; processes for runs import it, too."""

from flask import Flask, current_app, g

from ostinato import Ostinato
from ostinato.flask import attach

jobs = Ostinato("web", poll_interval="1s")
app = Flask(__name__)
app.config["NAME"] = "web"
attach(jobs, app)
torn_down: list[str] = []


@app.teardown_appcontext
def tear_down(error: BaseException | None) -> None:
    torn_down.append(type(error).__name__)


def body(fail: bool) -> list[object]:
    fresh = not hasattr(g, "used")
    g.used = True
    if fail:
        raise KeyError("gone")
    return [current_app.config["NAME"], fresh]


@jobs.task(isolation="async")
async def on_loop(fail: bool = False) -> list[object]:
    return body(fail)


@jobs.task(isolation="thread")
def on_thread(fail: bool = False) -> list[object]:
    return body(fail)


@jobs.task(isolation="process")
def in_process(fail: bool = False) -> list[object]:
    return body(fail)


@jobs.task(isolation="process")
async def async_in_process(fail: bool = False) -> list[object]:
    return body(fail)

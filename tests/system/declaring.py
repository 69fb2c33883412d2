"""A process that declares the same as others, round after round: at each line on stdin, the next one.

python declaring.py sqlite:////…
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime

from ostinato import Ostinato

PAST = datetime(2020, 1, 1, tzinfo=UTC)


def work(round: int = 0) -> int:
    return round


def an_app(url: str, number: int) -> Ostinato:
    """Each round has a new job, a new workflow, a changed job, and one that has ended and begins anew."""
    app = Ostinato("shop", database_url=url)
    task = app.task(work)
    app.schedule(task.bind(round=number), every="1h", key="changes")
    app.schedule(task, every="1h", key=f"new-{number}")
    app.schedule(task, every="1h", key="deleted", priority=1 + number % 10)
    app.schedule(task, every="1h", key="ends", **({"end_at": PAST} if number % 2 else {}))
    app.workflow(name=f"flow-{number}")(lambda flow: flow.step(task))
    app.workflow(name="flow")(lambda flow: flow.step(task, round=number))
    return app


def say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    for line in sys.stdin:
        app = an_app(sys.argv[1], int(line))
        app.open()
        say("ready")
        sys.stdin.readline()
        app.apply_declarations()
        app.close()
        say("done")

"""However long history is, a question reads little of it. Counted in rows and steps, not in seconds."""

from collections import defaultdict
from dataclasses import replace

import pytest

from ostinato.core.model import Change
from ostinato.core.outcome import OutcomeKind
from ostinato.store import rows
from ostinato.store.dialect import Statement
from tests.build import HOUR, MINUTE, NOW, SECOND, a_job, an_execution

JOBS, EACH = 100, 100
ALL = JOBS * EACH
RARE = 3  # of these jobs one, of these executions a few, are unlike the others
WALK = Statement("walk", "", "", (), {}, (), ())


@pytest.fixture
def long_history(world):
    """Ten thousand executions of a hundred jobs, minute by minute; the jobs count them rightly."""
    world.worker()
    tasks = ["rare"] + ["work"] * (JOBS - 1)
    counted = {"last_number": EACH, "last_execution_number": EACH}
    jobs = [
        a_job(task=task, completed=EACH - RARE, failed=RARE, last_due_at=NOW + EACH * MINUTE, **counted)
        for task in tasks
    ]
    world.store.jobs.add([Change(job) for job in jobs])
    for number in range(1, EACH + 1):
        at = NOW + number * MINUTE
        batch = [
            an_execution(
                job, id=world.chance.id(at), number=number, execution_number=number, due_at=at, run_at=at, queued_at=at,
                started_at=at, finished_at=at + SECOND,
                outcome=OutcomeKind.FAILED if number <= RARE else OutcomeKind.COMPLETED,
            )
            for job in jobs
        ]  # fmt: skip
        with world.store.database.write() as tx:
            tx.run("insert_executions", [rows.EXECUTION.row(row) for row in batch])
    world.sql("ANALYZE")
    world.now = NOW + EACH * MINUTE + 2 * SECOND
    return jobs


@pytest.fixture
def efforts(world, long_history, monkeypatch):
    """What each statement about executions cost since, in parts of a walk through all of them."""
    measure = _rows_read if world.on_postgres else _steps_taken
    with world.store.database.read() as tx:
        kind = type(tx)
        walk = world.store.database.dialect.statement("SELECT max(finished_at) FROM {executions} WHERE fence > 0")
        whole = measure(tx, walk, {})
    found = defaultdict(float)
    fetch = kind._fetch

    def counted(tx, statement, batch, params):
        if "executions" in statement.sql:
            found[statement.name] = max(found[statement.name], measure(tx, statement, params) / whole)
        return fetch(tx, statement, batch, params)

    monkeypatch.setattr(kind, "_fetch", counted)
    assert whole > ALL / 2
    return found


def _rows_read(tx, statement, params):
    """PostgreSQL says how many rows of the table it has looked at."""
    explain = replace(statement, name="", sql=f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {statement.sql}")
    return sum(_looked_at(row[0][0]["Plan"]) for row in tx._execute(explain, None, params).fetchall())


def _looked_at(node):
    there = 0
    if node.get("Relation Name") == "executions":
        removed = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
        there = (node["Actual Rows"] + removed) * node["Actual Loops"]
    return there + sum(map(_looked_at, node.get("Plans", ())))


def _steps_taken(tx, statement, params):
    """SQLite can be asked to report after every so many steps."""
    steps = []
    connection = tx._cursor.connection
    connection.set_progress_handler(lambda: steps.append(10) and 0, 10)
    try:
        tx._execute(statement, None, params).fetchall()
    finally:
        connection.set_progress_handler(None, 0)
    return sum(steps)


def test_no_question_walks_through_history(service, long_history, efforts):
    one = long_history[-1].id
    search = service.executions.search
    page = search(limit=10)
    search(limit=10, cursor=page.cursor)
    search(limit=10, offset=50)
    for states in (["failed"], ["cancelled"], ["running", "queued"], ["completed"]):
        search(limit=10, states=states)
        search(one, limit=10, states=states)
    for task in ("rare", "nobody"):
        search(limit=10, task=task)
    service.executions.get(page.items[0].id)
    service.jobs.stats(one)
    service.jobs.why(one)
    service.jobs.why(one, NOW + 50 * MINUTE)
    service.gauges()
    feed = service.feed()
    _, cursor = feed.since(None)
    feed.since(cursor)
    service.feed(one).since(service.feed().since(cursor)[1])
    assert len(efforts) >= 12
    assert {name: effort for name, effort in efforts.items() if effort > 0.15} == {}


def test_a_task_that_runs_often_is_found_at_once(service, long_history, efforts, monkeypatch):
    monkeypatch.setattr("ostinato.store.search.FEW", 0)
    assert service.executions.search(limit=10, task="work").total == (JOBS - 1) * EACH
    assert efforts["search_executions"] < 0.1


def test_figures_look_at_the_newest_runs_only(service, long_history, efforts, monkeypatch):
    monkeypatch.setattr("ostinato.store.statistics.NEWEST", 100)
    assert service.metrics().executions.total == ALL
    assert 0 < efforts["newest_runs"] < 0.1


def test_no_page_of_the_dashboard_walks_through_history(service, long_history, efforts, monkeypatch):
    monkeypatch.setattr("ostinato.service.dashboard.SPEAKING", 100)
    monkeypatch.setattr("ostinato.store.dashboard.MOST_COUNTED", 200)
    monkeypatch.setattr("ostinato.store.statistics.MOST_FAILURES", 100)
    monkeypatch.setattr("ostinato.store.statistics.MOST_RUNS", 10)
    one, board = long_history[-1].id, service.board
    board.overview(24 * HOUR)
    board.overview(7 * 24 * HOUR)
    board.sparks(service.jobs.search(limit=4).items)
    page, _ = board.history(one, 10)
    board.history(one, 10, page.cursor)
    board.execution(page.items[0].id)
    board.queued_within(NOW + 90 * MINUTE, NOW + 91 * MINUTE)
    board.hours(NOW - 30 * 24 * HOUR)
    board.team()
    assert len(efforts) >= 8
    assert {name: effort for name, effort in efforts.items() if effort > 0.15} == {}


def test_the_sweeper_counts_an_hour_once(service, world, long_history, efforts):
    while world.store.hours.keep(world.now):
        pass
    first = dict(efforts)
    efforts.clear()
    assert [hour.ended is None for hour in service.board.hours(NOW)] == [False, False]
    assert first["count_by_hour"] > efforts["count_by_hour"]

"""Every statement runs on both databases and uses indexes, and the view agrees with the rule."""

import sqlite3
from contextlib import closing
from dataclasses import fields, replace
from itertools import product
from uuid import UUID

import psycopg
import pytest

from ostinato.core import lifecycle
from ostinato.core.errors import StoreError
from ostinato.core.model import AskedBy, Change, Definition, Ending, Facts, Skip, SkipReason, WaitsFor
from ostinato.feature import our_features
from ostinato.store import rows
from ostinato.store.columns import columns_of, with_columns
from ostinato.store.dialect import TABLES, DatabaseKind, Dialect
from ostinato.store.rows import from_micros, to_uuid
from ostinato.store.store import QUERIES
from tests.build import HOUR, NOW, a_definition, a_job, a_live, an_execution

TEXT = "\n".join(path.read_text("utf-8") for path in (*QUERIES, *our_features().statements))
STATEMENTS = {kind: Dialect(kind, tables=TABLES | our_features().tables).statements(TEXT) for kind in DatabaseKind}
NAMES = sorted(STATEMENTS[DatabaseKind.SQLITE])

SCALARS = {
    "after": UUID(int=0), "after_key": "", "source": "a.txt", "jobs": 1, "recent": "[]",
    "app": "shop", "args": "{}", "at_least": NOW, "asked": "schedule", "attempt": 0, "by": "ops",
    "checkpoint": "{}", "closed_as": "lost", "concurrency": 5, "declared": "0", "description": "", "free_at": NOW,
    "fence": 1, "horizon": NOW, "host": "here", "id": UUID(int=1), "job": UUID(int=1), "kept": 1, "key": "k",
    "kind": "every", "lease_until": NOW, "limit": 10, "max_queued": 3, "metadata": "{}", "name": "default",
    "every_queue": True, "now": NOW, "number": 1, "owner": "", "paused_at": NOW, "pid": 1,
    "policies": "{}", "priority": 5, "pruned": "{}", "queue": "default", "queues": "[]", "running": 0, "schedule": "{}",
    "since": NOW, "status": "queued", "tags": "[]", "task": "work", "tasks": "[]", "until": NOW, "value": "v",
    "version": "1", "worker": UUID(int=2), "before": NOW,
    "key_id": None, "prefix": "ost_a", "hash": "0", "role": "viewer", "expires_at": None,
    "from_id": UUID(int=1), "to_id": UUID(int=2),
    "kinds": "[]", "late_after": 1, "least": 1, "secret": "", "state": "", "thresholds": "[]",
    "url": "https://example.org",
    "parameters": "[]", "word": "x", "counted": "{}",
    "body": "", "caller": "ann", "code": 200, "fingerprint": "0", "forgotten": NOW, "headers": "{}", "stale": NOW,
    "any_status": 0, "down": 1, "due_after": NOW, "due_before": NOW, "most": 100, "never": -1, "offset": 0,
    "inactive_at": None, "nodes": "[]", "workflow_version": 7,
    "schema": "",
    "queued": 1, "ended": 1, "reach": 10, "sort": "name", "tag": '"a"', "text": "a", "words": "a", "after_number": 0,
    "page": 1, "job_version": 1, "step": "",
    "credential": "token:0", "signer": "0", "issued_at": NOW, "what": "all", "token": "token:0",
    "part": "", "after_part": "", "cursor": "{}",
    "domain": "a.org", "budget": "a.org", "period": 1, "latest": NOW, "count": 1,
}  # fmt: skip
BEFORE_AN_ID = {
    "list_live",
    "list_events",
    "list_executions",
    "delete_old_events",
    "search_executions",
    "search_troubled",
    "search_executions_by_task",
    "queue_events_until",
    "list_keys",
    "list_deliveries",
}
CELLS = {"uuid": UUID(int=9), "instant": NOW, "bigint": 1, "double": 1.0, "text": "default", "json": "{}"}
PARTICULAR = {  # required by checks of the schema
    "kind": "every", "asked": "hand", "waits_for": None, "outcome": "lost", "reason": "missed", "ended_as": "failed",
    "next_due_at": None, "stream": "log",
}  # fmt: skip
KINDS = {"insert_crawl_urls": "page"}
SHARED = {
    "insert_alike_jobs": rows.shared_by_jobs(a_job()),
    "insert_alike_live": rows.shared_by_lives(a_live()),
}


def parameters(statement):
    given, shared = {}, SHARED.get(statement.name, {})
    for name in statement.parameters:
        if name in shared:
            given[name] = shared[name]
        elif name in statement.lists:
            given[name] = [CELLS[statement.lists[name]]]
        elif name == "before" and statement.name in BEFORE_AN_ID:
            given[name] = UUID(int=2**127)
        else:
            given[name] = SCALARS[name]
    batch = [tuple(PARTICULAR.get(name, CELLS[kind]) for name, kind in statement.columns)]
    if statement.name in KINDS:
        place = [name for name, _ in statement.columns].index("kind")
        batch = [tuple(KINDS[statement.name] if i == place else cell for i, cell in enumerate(batch[0]))]
    return {"batch": batch if statement.columns else None, **given}


def writes(statement):
    """Return True if it is a statement for `tx.run`."""
    changes = any(word in statement.sql for word in ("INSERT INTO", " SET ", "DELETE FROM"))
    return changes and "RETURNING" not in statement.sql


def test_every_statement_runs(world):
    wrong = {}
    for name in NAMES:
        statement = world.store.database.statements[name]
        try:
            with world.store.database.write() as tx:
                execute = tx.run if writes(statement) else tx.rows
                execute(statement, **parameters(statement))
                raise ZeroDivisionError  # and leave nothing behind
        except StoreError as error:
            wrong[name] = str(error)
        except ZeroDivisionError:
            continue
    assert wrong == {}


@pytest.mark.parametrize("kind", DatabaseKind)
def test_the_batches_have_the_columns_of_their_values_in_their_order(kind):
    def columns(name):
        return [column for column, _ in STATEMENTS[kind][name].columns]

    definition = ["kind", *[field.name for field in fields(Definition)]]
    assert {*definition} == {*rows.written(a_definition())}
    facts = [field.name for field in fields(Facts)]
    assert columns("insert_jobs") == ["id", "held_key", *definition, *facts]
    assert columns("update_facts") == ["id", "held_key", *[name for name in facts if name != "created_at"]]
    assert columns("insert_live") == list(rows.LIVE.columns)
    for alike, shared in SHARED.items():
        assert set(STATEMENTS[kind][alike].parameters) == set(shared)
    assert columns("update_live") == [name for name in rows.LIVE.columns if name not in rows.IDENTITY]
    assert columns("insert_executions") == list(rows.EXECUTION.columns)
    assert columns("insert_events") == list(rows.EVENT.columns)
    assert columns("insert_skips") == list(rows.SKIP.columns)


def test_a_definition_is_written_whole():
    kept_as = {"kind", *[field.name for field in fields(Definition)]}
    assert set(rows.written(a_definition())) == kept_as


# -- the view


SCHEDULES = [{"every": HOUR}, {"cron": "0 9 * * *"}, {"at": NOW}, {"manual": True}]
STATES = [
    {},
    {"paused_at": NOW},
    {"cancelled_at": NOW},
    {"ended_at": NOW, "ended_as": Ending.COMPLETED},
    {"ended_at": NOW, "ended_as": Ending.FAILED},
    {"ended_as": Ending.FAILED},
    {"paused_at": NOW, "ended_at": NOW, "ended_as": Ending.FAILED},
    {"paused_at": NOW, "cancelled_at": NOW},
    {"cancelled_at": NOW, "ended_at": NOW, "ended_as": Ending.COMPLETED},
]
LIVES = [
    {"asked": asked, **how}
    for asked in AskedBy
    for how in [
        {"running": True},
        {"attempt": 1},
        {"attempt": 1, "failures": 1},
        {"attempt": 1, "losses": 1},
        *({"waits_for": waits_for} for waits_for in (None, *WaitsFor)),
    ]
]


def some_lives(job):
    """Yield no live row, one, and pairs."""
    yield ()
    for one in LIVES:
        yield (a_live(job, **one),)
    for one, other in product(LIVES, LIVES[::3]):
        yield a_live(job, **one), a_live(job, number=2, slot=-1, **other)


def test_the_view_says_the_same_as_the_rule_in_every_state(world):
    changes = []
    for schedule, state in product(SCHEDULES, STATES):
        for lives in some_lives(a_job()):
            job = a_job(next_due_at=None, **schedule, **state)
            own = tuple(rows.LIVE.of([*_moved(live, job)]) for live in lives)
            changes.append(Change(job, add=own))
    world.store.jobs.add(changes)
    found = world.sql("SELECT id, status, next_run_at FROM {job_status}")
    said = {to_uuid(job_id): (status, at and from_micros(at)) for job_id, status, at in found}
    assert len(said) == len(changes) > 3000
    wrong = [
        (change.job, change.add, said[change.job.id])
        for change in changes
        if (lifecycle.status(change.job, change.add), lifecycle.next_run_at(change.job, change.add))
        != said[change.job.id]
    ]
    assert wrong == []


def test_the_view_knows_the_earlier_of_the_next_due_time_and_a_waiting_attempt(world):
    due = [None, NOW + HOUR]
    waiting = [(), ({"run_at": NOW},), ({"run_at": NOW + 2 * HOUR},), ({"run_at": NOW, "running": True},)]
    waiting += [({"run_at": NOW, "waits_for": WaitsFor.STEPS}, {"run_at": NOW + 2 * HOUR, "number": 2, "slot": -1})]
    changes = []
    for next_due_at, lives in product(due, waiting):
        job = a_job(every=HOUR, next_due_at=next_due_at)
        changes.append(Change(job, add=tuple(a_live(job, **live) for live in lives)))
    world.store.jobs.add(changes)
    found = world.sql("SELECT id, next_run_at FROM {job_status}")
    said = {to_uuid(job_id): at and from_micros(at) for job_id, at in found}
    rule = {change.job.id: lifecycle.next_run_at(change.job, change.add) for change in changes}
    assert said == rule
    assert set(rule.values()) == {None, NOW, NOW + HOUR, NOW + 2 * HOUR}


def _moved(live, job):
    for name in rows.LIVE.columns:
        value = job.id if name == "job_id" else getattr(live, name)
        yield value if not hasattr(value, "timestamp") else round(value.timestamp() * 1_000_000)


# -- plans


FILLED = 20_000
HOT = {
    "lock_due", "next_due", "park_unknown", "claim", "lock_facts", "lock_live", "lock_running", "definitions",
    "update_facts", "update_usual_facts", "update_live", "delete_live", "time_has_come", "next_waiting",
    "outlook", "marks", "already_settled", "save_progress", "save_checkpoint", "unpark", "park",
    "holders", "live_of", "facts", "last_failure", "dealt_ranges", "executions_of", "list_executions",
    "list_skips", "extend_skips", "nth_newest", "prunable", "job_by_held_key", "jobs_by_key", "deleted_jobs",
    "jobs_after", "live_by_id", "status_of", "search_executions_of", "occurrences_until",
    "fire_plainly", "queue_fired", "attempts_at", "ended_between", "skip_until", "newest_runs_of", "last_execution",
}  # fmt: skip


@pytest.fixture
def filled(world):
    """Twenty thousand jobs, each with a live row, an execution and a skip."""
    job = a_job(key="key")
    skip = Skip(UUID(int=3), job.id, SkipReason.MISSED, NOW, NOW, 1, NOW)
    world.store.jobs.add([Change(job, add=(a_live(job),), ended=(an_execution(job, attempt=1),), skips=(skip,))])
    new_id = "gen_random_uuid()" if world.on_postgres else "randomblob(16)"
    columns = [name for name, _ in STATEMENTS[DatabaseKind.SQLITE]["insert_jobs"].columns]
    other = {
        "id": new_id,
        "key": "'key-' || i",
        "held_key": "'key-' || i",
        "next_due_at": "next_due_at + i * CAST(60000000 AS {bigint})",
    }
    world.sql(
        f"""WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {FILLED})
        INSERT INTO {{jobs}} ({", ".join(columns)}) SELECT {", ".join(other.get(c, c) for c in columns)}
        FROM {{jobs}} CROSS JOIN n"""
    )
    run_at = {
        "run_at": "j.next_due_at",
        "waits_for": "CASE WHEN j.next_due_at % 120000000 = 0 THEN 'time' END",
    }
    for table, shape, also in (
        ("live", rows.LIVE, run_at),
        ("executions", rows.EXECUTION, {}),
        ("skips", rows.SKIP, {}),
    ):
        other = {"id": new_id, "job_id": "j.id"} | also
        world.sql(
            f"""INSERT INTO {{{table}}} ({", ".join(shape.columns)})
            SELECT {", ".join(other.get(c, f"t.{c}") for c in shape.columns)}
            FROM {{{table}}} AS t CROSS JOIN {{jobs}} AS j WHERE j.id <> t.job_id"""
        )
    world.sql("ANALYZE")
    return world


def test_what_is_hot_is_found_by_indexes(filled):
    """No statement of the hot path scans jobs, live or executions, with any plan that may be chosen."""
    in_order_of_the_key = {"list_executions"}  # SQLite says SCAN of a table that is stored in that order
    hot = HOT if filled.on_postgres else HOT - in_order_of_the_key
    plans = {name: _plan(filled, name) for name in sorted(hot)}
    walking = {
        name: plan
        for name, plan in plans.items()
        if any(f"Seq Scan on {table}" in plan for table in ("jobs", "live", "executions", "skips"))
        or any(_scans(line) for line in plan.splitlines())
    }
    assert not walking, "\n\n".join(f"{name}\n{plan}" for name, plan in walking.items())


def _scans(line):
    """Return the scans. SQLite: `SCAN j` without an index is a scan; `SCAN j USING INDEX` follows one in order."""
    alias = line.removeprefix("SCAN ").split(" ")[0]
    ours = alias.startswith("ostinato_") or alias in {"j", "l", "x", "e", "s", "a"}
    return line.startswith("SCAN ") and "USING" not in line and ours


def _plan(world, name):
    statement = world.store.database.statements[name]
    if not world.on_postgres and statement.columns and writes(statement):
        cells = [None] * (len(statement.columns) + len(statement.parameters))
        with closing(sqlite3.connect(world.url.removeprefix("sqlite:///"))) as connection:
            return "\n".join(row[-1] for row in connection.execute("EXPLAIN QUERY PLAN " + statement.each, cells))
    explain = "EXPLAIN " if world.on_postgres else "EXPLAIN QUERY PLAN "
    with world.store.database.write() as tx:
        lines = tx.rows(replace(statement, sql=explain + statement.sql), **parameters(statement))
    if world.on_postgres:  # a prepared statement may be planned without its parameters
        with psycopg.connect(world.url) as connection:
            lines += connection.execute("EXPLAIN (GENERIC_PLAN) " + statement.sql).fetchall()
    return "\n".join(row[-1] for row in lines)


@pytest.mark.parametrize("table", ["jobs", "live", "executions", "skips", "events"])
def test_the_tables_have_the_columns_and_types_of_the_values(world, table):
    """This finds a field without a column, or with another type: migrations are written by hand."""
    dialect = world.store.database.dialect
    if world.on_postgres:
        found = world.sql(
            "SELECT attname, format_type(atttypid, NULL) FROM pg_attribute "
            f"WHERE attrelid = '{dialect.table(table)}'::regclass AND attnum > 0 AND NOT attisdropped"
        )
    else:
        found = world.sql(f"SELECT name, type FROM pragma_table_info('{dialect.table(table)}')")
    more = {"aside_until", "pruned", "restarted"} if table == "jobs" else set()  # columns of the store alone
    wanted = {name: dialect.type_of(kind) for name, kind in columns_of(table).items()}
    assert {name: kind for name, kind in found if name not in more} == wanted


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("{columns skips without id, job_id}", "reason, first_due_at, last_due_at, count, recorded_at, in_the_way"),
        ("{columns skips as s only id, count}", "s.id, s.count"),
        ("{columns skips as s only id, count but count = greatest(s.count, 1)}", "s.id, greatest(s.count, 1)"),
        ("{rows of skips with fence bigint only id, reason}", "{rows: fence bigint, id uuid, reason text}"),
        ("{shared of skips only count}", "{shared: count bigint}"),
        ("{set skips from u only count, in_the_way}", "count = u.count, in_the_way = u.in_the_way"),
        ("SELECT 1", "SELECT 1"),
    ],
)  # fmt: skip
def test_columns_are_written_by_words(text, written):
    assert with_columns(text) == written


@pytest.mark.parametrize(
    "text", ["{columns jobs without nothing}", "{columns nothing}", "{columns skips but nothing = 1}"]
)
def test_an_unknown_column_or_table_in_a_word_is_refused(text):
    with pytest.raises(StoreError, match="no column"):
        with_columns(text)

"""Databases of the systems of the seeds, with the tables that the seeds show."""

import json
import sqlite3
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg

NOW = datetime.now(UTC).replace(microsecond=0)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)

# As in seed 003, in the types that both databases read; PostgreSQL gets its own.
INTERVAL = """
CREATE TABLE jobs (
    id UUID PRIMARY KEY, source_id TEXT, source_name TEXT, url TEXT NOT NULL,
    status VARCHAR(50) NOT NULL DEFAULT 'pending', created_at TIMESTAMPTZ, updated_at TIMESTAMPTZ,
    started_at TIMESTAMPTZ, completed_at TIMESTAMPTZ, error_message TEXT, interval_minutes INTEGER,
    interval_type VARCHAR(20), next_run_at TIMESTAMPTZ, is_paused BOOLEAN DEFAULT false, paused_at TIMESTAMPTZ,
    cancelled_at TIMESTAMPTZ, max_retries INTEGER DEFAULT 3, retry_backoff_seconds INTEGER DEFAULT 60,
    current_retry_count INTEGER DEFAULT 0, lock_token UUID, lock_acquired_at TIMESTAMPTZ, metadata JSONB DEFAULT '{}',
    schedule_time TEXT, schedule_enabled BOOLEAN DEFAULT false
);
CREATE TABLE job_executions (
    id UUID PRIMARY KEY, job_id UUID NOT NULL REFERENCES jobs(id) ON DELETE CASCADE, execution_number INTEGER NOT NULL,
    status VARCHAR(50) NOT NULL, started_at TIMESTAMPTZ NOT NULL, completed_at TIMESTAMPTZ, duration_ms BIGINT,
    items_crawled INTEGER DEFAULT 0, items_indexed INTEGER DEFAULT 0, error_message TEXT, stack_trace TEXT,
    cpu_time_ms BIGINT, memory_peak_mb INTEGER, retry_attempt INTEGER DEFAULT 0, metadata JSONB DEFAULT '{}',
    CONSTRAINT valid_execution_status CHECK (status IN ('running', 'completed', 'failed', 'cancelled'))
);
"""
# As the model of seed 001 lists its fields.
PIPELIT = """
CREATE TABLE scheduled_jobs (
    id VARCHAR(36) PRIMARY KEY, name VARCHAR(255), description TEXT, workflow_id INTEGER, trigger_node_id VARCHAR(255),
    user_profile_id INTEGER, interval_seconds INTEGER, total_repeats INTEGER, max_retries INTEGER,
    timeout_seconds INTEGER, trigger_payload JSON, status VARCHAR(20), current_repeat INTEGER, current_retry INTEGER,
    last_run_at TIMESTAMP, next_run_at TIMESTAMP, run_count INTEGER, error_count INTEGER, last_error TEXT,
    created_at TIMESTAMP, updated_at TIMESTAMP
);
"""
# As in seed 000; definitions in the words of `source apply`.
HERMES = """
CREATE TABLE sources (id INTEGER PRIMARY KEY, name TEXT, status TEXT, definition TEXT);
CREATE TABLE retries (
    source_name TEXT PRIMARY KEY, period_start TIMESTAMP, retry_count INTEGER, next_retry_at TIMESTAMP
);
CREATE TABLE gdp (source_name TEXT, amount REAL, created_at TIMESTAMP);
"""


class OldDatabase:
    """A database of another system: a SQLite file, or a schema of PostgreSQL."""

    def __init__(self, url: str, script: str) -> None:
        self.url = url
        self.is_postgres = url.startswith("postgres")
        for statement in filter(str.strip, script.split(";")):
            self.run(statement)

    def run(self, statement: str, rows: Iterable[tuple[Any, ...]] = ((),)) -> None:
        if self.is_postgres:
            with psycopg.connect(self.url) as connection, connection.cursor() as cursor:
                cursor.executemany(statement.replace("?", "%s"), list(rows))
            return
        with sqlite3.connect(self.url.removeprefix("sqlite:///")) as connection:
            connection.executemany(statement, list(rows))
        connection.close()

    def add(self, table: str, *rows: Mapping[str, Any]) -> None:
        for row in rows:
            places = ", ".join("?" for _ in row)
            self.run(
                f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places})", [tuple(map(self._cell, row.values()))]
            )

    def _cell(self, value: Any) -> Any:
        if isinstance(value, dict):
            return json.dumps(value)
        if isinstance(value, UUID):
            return str(value)
        if isinstance(value, datetime) and not self.is_postgres:
            return value.isoformat(" ")
        return value


def sqlite_of(folder: Path, script: str) -> OldDatabase:
    return OldDatabase(f"sqlite:///{folder}/old.db", script)


def postgres_of(database: str, name: str, script: str) -> OldDatabase:
    """A schema of its own in the database of the tests."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE")
        connection.execute(f"CREATE SCHEMA {name}")
    joint = "&" if "?" in database else "?"
    return OldDatabase(f"{database}{joint}options=-csearch_path%3D{name}", script)


def a_crawl(number: int, **given: Any) -> dict[str, Any]:
    """A job of the interval scheduler: every thirty minutes, due in ten."""
    return {
        "id": UUID(int=0x7B1F3D6E5A314F0E9A570C5F8F3C0000 + number), "source_id": f"source-{number}",
        "source_name": "example.com", "url": "https://example.com", "status": "scheduled", "created_at": NOW - 90 * DAY,
        "updated_at": NOW - HOUR, "interval_minutes": 30, "interval_type": "minutes", "next_run_at": NOW + 10 * MINUTE,
        "metadata": {"category": "news"}, "schedule_enabled": True,
    } | given  # fmt: skip


def a_crawl_run(job: Mapping[str, Any], number: int, **given: Any) -> dict[str, Any]:
    """One of its executions, an hour after the other."""
    started = NOW - (100 - number) * HOUR
    return {
        "id": UUID(int=job["id"].int * 1000 % 2**128 + number), "job_id": job["id"], "execution_number": number,
        "status": "completed", "started_at": started, "completed_at": started + 2 * MINUTE, "duration_ms": 120_000,
        "items_crawled": 25, "items_indexed": 23, "cpu_time_ms": 900, "memory_peak_mb": 256,
    } | given  # fmt: skip


def a_schedule(number: int, **given: Any) -> dict[str, Any]:
    """A scheduled job of Pipelit: every five minutes, due in two; its times have no zone."""
    return {
        "id": str(UUID(int=0x3C1F3D6E5A314F0E9A570C5F8F3C0000 + number)), "name": f"Report {number}", "description": "",
        "workflow_id": 1, "trigger_node_id": "trigger_schedule_abc123", "user_profile_id": 7, "interval_seconds": 300,
        "total_repeats": 0, "max_retries": 3, "timeout_seconds": 600, "trigger_payload": {"report_type": "daily"},
        "status": "active", "current_repeat": 5, "current_retry": 0, "last_run_at": plain(NOW - 3 * MINUTE),
        "next_run_at": plain(NOW + 2 * MINUTE), "run_count": 5, "error_count": 1, "last_error": "",
        "created_at": plain(NOW - DAY), "updated_at": plain(NOW - 3 * MINUTE),
    } | given  # fmt: skip


def plain(at: datetime) -> datetime:
    return at.replace(tzinfo=None)


def a_definition(name: str, **given: Any) -> dict[str, Any]:
    """A definition of Hermes."""
    return {
        "name": name, "url": "https://api.example.org/v1/series", "table": "gdp", "schedule": "daily",
        "response": {"dataPath": "data.items", "fields": [{"source": "value", "target": "amount", "type": "number"}]},
        "execution": {"maxRetries": 5, "retryResetPeriod": "1d"},
    } | given  # fmt: skip


def a_document(number: int, **given: Any) -> dict[str, Any]:
    """A job document of CHRONOS, as mongoexport writes it."""
    return {
        "_id": {"$oid": f"65a1b2c3d4e5f6071829{number:04x}"}, "jobId": str(number), "jobName": f"Mail {number}",
        "jobType": "RECURRING", "interval": 3_600_000, "nextRunAt": mongo(NOW + 20 * MINUTE),
        "lastRunAt": mongo(NOW - 40 * MINUTE), "timezone": "UTC", "status": "SCHEDULED",
        "payload": {"to": "a@example.org"}, "taskType": "sendEmail", "priority": 3, "retryCount": 0, "maxRetries": 3,
        "retryDelay": 60_000, "useExponentialBackoff": True, "executionDuration": {"$numberLong": "1500"},
        "result": {"sent": True}, "tags": ["mail"], "isActive": True, "lockedBy": None, "lockTimeout": 300_000,
        "createdAt": mongo(NOW - 9 * DAY), "updatedAt": mongo(NOW - HOUR), "__v": 0,
    } | given  # fmt: skip


def mongo(at: datetime) -> dict[str, str]:
    """An instant as mongoexport writes it."""
    return {"$date": f"{at:%Y-%m-%dT%H:%M:%S.000Z}"}

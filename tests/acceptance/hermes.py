"""Sources of a real server, asked over HTTP, and what is in the tables they fill."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import psycopg

from tests.acceptance.server import Server
from tests.waiting import eventually

TABLES = ("things", "others", "gdp", "theirs")
PAGED = {"type": "page", "limitParam": "limit", "limit": 10, "hasMorePath": "more"}


def asking(url: str) -> Callable[[str], list[tuple[Any, ...]]]:
    """Ask the database itself, past Ostinato."""

    def ask(sql: str) -> list[tuple[Any, ...]]:
        if url.startswith("sqlite"):
            with closing(sqlite3.connect(url.removeprefix("sqlite:///"), timeout=30)) as connection:
                found = connection.execute(sql).fetchall()
                connection.commit()
                return found
        with psycopg.connect(url, autocommit=True) as connection:
            cursor = connection.execute(sql)
            return cursor.fetchall() if cursor.description else []

    return ask


def create(server: Server, definition: dict[str, Any]) -> str:
    code, made = server("POST", "/api/v1/sources", definition)
    assert code == 201, made
    return str(made["id"])


def source(server: Server, name: str = "things") -> dict[str, Any]:
    return dict(server("GET", f"/api/v1/sources/{name}").body)


def runs(server: Server, job_id: str) -> list[dict[str, Any]]:
    """Those that have ended, the oldest first."""
    found = server("GET", f"/api/v1/jobs/{job_id}/executions?limit=100").body["executions"]
    return [each for each in reversed(found) if each["outcome"] is not None]


def run_of(server: Server, job_id: str, number: int = 1) -> dict[str, Any]:
    eventually(lambda: len(runs(server, job_id)) >= number)
    return runs(server, job_id)[number - 1]


def rows_of(rows: Any, table: str) -> int:
    """How many there are; 0 while there is no table."""
    try:
        return int(rows(f"SELECT count(*) FROM {table}")[0][0])
    except (sqlite3.OperationalError, psycopg.errors.UndefinedTable):
        return 0


def wake(server: Server, job_id: str) -> bool:
    """Start what waits for its backoff now, as a person may."""
    run_of(server, job_id)
    return bool(server("POST", f"/api/v1/jobs/{job_id}/run").code == 202)

"""Ourselves as subjects, one for each database."""

import shutil
import sqlite3
import sys
from pathlib import Path

import psycopg

from benchmarks.measures import Subject

COMMAND = (sys.executable, "-m", "benchmarks.subjects.ostinato")
BUSY = {"OSTINATO_CONCURRENCY": "100"}


def on_sqlite(folder: Path, **environment: str) -> Subject:
    file = folder / "ostinato.db"

    def reset() -> None:
        for left in folder.glob("ostinato.db*"):
            shutil.rmtree(left) if left.is_dir() else left.unlink()

    def unsettled() -> int:
        with sqlite3.connect(file) as connection:
            return int(connection.execute("SELECT count(*) FROM ostinato_live").fetchone()[0])

    environment = {**BUSY, **environment, "OSTINATO_DATABASE_URL": f"sqlite:///{file}"}
    return Subject("Ostinato", "SQLite", COMMAND, unsettled, reset, environment)


def on_postgres(url: str, **environment: str) -> Subject:
    def reset() -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DROP SCHEMA IF EXISTS ostinato CASCADE")

    def unsettled() -> int:
        with psycopg.connect(url) as connection:
            row = connection.execute("SELECT count(*) FROM ostinato.live").fetchone()
            return int(row[0]) if row else 0

    environment = {**BUSY, **environment, "OSTINATO_DATABASE_URL": url}
    return Subject("Ostinato", "PostgreSQL", COMMAND, unsettled, reset, environment)

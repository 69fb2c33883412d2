"""A PostgreSQL that a test may mistreat."""

import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

from tests.servers import PostgresServer

ROOT = Path(__file__).parent.parent.parent


def kept(url: str) -> list[tuple[int]]:
    with psycopg.connect(url) as connection:
        return connection.execute("SELECT one FROM kept").fetchall()


def test_a_private_server_keeps_its_data_and_its_port_over_a_crash(private_postgres: PostgresServer):
    url = private_postgres.url()
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 1 AS one")
    private_postgres.restart("immediate")
    assert kept(url) == [(1,)]
    private_postgres.stop()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url)
    private_postgres.start()
    assert kept(url) == [(1,)]


@pytest.mark.postgres
def test_a_server_does_not_outlive_an_owner_that_is_killed():
    program = (
        "import os, signal; from tests.servers import PostgresServer\n"
        "server = PostgresServer.private(fsync=False); print(server.folder, server.url(), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    died = subprocess.run([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    folder, url = died.stdout.split()
    for _ in range(300):
        if not Path(folder).exists():
            break
        time.sleep(0.1)
    assert not Path(folder).exists()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url)

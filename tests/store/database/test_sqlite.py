"""SQLite: its settings, its write lock, its log, and files that cannot be used."""

import os
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from uuid import uuid4

import pytest

from ostinato.core.errors import ForeignDatabase, Invalid, StoreError, StoreUnavailable
from ostinato.store import migrate, sqlite
from ostinato.store.database import open_database
from tests.store.database.conftest import USUAL_DEADLINE, add, opened, with_table, xs
from tests.waiting import PATIENCE


def start_python(code, *arguments):
    """Start a process and wait for its first line."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    process.first_line = process.stdout.readline().strip()
    return process


HOLD = """
import sys
from ostinato.store.database import open_database
with open_database(sys.argv[1]).write():
    print("held", flush=True)
    sys.stdin.readline()
"""

WRITE_ON = """
import sys, uuid
from ostinato.store.database import open_database
db = open_database(sys.argv[1], durable=False)
db.load("-- name: add\\nINSERT INTO {jobs} (id, x) SELECT u.id, u.x FROM {rows: id uuid, x bigint} WHERE true")
print("ready", flush=True)
sys.stdin.readline()
written = 0
while True:
    with db.write() as tx:
        tx.run("add", [(uuid.uuid4(), int(sys.argv[2])) for _ in range(400)])
    written += 1
    print(written, flush=True)
"""


def test_the_settings_of_a_connection(lite):
    def pragma(name):
        with lite.write() as tx:
            return tx.row(lite.dialect.statement(f"PRAGMA {name}"))[0]

    assert pragma("journal_mode") == "wal"
    assert pragma("synchronous") == 2
    assert pragma("foreign_keys") == 1
    assert stat.S_IMODE(os.stat(lite.name).st_mode) & 0o007 == 0


def test_the_log_is_brought_back_into_the_file_beside_the_writers(lite):
    for x in range(20):
        add(lite, x)
    with lite.write() as tx:
        tx.run("add", id=uuid4(), x=1, note="under way")
        assert lite.upkeep() > 20  # pages: upkeep does not wait for a writer
    file = sqlite3.connect(f"file:{lite.file}?immutable=1", uri=True)  # without its log
    assert file.execute("SELECT count(*) FROM ostinato_jobs").fetchone() == (20,)
    file.close()
    assert lite.upkeep() > 0
    assert lite.upkeep() == 0, "nothing was written since"


def test_a_commit_does_not_bring_the_log_back_unless_it_is_long(lite):
    with lite.write() as tx:
        tx.run("add_many", [(uuid4(), x, None, f"{x:03000}", 0.0, "{}") for x in range(1500)])
    add(lite, 1)
    file = sqlite3.connect(f"file:{lite.file}?immutable=1", uri=True)
    assert file.execute("PRAGMA page_count").fetchone()[0] < 1000
    file.close()


def test_the_test_kit_does_without_fsync(empty_sqlite_url):
    database = with_table(empty_sqlite_url, durable=False)
    with database.write() as tx:
        assert tx.row(database.dialect.statement("PRAGMA synchronous")) == (0,)


def test_a_transaction_inside_a_transaction_is_refused_at_once(lite):
    with pytest.raises(StoreError, match="inside another"), lite.write(), lite.write():
        pass


def test_waiting_for_a_thread_counts_into_the_deadline(empty_sqlite_url):
    lite = with_table(empty_sqlite_url, deadline=0.2)
    caught = []

    def wait():
        try:
            add(lite, 1)
        except StoreUnavailable as error:
            caught.append(error)

    with lite.write():
        thread = threading.Thread(target=wait)
        thread.start()
        thread.join(PATIENCE)
    assert len(caught) == 1


@pytest.mark.system
def test_a_process_that_holds_the_turn_is_waited_for_until_the_deadline(empty_sqlite_url):
    lite = with_table(empty_sqlite_url, deadline=0.2)
    other = start_python(HOLD, empty_sqlite_url)
    before = time.monotonic()
    with pytest.raises(StoreUnavailable, match="Other writers have held the lock"):
        add(lite, 1)
    assert 0.2 <= time.monotonic() - before < USUAL_DEADLINE
    other.communicate("\n")
    add(lite, 2)
    assert xs(lite) == [2]


@pytest.mark.system
def test_a_killed_process_frees_its_turn(lite, empty_sqlite_url):
    other = start_python(HOLD, empty_sqlite_url)
    other.kill()
    other.communicate()
    add(lite, 1)
    assert xs(lite) == [1]


@pytest.mark.system
def test_no_process_starves(empty_sqlite_url):
    lite = with_table(empty_sqlite_url, durable=False)
    writers = [start_python(WRITE_ON, empty_sqlite_url, str(number)) for number in range(3)]
    for writer in writers:
        writer.stdin.write("\n")
        writer.stdin.flush()
    while writers[0].stdout.readline().strip() != "60":
        pass
    for writer in writers:
        writer.kill()
        writer.communicate()
    found = xs(lite)
    shares = [found.count(number) / len(found) for number in range(3)]
    assert min(shares) > 0.1, shares  # without the lock file the smallest was 0.00 to 0.10, with it 0.21 and more


def test_a_stranger_who_holds_the_write_lock_is_waited_for_until_the_deadline(empty_sqlite_url):
    lite = with_table(empty_sqlite_url, deadline=0.1)
    stranger = sqlite3.connect(lite.name, isolation_level=None)
    stranger.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="locked"):
        add(lite, 1)
    stranger.close()
    add(lite, 2)
    assert xs(lite) == [2]


def test_tables_that_a_transaction_of_the_caller_keeps_from_being_created_are_told(empty_sqlite_url):
    lite = opened(empty_sqlite_url, deadline=0.1)
    caller = sqlite3.connect(lite.name, isolation_level=None)
    caller.execute("PRAGMA journal_mode = WAL")
    caller.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match=r"locked.* must be created first.*`app.open\(\)`, in the lifespan"):
        migrate.require_current(lite)
    caller.close()
    migrate.require_current(lite)


@pytest.mark.parametrize("content", [b"hello", b"not a database at all, but long enough to look like one"])
def test_a_file_that_is_no_database_is_refused_untouched(tmp_path, content):
    (tmp_path / "a.db").write_bytes(content)
    for attempt in ("read", "write"):
        with pytest.raises(ForeignDatabase, match="left as it is"), getattr(opened_at(tmp_path), attempt)():
            pass
    assert [p.name for p in tmp_path.iterdir()] == ["a.db"]
    assert (tmp_path / "a.db").read_bytes() == content


def opened_at(folder: Path, name: str = "a.db"):
    return opened(f"sqlite:///{folder}/{name}")


def test_a_folder_that_does_not_exist_is_named(tmp_path):
    with (
        pytest.raises(Invalid, match="missing does not exist: make it first"),
        opened_at(tmp_path / "missing").write(),
    ):
        pass
    with pytest.raises(Invalid, match="is a folder"), opened_at(tmp_path.parent, tmp_path.name).write():
        pass


@pytest.fixture
def nobody():
    """A user without rights: root ignores permissions."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    yield
    os.seteuid(0)


def test_a_file_that_cannot_be_written_is_a_clear_error(lite, tmp_path, request):
    lite.close()
    for path in (tmp_path, *tmp_path.parents):
        os.chmod(path, os.stat(path).st_mode | 0o055) if str(path).startswith("/tmp/pytest") else None
    os.chmod(lite.name, 0o444)
    request.getfixturevalue("nobody")
    with pytest.raises(StoreError, match=r"cannot be (written|used)|Permission denied"), lite.write():
        pass
    with pytest.raises(StoreError, match="Permission denied"), opened_at(tmp_path, "new.db").write():
        pass


def test_a_full_disk_is_unavailable_until_there_is_room(lite):
    limit = lite.dialect.statement("PRAGMA max_page_count = 20")
    with lite.write() as tx:
        tx.rows(limit)
    big = [(uuid4(), i, None, None, None, "x" * 2000) for i in range(200)]
    with pytest.raises(StoreUnavailable, match=r"disk .* is full"), lite.write() as tx:
        tx.run("add_many", big)
    with lite.write() as tx:
        tx.rows(lite.dialect.statement("PRAGMA max_page_count = 1000000"))
    with lite.write() as tx:
        assert tx.run("add_many", big) == 200


def test_an_old_sqlite_is_refused(monkeypatch, empty_sqlite_url):
    monkeypatch.setattr(sqlite, "OLDEST", (99, 0, 0))
    with pytest.raises(StoreError, match="too old"):
        open_database(empty_sqlite_url)


LOOKS_AND_LEAVES = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
print(connection.execute("SELECT count(*) FROM ostinato_meta WHERE key LIKE 'kept%'").fetchone()[0])
connection.close()
"""


def test_g3_what_is_committed_stays_when_another_process_looks_and_leaves(empty_sqlite_url, tmp_path):
    """Only SQLite may open the file: closing a descriptor drops the locks that protect our log."""
    db = open_database(empty_sqlite_url)
    migrate.upgrade(db)
    db.close()
    db = open_database(empty_sqlite_url)
    db.load("-- name: keep\nINSERT INTO {meta} (key, value) VALUES (:key, 'x')\n-- name: look\nSELECT 1 FROM {meta}")

    def another_process_sees() -> int:
        command = [sys.executable, "-c", LOOKS_AND_LEAVES, db.name]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    with db.read() as tx:  # first a reader, then the writer
        tx.rows("look")
    for number in range(3):
        with db.write() as tx:
            tx.run("keep", key=f"kept-{number}")
        assert another_process_sees() == number + 1
    db.close()

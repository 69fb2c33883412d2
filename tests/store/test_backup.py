"""Backup of the whole database while it is in use, and restore into either database."""

import shutil
import sqlite3
import threading
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest

from ostinato.chance import RandomChance
from ostinato.core.errors import Conflict, ForeignDatabase, Invalid, NotFound, StoreError
from ostinato.store import backup as copying
from ostinato.store import migrate
from ostinato.store.backup import backup, restore
from ostinato.store.database import open_database
from ostinato.store.rows import to_uuid
from ostinato.store.store import Store
from tests.build import HOUR
from tests.waiting import PATIENCE


def silent(done: int, total: int) -> None:
    assert 0 <= done <= total


@contextmanager
def opened(url: str, schema: str = "ostinato"):
    with closing(open_database(url, schema=schema, durable=False)) as database:
        yield Store(database, RandomChance())


def everything(store: Store) -> dict[str, list[list[object]]]:
    """Return every row of every table, with values that both databases share."""
    dialect = store.database.dialect
    with store.database.read() as tx:
        return {
            name: sorted(
                [[_shared(cell) for cell in row] for row in tx.rows(dialect.statement(f"SELECT * FROM {{{name}}}"))]
            )
            for name in "jobs live executions skips events workers queues meta".split()
        }


def restored(before: dict[str, list[list[object]]], store: Store) -> dict[str, list[list[object]]]:
    """Return the expected rows after a restore: the same, in another generation."""
    generation = migrate.identity_of(store.database).generation
    assert generation not in [value for _, value in before["meta"]]
    meta = [[key, generation if key == "generation" else value] for key, value in before["meta"]]
    return before | {"meta": meta}


def _shared(cell: object) -> str:
    return str(to_uuid(cell)) if isinstance(cell, bytes) else str(cell)


@pytest.fixture
def busy(world):
    """Some rows of every kind: jobs, history, skips, a worker, a running execution."""
    world.add(3)
    world.add_one(name="Ünïcode ✓")
    world.enqueue(4)
    claimed = world.claim(world.worker(), limit=3)
    world.settle(claimed[:2])
    world.advance(5 * HOUR)
    world.fire()
    counts = {name: len(rows) for name, rows in everything(world.store).items()}
    assert all(counts.values()), counts
    return world


def test_a_backup_has_every_row(busy, tmp_path):
    file = tmp_path / "copy.db"
    backup(busy.store.database, file, silent)
    with opened(f"sqlite:///{file}") as copy:
        assert everything(copy) == everything(busy.store)
        assert copy.audit.problems() == []


def test_a_backup_is_one_private_file(busy, tmp_path):
    (tmp_path / "there").mkdir()
    file = tmp_path / "there" / "copy.db"
    backup(busy.store.database, file, silent)
    assert [path.name for path in file.parent.iterdir()] == ["copy.db"]
    assert file.stat().st_mode & 0o777 == 0o600


def test_it_is_copied_in_parts(busy, tmp_path, monkeypatch):
    monkeypatch.setattr(copying, "ROWS", 2)
    monkeypatch.setattr(copying, "PAGES", 3)
    told = []
    backup(busy.store.database, tmp_path / "copy.db", lambda *how_much: told.append(how_much))
    assert len(told) > 3
    assert told[-1][0] == told[-1][1]
    with opened(f"sqlite:///{tmp_path}/copy.db") as copy:
        assert everything(copy) == everything(busy.store)


def test_a_backup_of_either_comes_back_into_sqlite(busy, tmp_path):
    file = tmp_path / "copy.db"
    backup(busy.store.database, file, silent)
    before = everything(busy.store)
    with opened(f"sqlite:///{tmp_path}/target.db") as store:
        restore(file, store.database, silent)
        assert everything(store) == restored(before, store)
        assert store.audit.problems() == []


@pytest.fixture
def empty_postgres(postgres_url):
    """A schema of its own: the other one may be the source of the backup."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS restored CASCADE")
        with opened(postgres_url, "restored") as store:
            yield store
        connection.execute("DROP SCHEMA restored CASCADE")


def test_a_backup_of_either_comes_back_into_postgresql(busy, tmp_path, empty_postgres):
    backup(busy.store.database, tmp_path / "copy.db", silent)
    before = everything(busy.store)
    restore(tmp_path / "copy.db", empty_postgres.database, silent)
    assert everything(empty_postgres) == restored(before, empty_postgres)
    assert empty_postgres.audit.problems() == []


def test_it_shows_one_moment_though_others_write(world, tmp_path, monkeypatch):
    """Writers continue between its parts; each write is copied completely or not at all."""
    monkeypatch.setattr(copying, "ROWS", 5)
    monkeypatch.setattr(copying, "PAGES", 2)
    world.enqueue(50)
    other, added = world.another(), []

    def write_meanwhile(done: int, total: int) -> None:
        if len(added) < 20:
            added.append(other.jobs.add([world.new()]))

    backup(world.store.database, tmp_path / "copy.db", write_meanwhile)
    assert added, "somebody did write"
    with opened(f"sqlite:///{tmp_path}/copy.db") as copy:
        assert len(everything(copy)["jobs"]) == 50
        assert len(everything(copy)["live"]) == 50
        assert copy.audit.problems() == []


def test_nobody_waits_for_a_backup(world, tmp_path):
    """A writer commits while the copy pauses."""
    world.enqueue(5)
    written = threading.Event()

    def while_it_stands_still(done: int, total: int) -> None:
        thread = threading.Thread(target=lambda: (world.another().remember("a", "b"), written.set()))
        thread.start()
        thread.join(PATIENCE)

    backup(world.store.database, tmp_path / "copy.db", while_it_stands_still)
    assert written.is_set()


def test_a_backup_comes_before_an_upgrade_and_makes_none(empty_database_url, tmp_path, monkeypatch):
    with opened(empty_database_url) as old:
        migrate.upgrade(old.database)
        backup(old.database, tmp_path / "copy.db", silent)
    newer = shutil.copytree(migrate.MIGRATIONS, tmp_path / "migrations")
    (newer / "0002_more.sql").write_text("CREATE INDEX {prefix}events_more ON {events} (at);")
    monkeypatch.setattr(migrate, "MIGRATIONS", newer)
    with opened(empty_database_url) as old:
        backup(old.database, tmp_path / "again.db", silent)
        assert migrate.schema_version(old.database) == 1
    with opened(f"sqlite:///{tmp_path}/again.db") as copy:
        assert migrate.schema_version(copy.database) == 1
    with opened(f"sqlite:///{tmp_path}/target.db") as target:
        restore(tmp_path / "copy.db", target.database, silent)
        assert migrate.schema_version(target.database) == migrate.latest_versions(target.database.features)["core"] == 2


def test_there_must_be_something_to_back_up(empty_database_url, tmp_path):
    with (
        opened(empty_database_url) as empty,
        pytest.raises(NotFound, match="has no tables of Ostinato to back up"),
    ):
        backup(empty.database, tmp_path / "copy.db", silent)


def test_a_file_that_is_there_is_left_as_it_is(busy, tmp_path):
    (tmp_path / "copy.db").write_text("mine")
    with pytest.raises(Conflict, match=r"copy\.db exists already"):
        backup(busy.store.database, tmp_path / "copy.db", silent)
    assert (tmp_path / "copy.db").read_text() == "mine"


def test_a_backup_that_is_broken_off_leaves_nothing(busy, tmp_path):
    (tmp_path / "there").mkdir()

    def break_off(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        backup(busy.store.database, tmp_path / "there" / "copy.db", break_off)
    assert list((tmp_path / "there").iterdir()) == []


def test_a_folder_that_is_missing_is_one_sentence(busy, tmp_path):
    with pytest.raises(Invalid, match="does not exist: make it first"):
        backup(busy.store.database, tmp_path / "no" / "copy.db", silent)


def test_a_database_in_use_is_not_restored_into(busy, tmp_path):
    backup(busy.store.database, tmp_path / "copy.db", silent)
    before = everything(busy.store)
    with pytest.raises(Conflict, match="in use already"):
        restore(tmp_path / "copy.db", busy.store.database, silent)
    assert everything(busy.store) == before


def test_what_is_no_backup_is_refused(world, tmp_path):
    with pytest.raises(NotFound, match="There is no file"):
        restore(tmp_path / "none.db", world.store.database, silent)
    (tmp_path / "letter").write_text("Dear Sir or Madam, this is no database at all.")
    with pytest.raises(ForeignDatabase, match="not a SQLite database"):
        restore(tmp_path / "letter", world.store.database, silent)
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("CREATE TABLE jobs (id)")
    with pytest.raises(Invalid, match="not a backup of Ostinato"):
        restore(tmp_path / "other.db", world.store.database, silent)


def test_a_read_only_backup_can_be_restored_and_stays_as_it_is(busy, tmp_path):
    file = tmp_path / "copy.db"
    backup(busy.store.database, file, silent)
    content = file.read_bytes()
    file.chmod(0o400)
    with opened(f"sqlite:///{tmp_path}/target.db") as target:
        restore(file, target.database, silent)
    assert file.read_bytes() == content


def test_a_disk_that_refuses_is_one_sentence(busy, tmp_path, monkeypatch):
    def full(_: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(copying, "_flush", full)
    with pytest.raises(StoreError, match=r"cannot be written: No space left on device\."):
        backup(busy.store.database, tmp_path / "copy.db", silent)
    assert not (tmp_path / "copy.db").exists()

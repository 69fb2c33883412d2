"""Whatever happens, the guarantees hold, and the fast path leaves what the rules leave.

TEST_SEEDS=17 pytest tests/simulation              one seed, with its story
TEST_SEEDS=1000-2000 pytest tests/simulation       a thousand
make soak                                          many
"""

import logging
import os
from pathlib import Path

import pytest

from ostinato.store.database import open_database
from tests.schemas import SqliteSchema
from tests.simulation.guarantees import broken
from tests.simulation.ledger import Alarm, Violation
from tests.simulation.twins import Tables, differences, tables_of
from tests.simulation.world import World

CI_SEEDS = 300
POSTGRES_SEEDS = 10
SOAK_SEEDS = 5000
STORY = 150  # lines


def chosen(default: range) -> list[int]:
    """The seeds of this run: `17`, `17,18` or `1000-2000`."""
    text = os.environ.get("TEST_SEEDS", "")
    if not text:
        return list(default)
    first, _, last = text.partition("-")
    return list(range(int(first), int(last) + 1)) if last else [int(seed) for seed in text.split(",")]


def batched(seeds: list[int], size: int) -> list[list[int]]:
    return [seeds[first : first + size] for first in range(0, len(seeds), size)]


def tell(seed: int, database, flaws: list[str] | None = None, **ways) -> World:
    """Let a seed happen; fail with its story if a guarantee does not hold. `ways` are those of a World."""
    alarm, log = Alarm(), logging.getLogger("ostinato")
    world = World(seed, database, **ways)
    level, propagate = log.level, log.propagate
    log.addHandler(alarm)
    log.setLevel(logging.ERROR)
    log.propagate = False
    try:
        world.run()
        found = broken(world, at_the_end=False)
        if not found:
            world.calm_down()
            found = broken(world, at_the_end=True)
        found += alarm.heard
    except Violation as violation:
        found = [str(violation)]
    except Exception as error:
        error.add_note(story(world, ["it raised this"]))
        raise
    finally:
        log.removeHandler(alarm)
        log.setLevel(level)
        log.propagate = propagate
        world.close()
    if flaws is not None:
        flaws += found
    elif found:
        pytest.fail(story(world, found), pytrace=False)
    return world


def story(world: World, found: list[str]) -> str:
    lines = world.trace[-STORY:]
    left_out = [f"… {len(world.trace) - STORY} lines before"] if len(world.trace) > STORY else []
    repeat = f"TEST_SEEDS={world.seed} .venv/bin/python -m pytest tests/simulation -k for_a_seed"
    return "\n".join([f"seed {world.seed}", *left_out, *lines, "", *found, "", f"repeat with: {repeat}"])


def on_sqlite(schema: SqliteSchema, folder: Path, seed: int, **more):
    world, _ = left_on_sqlite(schema, folder, seed, **more)
    return world


def left_on_sqlite(schema: SqliteSchema, folder: Path, seed: int, **more) -> tuple[World, Tables]:
    """Let a seed happen in a file; return also the rows that it leaves."""
    schema.copy_to(folder / "world.db")
    database = open_database(f"sqlite:///{folder}/world.db", durable=False)
    try:
        return tell(seed, database, **more), tables_of(database)
    finally:
        database.close()


def different_twins(schema: SqliteSchema, folder: Path, seed: int, **more) -> list[str]:
    """Let a seed happen with the fast path and without it; say what is different."""
    twins = []
    for name in ("fast", "full"):
        (folder / name).mkdir(parents=True)
        twins.append(left_on_sqlite(schema, folder / name, seed, fast_path=name == "fast", **more))
    return how_they_differ(*twins)


def how_they_differ(fast: tuple[World, Tables], full: tuple[World, Tables]) -> list[str]:
    stories = zip(fast[0].trace, full[0].trace, strict=False)
    first = next((list(pair) for pair in stories if pair[0] != pair[1]), [])
    return first + differences(fast[1], full[1])


@pytest.mark.parametrize("seed", chosen(range(CI_SEEDS)))
def test_the_guarantees_hold_for_a_seed_and_its_twin_without_fast_path_is_equal(seed, sqlite_schema, tmp_path):
    assert different_twins(sqlite_schema, tmp_path, seed) == []


@pytest.mark.parametrize("seed", chosen(range(CI_SEEDS, CI_SEEDS + POSTGRES_SEEDS)))
def test_twins_are_equal_on_postgres(seed, postgres_url, postgres_schema):
    """Without faults and strangers: a claim in one statement has fewer transactions, so other ones would meet the
    faults; and when strangers stand first, it takes fewer runs and leaves the rest to the next claim.
    """
    twins = []
    for fast_path in (True, False):
        postgres_schema.without_rows()
        database = open_database(postgres_url)
        try:
            twins.append((tell(seed, database, fast_path=fast_path, misfortune=False), tables_of(database)))
        finally:
            database.close()
    (_, fast), (_, full) = twins
    assert differences(fast, full) == []


@pytest.mark.parametrize("seed", chosen(range(CI_SEEDS, CI_SEEDS + POSTGRES_SEEDS)))
def test_the_guarantees_hold_for_a_seed_on_postgres(seed, postgres_url):
    database = open_database(postgres_url)
    try:
        tell(seed, database)
    finally:
        database.close()


@pytest.mark.soak
@pytest.mark.parametrize("seeds", batched(chosen(range(100_000, 100_000 + SOAK_SEEDS)), 50))
def test_the_guarantees_hold_for_many_seeds(seeds, sqlite_schema, tmp_path):
    for seed in seeds:
        (folder := tmp_path / str(seed)).mkdir()
        on_sqlite(sqlite_schema, folder, seed)


def test_a_seed_is_always_the_same_story(sqlite_schema, tmp_path):
    stories = []
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        stories.append(on_sqlite(sqlite_schema, tmp_path / folder, 7, flaws=[]).trace)
    assert stories[0] == stories[1]

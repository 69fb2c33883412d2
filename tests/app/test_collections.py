"""Rarer garbage collections in Ostinato's own processes; a user's own threshold stays."""

import asyncio
import gc

import pytest

from ostinato.app.running import YOUNG, run_to_the_end


@pytest.mark.parametrize(
    ("before", "during"),
    [((700, 10, 10), (YOUNG, 10, 10)), ((50_000, 5, 5), (50_000, 5, 5)), ((0, 10, 10), (0, 10, 10))],
)
def test_collections_are_rare_while_it_runs(before, during):
    seen = []

    async def work() -> None:
        seen.append(gc.get_threshold())

    usual = gc.get_threshold()
    gc.set_threshold(*before)
    try:
        run_to_the_end(work())
        assert seen == [during]
        assert gc.get_threshold() == before
    finally:
        gc.set_threshold(*usual)


def test_what_was_there_before_is_left_out_of_collections_while_it_runs():
    seen = []

    async def look():
        seen.append(gc.get_freeze_count())

    run_to_the_end(look())
    assert seen[0] > 1000
    assert gc.get_freeze_count() == 0


def test_what_somebody_has_frozen_stays_frozen():
    ours = [object()]
    gc.freeze()
    try:
        run_to_the_end(asyncio.sleep(0))
        # No exact count: some of the frozen objects are deleted meanwhile.
        assert not any(each is ours for each in gc.get_objects())
    finally:
        gc.unfreeze()

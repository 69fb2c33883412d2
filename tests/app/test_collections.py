"""A process that is ours looks for garbage less often; whoever has chosen how often is left alone."""

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

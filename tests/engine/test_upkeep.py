"""The interval of database upkeep."""

import pytest

from ostinato.engine.duties import OFTEN, RARELY, WANTED, next_pause


@pytest.mark.parametrize(
    ("pause", "pages", "then"),
    [
        (RARELY, 0, RARELY),  # no writes
        (RARELY, 10, RARELY),
        (RARELY, 2 * WANTED, RARELY / 2),
        (1.0, WANTED, 1.0),  # the wanted number
        (1.0, WANTED // 2, 2.0),  # fewer writes
        (RARELY, 1000 * WANTED, OFTEN),
    ],
)
def test_the_more_is_written_the_sooner_again(pause, pages, then):
    assert next_pause(pause, pages) == then

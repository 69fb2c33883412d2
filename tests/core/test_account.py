"""Counters of a run: the last figure of each name, and only what is one."""

from __future__ import annotations

import math

import pytest

from ostinato.core.account import counted
from ostinato.core.errors import Invalid


def test_the_last_figure_of_a_name_counts_and_others_stay():
    first = counted(None, {"mails": 1, "bytes": 20})
    assert counted(first, {"mails": 2, "seconds": 0.5}) == (("mails", 2), ("bytes", 20), ("seconds", 0.5))


@pytest.mark.parametrize(
    ("counters", "said"),
    [
        ({"mails": "three"}, "The counter mails must be a number, not 'three'"),
        ({"mails": True}, "must be a number"),
        ({"mails": None}, "must be a number"),
        ({"mails": math.nan}, "must be a number"),
        ({"mails": math.inf}, "must be a number"),
        ({"m" * 61: 1}, "at most 60 letters"),
        ({f"n{n}": 1 for n in range(51)}, "at most 50 counters"),
    ],
)
def test_what_is_no_counter_is_refused(counters, said):
    with pytest.raises(Invalid, match=said):
        counted(None, counters)

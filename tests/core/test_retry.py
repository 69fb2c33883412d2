"""How long to wait before another attempt."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.core.errors import Invalid
from ostinato.core.policy import Backoff, BackoffKind, delay, spread_out
from tests.build import HOUR, MINUTE, SECOND

HALF = 0.5  # chance that neither adds nor takes away
STEPS = (SECOND, 10 * SECOND, MINUTE)


@pytest.mark.parametrize(
    ("backoff", "seconds"),
    [
        pytest.param(Backoff(), [60, 120, 240, 480, 960, 1920, 3600, 3600], id="our default"),
        pytest.param(Backoff(factor=3), [60, 180, 540, 1620, 3600], id="another factor"),
        pytest.param(Backoff(factor=1), [60, 60, 60], id="a factor of one"),
        pytest.param(Backoff(base=2 * HOUR), [3600, 3600], id="a base beyond the cap"),
        pytest.param(Backoff(base=0 * SECOND), [0, 0, 0], id="no wait at all"),
        pytest.param(Backoff(BackoffKind.LINEAR), [60, 120, 180, 240], id="linear"),
        pytest.param(Backoff(BackoffKind.LINEAR, cap=150 * SECOND), [60, 120, 150, 150], id="linear, capped"),
        pytest.param(Backoff(BackoffKind.FIXED), [60, 60, 60], id="fixed"),
        pytest.param(Backoff(BackoffKind.FIXED, cap=30 * SECOND), [30, 30], id="fixed, capped"),
        pytest.param(Backoff(BackoffKind.STEPS, steps=STEPS), [1, 10, 60, 60], id="steps, the last one repeats"),
        pytest.param(Backoff(BackoffKind.STEPS, steps=(2 * HOUR,)), [3600], id="steps, capped"),
    ],
)
def test_the_wait_grows_with_the_failures(backoff, seconds):
    waits = [delay(backoff, n, HALF).total_seconds() for n in range(1, len(seconds) + 1)]
    assert waits == seconds


@pytest.mark.parametrize("kind", BackoffKind)
def test_failure_ten_thousand_does_not_overflow(kind):
    backoff = Backoff(kind, steps=STEPS, cap=timedelta(days=999_999_999))
    assert delay(backoff, 10_000, HALF) > timedelta(0)


@given(st.sampled_from(BackoffKind), st.integers(1, 50), st.floats(0, 1, exclude_max=True))
def test_chance_adds_or_takes_away_no_more_than_the_spread(kind, failures, chance):
    plain = delay(Backoff(kind, steps=STEPS), failures, HALF)
    spread = delay(Backoff(kind, steps=STEPS, spread=0.25), failures, chance)
    assert 0.75 * plain <= spread <= 1.25 * plain


@pytest.mark.parametrize(("chance", "seconds"), [(0.0, 30), (0.5, 60), (0.999, 89.94)])
def test_suspects_come_back_apart(chance, seconds):
    assert spread_out(MINUTE, chance).total_seconds() == pytest.approx(seconds)


@pytest.mark.parametrize(
    "wrong",
    [
        {"base": -SECOND},
        {"cap": -SECOND},
        {"steps": (-SECOND,)},
        {"factor": 0.5},
        {"spread": 1.5},
        {"spread": -0.1},
        {"kind": BackoffKind.STEPS},
    ],
)
def test_a_backoff_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(Invalid, match=r"\.$"):
        Backoff(**wrong)

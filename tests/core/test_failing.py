"""When a job fails above its usual rate."""

import pytest

from ostinato.core.failing import Ended, Failing, above_usual

NEW = Ended(0, 0)


@pytest.mark.parametrize(
    ("lately", "before", "above"),
    [
        (Ended(0, 0), NEW, False),
        (Ended(50, 0), NEW, False),
        (Ended(0, 1), NEW, True),  # the only run of the day
        (Ended(0, 1), Ended(300, 0), True),
        (Ended(0, 24), Ended(0, 500), True),  # it always fails: that is usual, and needs a person
        (Ended(1, 1), NEW, False),  # a retry completed
        (Ended(42, 8), NEW, True),  # 84 %, and there is no usual rate yet
        (Ended(42, 8), Ended(10, 3), True),  # 13 runs are no usual rate
        (Ended(42, 8), Ended(840, 160), False),  # 84 % as ever
        (Ended(42, 8), Ended(990, 10), True),
        (Ended(36, 14), Ended(840, 160), True),
        (Ended(199, 1), Ended(100_000, 0), False),
        (Ended(198, 2), Ended(100_000, 0), True),
    ],
)
def test_a_job_fails_above_its_usual_rate_or_does_not(lately, before, above):
    assert above_usual(lately, before) is above


def test_the_sentence_has_the_share_the_usual_share_and_the_repeated_error():
    failing = Failing("job sync", "sync", Ended(42, 8), Ended(990, 10), "ConnectionError: refused.", 8)
    assert failing.sentence == (
        "job sync: 8 of the last 50 runs failed (1 % usually); 8 times: ConnectionError: refused"
    )
    first = Failing("job sync", "sync", Ended(0, 1), NEW, "", 1)
    assert first.sentence == "job sync: 1 of the last 1 runs failed"

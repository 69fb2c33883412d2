"""What a run in a process of its own asks about budgets, on both databases."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ostinato.clock import ManualClock
from ostinato.core.auth import InHeader
from ostinato.features.providers.calls import CALLS, admit
from ostinato.features.providers.rows import Providers
from ostinato.features.providers.rules import Provider
from ostinato.store.kernel import Kernel
from ostinato.task.context import written
from tests.build import MINUTE, a_live

HOST = "api.example.org"
LIVE = a_live(running=True)


@pytest.fixture
def kernel(world):
    kernel = Kernel(world.store, ManualClock(world.now), world.store.chance)
    kernel.part(Providers).save(Provider("example.org", 2, MINUTE), world.now, "ann")
    return kernel


def asked(kernel, host=HOST, over=(), live=LIVE):
    reply = admit(kernel, live, {"host": host, "within": 30, "over": list(over)})
    assert written(reply, "providers.admit")  # it goes to another process
    return reply.value


def left(kernel):
    return kernel.part(Providers).standing(kernel.clock.now())[0].left


def test_a_host_without_a_provider_needs_no_permit(kernel):
    assert asked(kernel, "example.com") == {}
    assert left(kernel) == 2


def test_permits_are_given_until_the_budget_is_spent_then_the_time_of_the_next(kernel):
    assert [asked(kernel)["permit"][1:] for _ in range(2)] == [["example.org", None]] * 2
    answer = asked(kernel)
    assert answer["domain"] == "example.org"
    assert answer["opens_in"] > 0


def test_a_permit_brings_the_key_of_its_provider_by_reference(kernel, world):
    key = InHeader("X-Key", "env:SECRET_KEY")
    kernel.part(Providers).save(Provider("example.org", 2, MINUTE, key), world.now, "ann")
    assert asked(kernel)["permit"][2] == {"type": "header", "name": "X-Key", "value": "env:SECRET_KEY"}


def test_a_finished_request_counts_for_one_more_period_and_no_longer(kernel):
    first, second = asked(kernel)["permit"], asked(kernel)["permit"]
    asked(kernel, None, over=[first[:2], second[:2]])
    assert left(kernel) == 0
    kernel.clock.advance(MINUTE * 1.01)
    assert left(kernel) == 2


def test_requests_reported_twice_count_once(kernel):
    permit = asked(kernel)["permit"]
    for _ in range(2):
        asked(kernel, None, over=[permit[:2]])
    assert left(kernel) == 1


def test_each_call_is_tested_with_a_stale_fence_here():
    assert set(CALLS) == {"admit"}


def test_g2_a_request_under_a_stale_fence_still_counts_and_changes_nothing_of_the_run(kernel, world):
    """A run that is lost may still send a request: the host must not see more than its limit."""
    world.enqueue(1)
    live = world.claim(world.worker())[0].live
    before = world.lives(live.job_id)
    assert "permit" in asked(kernel, live=replace(live, fence=live.fence - 1))
    assert left(kernel) == 1
    assert world.lives(live.job_id) == before

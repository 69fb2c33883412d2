"""The gate of outgoing requests: budgets that processes share, on both databases."""

import asyncio
from collections.abc import Iterator

import pytest

from ostinato.chance import RandomChance
from ostinato.clock import ManualClock, SystemClock
from ostinato.core.addresses import EVERYWHERE
from ostinato.core.auth import Bearer, InHeader, InQuery
from ostinato.core.builtin import Permits
from ostinato.core.errors import BudgetSpent, Unreachable
from ostinato.features.providers.gate import Budgets
from ostinato.features.providers.rows import Providers
from ostinato.features.providers.rules import MARGIN, Provider
from ostinato.outgoing import Credentials, Outgoing
from ostinato.store import migrate
from ostinato.store.database import open_database
from ostinato.store.kernel import Kernel
from ostinato.store.store import Store
from tests.build import HOUR, MINUTE, NOW, SECOND
from tests.calls import names, run
from tests.playground import answered

HOST = "127.0.0.1"


@pytest.fixture
def store(database_url) -> Iterator[Store]:
    database = open_database(database_url, durable=False)
    migrate.upgrade(database)
    store = Store(database, RandomChance(1))
    yield store
    store.close()


class Host:
    """A counter of calls to the store."""

    def __init__(self) -> None:
        self.calls = 0

    async def __call__(self, call):
        self.calls += 1
        return await asyncio.to_thread(call)


def ways_out(store, clock, count: int = 1) -> tuple[list[Outgoing], Host]:
    host = Host()
    return [Kernel(store, clock, store.chance).outgoing(host, Permits(egress=EVERYWHERE)) for _ in range(count)], host


async def fetch(out, url: str, **given) -> int:
    async with out.request("GET", url, **{"patience": 0} | given) as reply:
        await reply.read()
        return reply.status


def test_a_spent_budget_says_when_it_opens_and_nothing_is_sent(store, playground):
    async def story():
        clock = ManualClock(NOW)
        (out, other), host = ways_out(store, clock, 2)  # as two processes
        store.part(Providers).save(Provider(HOST, 3, MINUTE), NOW, "ann")
        for each in (out, other, out):
            assert await fetch(each, playground.url("/ok")) == 200
            clock.advance(SECOND)
        await out.close()
        await other.close()  # all permits are reported
        for each in (other, out):
            with pytest.raises(BudgetSpent, match=r"The budget of 127\.0\.0\.1 is used up until") as caught:
                await fetch(each, playground.url("/ok"))
            assert caught.value.until == NOW + MINUTE + MARGIN
            assert caught.value.provider == HOST
        before = host.calls
        for _ in range(10):
            with pytest.raises(BudgetSpent):
                await fetch(out, playground.url("/ok"))
        assert host.calls == before  # known already: no call of the database
        assert len(playground.requests) == 3
        clock.set(caught.value.until)
        assert await fetch(out, playground.url("/ok")) == 200
        await out.close()
        await other.close()

    run(story())


def test_hosts_without_a_provider_cost_nothing(store, playground, monkeypatch):
    async def story():
        store.part(Providers).save(Provider("other.example.org", 1, HOUR), NOW, "ann")
        (out,), host = ways_out(store, ManualClock(NOW))
        for _ in range(20):
            await fetch(out, playground.url("/ok"))
        assert host.calls == 1  # the list of providers
        await out.close()

    run(story())


def test_a_provider_that_comes_or_goes_counts_within_seconds(store, playground):
    async def story():
        clock = ManualClock(NOW)
        (out,), _ = ways_out(store, clock)
        for _ in range(3):
            await fetch(out, playground.url("/ok"))
        store.part(Providers).save(Provider(HOST, 1, HOUR), NOW, "ann")
        clock.advance(2 * SECOND)
        await fetch(out, playground.url("/ok"))
        with pytest.raises(BudgetSpent):
            await fetch(out, playground.url("/ok"))
        store.part(Providers).delete(HOST, NOW, "ann")
        clock.advance(2 * SECOND)
        for _ in range(3):
            await fetch(out, playground.url("/ok"))
        await out.close()

    run(story())


def test_every_hop_is_counted_and_subdomains_share(store, playground, monkeypatch):
    async def story():
        known = {name: [HOST] for name in ("example.org", "a.example.org", "b.example.org", HOST)}
        names(monkeypatch, asyncio.get_running_loop(), **known)
        store.part(Providers).save(Provider("example.org", 3, HOUR), NOW, "ann")
        (out,), _ = ways_out(store, ManualClock(NOW))
        to = playground.url("/ok", host="b.example.org").replace(":", "%3A")
        assert await fetch(out, playground.url(f"/redirect?to={to}", host="a.example.org")) == 200
        with pytest.raises(BudgetSpent) as caught:
            await fetch(out, playground.url(f"/redirect?to={to}", host="example.org"))  # the second hop
        assert caught.value.provider == "example.org"
        assert await fetch(out, playground.url("/ok")) == 200  # another host
        await out.close()

    run(story())
    assert [request.path for request in playground.requests] == ["/redirect", "/ok", "/redirect", "/ok"]


def test_a_request_that_fails_counts_and_gives_its_leave_back_in_time(store, playground):
    async def story():
        clock = ManualClock(NOW)
        (out,), _ = ways_out(store, clock)
        store.part(Providers).save(Provider(HOST, 1, MINUTE), NOW, "ann")
        with pytest.raises(Unreachable):
            await fetch(out, playground.url("/reset"))
        await out.close()
        with pytest.raises(BudgetSpent) as caught:
            await fetch(out, playground.url("/ok"))
        assert caught.value.until == NOW + MINUTE + MARGIN

    run(story())


def test_who_has_patience_waits_for_the_window(store, playground):
    async def story():
        (out,), _ = ways_out(store, SystemClock())
        store.part(Providers).save(Provider(HOST, 5, 0.3 * SECOND), NOW, "ann")
        done = await asyncio.gather(*(fetch(out, playground.url("/ok"), patience=60) for _ in range(20)))
        assert done == [200] * 20
        await out.close()

    run(story())
    assert most_in_any(0.3, [request.at for request in playground.requests]) <= 5


def most_in_any(period: float, times: list[float]) -> int:
    times = sorted(times)
    return max(sum(1 for at in times[index:] if at < first + period) for index, first in enumerate(times))


def test_many_at_once_are_taken_together(store, playground):
    async def story():
        (out,), host = ways_out(store, SystemClock())
        store.part(Providers).save(Provider(HOST, 40, HOUR), NOW, "ann")
        done = await asyncio.gather(*(fetch(out, playground.url("/ok")) for _ in range(30)))
        assert done == [200] * 30
        await out.close()
        assert host.calls < 20

    run(story())
    assert store.part(Providers).standing(SystemClock().now())[0].left == 10


def test_the_key_of_a_provider_goes_along_to_its_hosts_only(store, playground, monkeypatch):
    monkeypatch.setenv("SECRET_PROVIDER_KEY", "s3cret-key")
    monkeypatch.setenv("SECRET_OWN", "own")

    async def story():
        names(monkeypatch, asyncio.get_running_loop(), **{"a.example.org": [HOST], HOST: [HOST]})
        playground.route("/parrot", lambda r: answered(str(r.headers).encode() + r.target.encode(), 400))
        here, clock = playground.url("/parrot", host="a.example.org"), ManualClock(NOW)
        (out,), _ = ways_out(store, clock)
        for key in (
            InHeader("X-Api-Key", "env:SECRET_PROVIDER_KEY"),
            InQuery("key", "env:SECRET_PROVIDER_KEY"),
            Bearer("env:SECRET_PROVIDER_KEY"),
        ):
            store.part(Providers).save(Provider("example.org", 100, HOUR, key), NOW, "ann")
            clock.advance(2 * SECOND)
            async with out.request("GET", here) as reply:
                said = reply.bad("It repeats:", await reply.read()).excerpt
            sent = playground.requests[-1]
            assert str(sent.headers).count("s3cret-key") + sent.target.count("s3cret-key") == 1
            assert "s3cret" not in said
            await fetch(out, playground.url("/parrot"))
            assert "s3cret-key" not in str(playground.requests[-1])
        async with out.request("GET", here, credentials=Credentials(Bearer("env:SECRET_OWN"))):
            assert (
                playground.requests[-1].headers["authorization"] == "Bearer own"
            )  # the request's own credentials have precedence
        await out.close()

    run(story())


def test_the_database_may_be_away_while_nobody_counts(store, playground):
    from ostinato.core.errors import StoreUnavailable

    async def story():
        clock, away = ManualClock(NOW), []

        async def in_store(call):
            if away:
                raise StoreUnavailable("away")
            return call()

        gate = Budgets(store.part(Providers), clock, in_store)
        out = Outgoing(egress=EVERYWHERE, gate=gate)
        await fetch(out, playground.url("/ok"))
        away.append(True)
        clock.advance(MINUTE)
        await fetch(out, playground.url("/ok"))
        await out.close()

    run(story())

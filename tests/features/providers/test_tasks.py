"""Built-in tasks and the budgets of providers: a run with a spent budget is deferred, and its log says so."""

import asyncio
from contextlib import suppress

import pytest

from ostinato.core.errors import Conflict
from ostinato.core.model import Status
from ostinato.features.providers.rules import Provider
from ostinato.features.providers.service import ProviderService
from ostinato.features.sources.service import SourceService
from tests.build import HOUR
from tests.features.sources.test_fetch import HERE, api, app, numbers  # noqa: F401  fixtures
from tests.played_api import a_source_of

HOST = "127.0.0.1"


def test_a_fetch_waits_for_a_budget_and_goes_on_where_it_was(app, api):  # noqa: F811
    service, providers = app.scheduler, app.scheduler.part(ProviderService)
    source = a_source_of(api.url("/offset"), pagination={"type": "offset", "limit": 10})
    providers.put(Provider(HOST, 2, HOUR), by="ann")

    async def story():
        async with app.running(), asyncio.timeout(100):
            made = await asyncio.to_thread(service.part(SourceService).create, source, HERE)
            await until(app, lambda: providers.get(HOST).waiting == 1)
            assert len(api.asked("/offset")) == 2
            assert providers.get(HOST).left == 0
            view = service.jobs.get(made.job.id)
            assert view.status is Status.SCHEDULED
            why = service.jobs.why(made.job.id)
            assert f"It waits for {HOST}'s budget until" in " ".join(why.sentences)
            providers.put(Provider(HOST, 50, HOUR), by="ann")  # waiting runs try again
            await until(app, lambda: app.executions.list(job=made.job.id, limit=5)[0].outcome is not None)
            return app.executions.list(job=made.job.id, limit=5)

    (ended,) = asyncio.run(story())
    assert (ended.outcome, ended.attempt) == ("completed", 0)
    assert numbers(app) == list(range(25))
    assert len(api.asked("/offset")) == 3  # no page twice
    assert (ended.items_crawled, ended.items_indexed) == (25, 25)  # all of them counted
    assert providers.get(HOST).waiting == 0


def test_trying_a_source_takes_from_the_same_budget(app, api):  # noqa: F811
    service = app.scheduler
    service.part(ProviderService).put(Provider(HOST, 1, HOUR), by="ann")
    assert service.part(SourceService).test(a_source_of(api.url("/offset?offset=0")), HERE).records > 0
    with pytest.raises(Conflict, match=r"The budget of 127\.0\.0\.1 is used up until"):
        service.part(SourceService).test(a_source_of(api.url("/offset?offset=0")), HERE)


async def until(app, true) -> None:  # noqa: F811
    """Wait for something; each settle notifies."""
    loop, rung = asyncio.get_running_loop(), asyncio.Event()
    listener = app.parts.store.database.listen(lambda: loop.call_soon_threadsafe(rung.set))
    try:
        while not await asyncio.to_thread(true):
            rung.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(rung.wait(), 0.2)
    finally:
        listener.close()

"""Notices arrive at least once, signed; a failed delivery is retried, and finally given up."""

import asyncio
import hashlib
import hmac
import json
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest

from ostinato.config import Secret
from ostinato.core.addresses import EVERYWHERE, PUBLIC_ONLY, Egress
from ostinato.core.builtin import Permits
from ostinato.core.errors import StoreUnavailable
from ostinato.features.notifications.heartbeat import Heartbeat
from ostinato.features.notifications.notifier import MOST_ATTEMPTS, Notifier, backoff
from ostinato.features.notifications.outbox import Outbox
from ostinato.features.notifications.rules import Hook, Measure, NoticeKind, Threshold
from ostinato.features.providers.rows import Providers
from ostinato.features.providers.rules import Provider
from ostinato.outgoing import Outgoing
from ostinato.store.kernel import Kernel
from tests.build import DAY, HOUR, MINUTE, SECOND
from tests.engine.at_work import idle
from tests.waiting import PATIENCE

GOOD = b"HTTP/1.1 204 No Content\r\n\r\n"


def answered(status: int) -> bytes:
    return f"HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n".encode()


class Listener:
    """A web server that receives notices."""

    def __init__(self) -> None:
        self.answers: list[bytes] = []
        self.heard: list[tuple[dict[str, str], bytes]] = []
        self.port = 0

    async def __aenter__(self) -> "Listener":
        self._server = await asyncio.start_server(self._hear, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
        headers = {"": head} | {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        self.heard.append((headers, body))
        writer.write(self.answers.pop(0) if self.answers else GOOD)
        await writer.drain()
        writer.close()

    @property
    def bodies(self) -> list[dict]:
        return [json.loads(body) for _, body in self.heard]


async def in_store(call):
    return call()


@pytest.fixture
def story(rig):
    """Run a story with a listener, a hook at it, and a notifier."""

    def tell(tale, *kinds: NoticeKind, egress: Egress = EVERYWHERE, **given) -> None:
        async def main() -> None:
            out = Outgoing(egress=egress)
            try:
                async with Listener() as listener:
                    hook = Hook(
                        rig.chance.id(rig.clock.now()), f"http://127.0.0.1:{listener.port}/hook",
                        kinds or (NoticeKind.FINISH,),
                        None, "", MINUTE, (), "", rig.clock.now(), "ann",
                    )  # fmt: skip
                    hook = replace(hook, **given)
                    rig.store.part(Outbox).add_hook(hook)
                    notifier = Notifier(rig.store, rig.clock, rig.telemetry.counts, out, in_store)
                    await asyncio.wait_for(tale(notifier, listener, hook), PATIENCE)
            finally:
                await out.close()

        asyncio.run(main())

    return tell


async def run_once(rig, count: int = 1) -> list[UUID]:
    """Run some jobs."""
    if "work" not in rig.registry.names():

        async def work() -> None: ...

        rig.task(work)
    jobs = rig.enqueue(count)
    worker = await rig.worker(concurrency=20)
    await worker.step()
    await idle(worker)
    return jobs


def deliveries(rig, hook):
    return rig.store.part(Outbox).deliveries(hook.id, 100)


def test_a_notice_arrives_once_and_says_what_happened(rig, story):
    async def tale(notifier, listener, hook):
        (job,) = await run_once(rig)
        assert await notifier.step() == 1
        assert await notifier.step() == 0
        ((headers, _),) = listener.heard
        (body,) = listener.bodies
        assert headers[""] == "POST /hook HTTP/1.1"
        assert headers["content-type"] == "application/json"
        assert headers["ostinato-kind"] == body["kind"] == "finish"
        assert headers["ostinato-id"] == body["id"]
        assert body["job"]["id"] == str(job)
        (delivery,) = deliveries(rig, hook)
        assert (delivery.delivered_at, delivery.answer, delivery.attempts) == (rig.clock.now(), 204, 1)

    story(tale)


def test_whoever_has_the_secret_can_check_the_signature(rig, story, monkeypatch):
    monkeypatch.setenv("SECRET_HOOK", "between us")

    async def tale(notifier, listener, hook):
        await run_once(rig)
        await notifier.step()
        ((headers, body),) = listener.heard
        timestamp = headers["ostinato-timestamp"]
        assert int(timestamp) == int(rig.clock.now().timestamp())
        expected = hmac.new(b"between us", timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
        assert headers["ostinato-signature"] == f"v1={expected}"

    story(tale, secret="env:SECRET_HOOK")


def test_without_its_secret_a_notice_is_not_sent(rig, story, monkeypatch):
    async def tale(notifier, listener, hook):
        await run_once(rig)
        await notifier.step()
        assert listener.heard == []
        (delivery,) = deliveries(rig, hook)
        assert "env:SECRET_HOOK" in delivery.error
        monkeypatch.setenv("SECRET_HOOK", "between us")
        rig.clock.advance(backoff(1))
        await notifier.step()
        assert len(listener.heard) == 1

    story(tale, secret="env:SECRET_HOOK")


def test_a_failed_delivery_is_tried_again_later_and_later(rig, story):
    async def tale(notifier, listener, hook):
        listener.answers = [answered(500), answered(302), b"nonsense\r\n\r\n"]
        await run_once(rig)
        for attempt, error in ((1, "It answered 500."), (2, "It answered 302."), (3, "")):
            assert await notifier.step() == 1
            (delivery,) = deliveries(rig, hook)
            assert delivery.attempts == attempt
            assert error in delivery.error
            assert delivery.due_at == rig.clock.now() + backoff(attempt)
            rig.clock.advance(backoff(attempt) - SECOND)
            assert await notifier.step() == 0
            rig.clock.advance(SECOND)
        await notifier.step()
        (delivery,) = deliveries(rig, hook)
        assert delivery.delivered_at is not None
        assert len({headers["ostinato-id"] for headers, _ in listener.heard}) == 1

    story(tale)


def test_what_cannot_be_delivered_is_given_up_and_told(rig, story, caplog):
    async def tale(notifier, listener, hook):
        listener.answers = [answered(503)] * MOST_ATTEMPTS
        await run_once(rig)
        for attempt in range(1, MOST_ATTEMPTS + 1):
            assert await notifier.step() == 1
            rig.clock.advance(backoff(attempt))
        assert await notifier.step() == 0
        (delivery,) = deliveries(rig, hook)
        assert delivery.given_up_at is not None
        assert delivery.error == "It answered 503."
        (event,) = rig.events("hook.given_up")
        assert json.loads(event.data) == {
            "hook": str(hook.id), "notice": str(delivery.id), "error": "It answered 503.",
        }  # fmt: skip
        assert "A notice could not be delivered" in caplog.text

    story(tale)


def test_whoever_is_gone_is_asked_no_more(rig, story):
    async def tale(notifier, listener, hook):
        listener.answers = [answered(410)]
        await run_once(rig)
        await notifier.step()
        assert deliveries(rig, hook)[0].given_up_at is not None

    story(tale)


def test_private_networks_are_not_called_without_leave(rig, story):
    async def tale(notifier, listener, hook):
        await run_once(rig)
        await notifier.step()
        assert listener.heard == []
        assert "private network" in deliveries(rig, hook)[0].error

    story(tale, egress=PUBLIC_ONLY)


def test_a_bug_in_sending_is_a_failed_attempt(rig, story, caplog):
    async def tale(notifier, listener, hook):
        await run_once(rig)

        async def broken(*_, **__):
            raise RuntimeError("bug")

        notifier._outgoing.call = broken
        assert await notifier.step() == 1
        assert deliveries(rig, hook)[0].error == "It could not be sent: RuntimeError."

    story(tale)


def test_two_notifiers_do_not_both_send(rig, story):
    async def tale(notifier, listener, hook):
        other = Notifier(rig.store, rig.clock, rig.telemetry.counts, notifier._outgoing, in_store)
        await run_once(rig, 10)
        assert sum(await asyncio.gather(notifier.step(), other.step())) == 10
        assert len({body["id"] for body in listener.bodies}) == len(listener.heard) == 10

    story(tale)


def test_what_a_dead_notifier_had_claimed_is_sent_by_another(rig, story):
    async def tale(notifier, listener, hook):
        await run_once(rig)
        rig.store.part(Outbox).claim(hook, rig.clock.now(), MINUTE, 10)  # and dies
        assert await notifier.step() == 0
        rig.clock.advance(MINUTE)
        assert await notifier.step() == 1
        assert listener.heard[0][0]["ostinato-attempt"] == "2"

    story(tale)


def test_what_does_not_begin_is_found(rig, story):
    async def tale(notifier, listener, hook):
        rig.enqueue()
        await notifier.step()
        rig.clock.advance(MINUTE - SECOND)
        await notifier.step()
        assert listener.heard == []
        rig.clock.advance(6 * SECOND)
        await notifier.step()
        rig.clock.advance(HOUR)
        await notifier.step()
        assert [body["kind"] for body in listener.bodies] == ["late_start"]

    story(tale, NoticeKind.LATE_START)


def test_thresholds_are_looked_at(rig, story):
    async def tale(notifier, listener, hook):
        async def fails() -> None:
            raise ValueError("no")

        rig.task(fails)
        rig.enqueue(task="fails")
        worker = await rig.worker()
        await worker.step()
        await idle(worker)
        await notifier.step()
        assert [body["kind"] for body in listener.bodies] == ["success_rate"]

    story(tale, kinds=(), thresholds=(Threshold(Measure.SUCCESS_RATE, 80, HOUR),))


def test_a_spent_budget_postpones_a_notice_and_costs_no_attempt(rig, story):
    """Webhooks share the budget of their host with all others."""

    async def tale(notifier, listener, hook):
        rig.store.part(Providers).save(Provider("127.0.0.1", 1, HOUR), rig.clock.now(), "ann")
        notifier._outgoing = out = Kernel(rig.store, rig.clock, rig.chance).outgoing(
            in_store, Permits(egress=EVERYWHERE)
        )
        await run_once(rig, 2)
        assert await notifier.step() == 2
        assert len(listener.heard) == 1
        (waits,) = [each for each in deliveries(rig, hook) if each.delivered_at is None]
        assert waits.attempts == 0
        assert waits.due_at > rig.clock.now() + 59 * MINUTE
        assert "The budget of 127.0.0.1 is used up until" in waits.error
        assert await notifier.step() == 0
        rig.clock.set(waits.due_at)
        assert await notifier.step() == 1
        assert listener.heard[1][0]["ostinato-attempt"] == "1"
        await out.close()

    story(tale)


def test_what_is_long_over_goes(rig, story):
    async def tale(notifier, listener, hook):
        await run_once(rig)
        await notifier.step()
        rig.clock.advance(29 * DAY)
        await notifier.step()
        assert len(deliveries(rig, hook)) == 1
        rig.clock.advance(2 * DAY)
        await notifier.step()
        assert deliveries(rig, hook) == []

    story(tale)


def test_the_wait_doubles_up_to_an_hour():
    waits = [backoff(attempt) for attempt in range(1, MOST_ATTEMPTS + 1)]
    assert waits[:4] == [10 * SECOND, 20 * SECOND, 40 * SECOND, 80 * SECOND]
    assert waits[-1] == max(waits) == HOUR
    assert sum(waits, timedelta(0)) > 6 * HOUR


# -- heartbeat


def test_the_heart_beats_while_all_is_well(rig, story, caplog):
    caplog.set_level("INFO")

    async def tale(notifier, listener, hook):
        troubles: list[str] = []
        url = Secret(f"http://127.0.0.1:{listener.port}/ping/0b1c")
        heart = Heartbeat(url, notifier._outgoing, rig.telemetry.counts, lambda: list(troubles), in_store)
        assert await heart.step()
        assert listener.heard[0][0][""] == "GET /ping/0b1c HTTP/1.1"
        troubles.append("The dispatcher does not step.")
        assert not await heart.step()
        assert not await heart.step()
        assert len(listener.heard) == 1
        troubles.clear()
        assert await heart.step()
        lines = [record.getMessage() for record in caplog.records if "eartbeat" in record.getMessage()]
        assert len(lines) == 2  # when it stopped, and when it came back
        assert "0b1c" not in caplog.text

    story(tale)


def test_no_trouble_of_the_heartbeat_is_anybody_elses(rig, story):
    async def tale(notifier, listener, hook):
        def away() -> list[str]:
            raise StoreUnavailable("away")

        listener.answers = [answered(500)]
        url = Secret(f"http://127.0.0.1:{listener.port}/")
        for heart in (
            Heartbeat(url, notifier._outgoing, rig.telemetry.counts, list, in_store),  # it answers 500
            Heartbeat(url, notifier._outgoing, rig.telemetry.counts, away, in_store),
            Heartbeat(Secret("http://127.0.0.1:1/"), notifier._outgoing, rig.telemetry.counts, list, in_store),
            Heartbeat(Secret("env:SECRET_NOWHERE"), notifier._outgoing, rig.telemetry.counts, list, in_store),
        ):
            assert not await heart.step()

    story(tale)

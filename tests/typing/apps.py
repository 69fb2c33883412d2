"""Read by mypy, never run: what a type checker says about apps. `test_typing.py` compares."""

from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

from ostinato import Context, Handle, Ostinato
from ostinato.task import Call

app = Ostinato("shop", timezone="Europe/Paris", concurrency=3)


@app.task(every="30m", retries=3, timeout="10m", overlap="skip", never_retry=[ValueError, "KeyError"])
def refresh_prices(region: str = "eu") -> dict[str, int]:
    return {}


@app.task
async def send_email(ctx: Context, to: str, copies: int = 1) -> None: ...


@app.task(cron="0 9 * * mon-fri", timezone="Europe/Paris", first_run="now", backoff=["1s", 5, timedelta(minutes=1)])
async def report(ctx: Context) -> str:
    return ""


@app.on("job:failed")
def notify(event: dict[str, Any]) -> None: ...


# A plain call stays a plain call.
assert_type(refresh_prices("us"), dict[str, int])
sending: Coroutine[Any, Any, None] = send_email("a@example.org")
reporting: Coroutine[Any, Any, str] = report()

# What is right passes.
assert_type(refresh_prices.enqueue(), Handle)
assert_type(refresh_prices.enqueue("us"), Handle)
assert_type(send_email.enqueue(to="a@example.org", copies=2), Handle)
assert_type(send_email.enqueue_in("10m", "a@example.org"), Handle)
assert_type(send_email.enqueue_at(datetime.now(UTC), to="a@example.org"), Handle)
assert_type(send_email.bind(to="a@example.org"), Call)
assert_type(app.enqueue([send_email.bind(to="a@example.org"), refresh_prices.bind()]), list[Handle])
send_email.using(connection=object(), key="welcome-7", priority=1, retries=2).enqueue(to="a@example.org")
app.schedule(refresh_prices.bind(region="us"), cron="0 9 * * *", timezone="Europe/Paris", key="prices-us")
app.schedule(refresh_prices, every=timedelta(hours=1), key="prices-hourly")
app.register("sendEmail", send_email)


async def ask() -> None:
    assert_type(await send_email.aenqueue("a@example.org"), Handle)
    await send_email.aenqueue(3)  # error: arg-type


# Wrong arguments are caught in every way to enqueue.
refresh_prices.enqueue(regoin="us")  # error: call-arg
refresh_prices.enqueue(region=3)  # error: arg-type
send_email.enqueue()  # error: call-arg
send_email.enqueue("a@example.org", copies="2")  # error: arg-type
send_email.enqueue(ctx=1, to="a@example.org")  # error: call-arg
send_email.enqueue_in("10m")  # error: call-arg
send_email.enqueue_in("10m", to=3)  # error: arg-type
send_email.enqueue_in([], "a@example.org")  # error: arg-type
send_email.enqueue_at("tomorrow", "a@example.org")  # error: arg-type
send_email.bind(too="a@example.org")  # error: call-arg
report.enqueue("too much")  # error: call-arg
send_email.using(priority=1).enqueue(2)  # error: arg-type
app.enqueue([send_email])  # error: list-item

# And so are options that do not exist, or that cannot be.
send_email.using(prioritty=1)  # error: call-arg
send_email.using(priority="high")  # error: arg-type
send_email.using(every="30m")  # error: call-arg
app.schedule(refresh_prices.bind(), evry="30m")  # error: call-arg
app.schedule(refresh_prices.bind(), every="30m", overlap="never")  # error: arg-type
app.task(retires=3)  # error: call-overload
app.task(first_run="tomorrow")  # error: call-overload

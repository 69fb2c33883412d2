"""A small shop with example jobs: `make demo` runs it.

It has a job of each kind: one that completes, one that fails and is retried, one that reports progress, one that takes
longer than its interval, and one that only another job enqueues. Three sources fetch the bundled example API
(examples/sources) into tables, a crawl visits its small site, and a workflow runs every two minutes.
"""

import asyncio
import os
import random
import time
from pathlib import Path
from typing import Any

import yaml

from ostinato import Context, Ostinato

API = f"http://127.0.0.1:{os.environ.get('DEMO_API_PORT', '8070')}"

app = Ostinato("demo", allow_private_addresses=True)  # the example API is on this host

for definition in sorted((Path(__file__).parent / "sources").glob("*.yaml")):
    text = definition.read_text("utf-8").replace("http://127.0.0.1:8070", API)
    app.source(yaml.safe_load(text))

app.schedule(
    app.call("crawl", url=f"{API}/site/", delay="0.1s", robots=False, sitemaps=False),
    key="crawl-the-site",
    every="10m",
    first_run="now",
)


@app.task(every="5s", first_run="now")
def heartbeat() -> str:
    """The simplest job."""
    return time.strftime("alive at %H:%M:%S")


@app.task(every="10s", first_run="now", retries=3, backoff=["1s", "2s", "4s"])
def fetch_prices(ctx: Context, region: str = "eu") -> dict[str, float]:
    """Call an API that fails at the first attempt; the retry completes."""
    if ctx.attempt == 0:
        raise ConnectionError(f"the price API of {region} did not answer")
    return {"apples": round(random.uniform(1, 3), 2), "pears": round(random.uniform(2, 4), 2)}


@app.task(every="15s", first_run="now", timeout="1m")
async def build_report(ctx: Context, pages: int = 4) -> str:
    """An async job that reports its progress."""
    for page in range(1, pages + 1):
        await asyncio.sleep(0.8)
        ctx.progress(page, of=pages, message=f"page {page}")
        ctx.log.info("page written", page=page, of=pages)
    return f"{pages} pages"


@app.task(every="3s", first_run="now", overlap="skip")
def slow_import() -> None:
    """A job that takes longer than its interval: due times during a run are recorded as skipped."""
    time.sleep(7)


@app.task
def send_receipt(order: int) -> str:
    """A job without a schedule, which another job enqueues."""
    return f"receipt {order} sent"


@app.task(cron="* * * * *", retries=0)
def take_order(ctx: Context) -> None:
    """Take an order every minute, on the minute, and enqueue a job for its receipt."""
    send_receipt.using(key=f"receipt-{ctx.occurrence_key}").enqueue(order=ctx.number)


@app.task
def count_orders(since: str) -> dict[str, Any]:
    """A step of the workflow below."""
    return {"orders": random.randint(0, 9), "since": since}


@app.task
def write_invoice(orders: int) -> str:
    """A step that runs only if there are orders."""
    return f"{orders} invoices"


@app.workflow(every="2m", first_run="now")
def close_the_books(flow: Any) -> None:
    """Count the orders, then write invoices if there are any."""
    counted = flow.step(count_orders, since="midnight")
    orders = counted.result["orders"]
    flow.using(when=orders > 0).step(write_invoice, orders=orders)


@app.on("job:failed")
def print_failure(event: dict[str, object]) -> None:
    """Print the failure of a job without further retries."""
    if event["retry_in"] is None:
        print(f"  !! {event['task']} gave up: {event['error']}", flush=True)


if __name__ == "__main__":
    app.run()

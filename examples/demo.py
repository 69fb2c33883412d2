"""A small shop that keeps itself busy: `make demo` runs it.

Every way a job can behave is here once: one that just runs, one that fails and is tried again, one that reports
how far it is, one that takes longer than its interval, and one that is only there when somebody asks. Three sources
fetch the bundled example API (examples/sources) into tables, a crawl visits the pages of its small site, and a workflow
closes the books every two minutes.
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
    """The simplest job there is."""
    return time.strftime("alive at %H:%M:%S")


@app.task(every="10s", first_run="now", retries=3, backoff=["1s", "2s", "4s"])
def fetch_prices(ctx: Context, region: str = "eu") -> dict[str, float]:
    """An API that fails at the first try; the retry gets through."""
    if ctx.attempt == 0:
        raise ConnectionError(f"the price API of {region} did not answer")
    return {"apples": round(random.uniform(1, 3), 2), "pears": round(random.uniform(2, 4), 2)}


@app.task(every="15s", first_run="now", timeout="1m")
async def build_report(ctx: Context, pages: int = 4) -> str:
    """An async job that says how far it has come."""
    for page in range(1, pages + 1):
        await asyncio.sleep(0.8)
        ctx.progress(page, of=pages, message=f"page {page}")
        ctx.log.info("page written", page=page, of=pages)
    return f"{pages} pages"


@app.task(every="3s", first_run="now", overlap="skip")
def slow_import() -> None:
    """Takes longer than its interval: the due times it sleeps through are skipped, and recorded as such."""
    time.sleep(7)


@app.task
def send_receipt(order: int) -> str:
    """Enqueued by another job rather than scheduled."""
    return f"receipt {order} sent"


@app.task(cron="* * * * *", retries=0)
def take_order(ctx: Context) -> None:
    """Every minute, on the minute, an order comes in; its receipt is a job of its own."""
    send_receipt.using(key=f"receipt-{ctx.occurrence_key}").enqueue(order=ctx.number)


@app.task
def count_orders(since: str) -> dict[str, Any]:
    """A step of the workflow below."""
    return {"orders": random.randint(0, 9), "since": since}


@app.task
def write_invoice(orders: int) -> str:
    """A step that runs only when there is something to write."""
    return f"{orders} invoices"


@app.workflow(every="2m", first_run="now")
def close_the_books(flow: Any) -> None:
    """Count, then write, if there was an order."""
    counted = flow.step(count_orders, since="midnight")
    orders = counted.result["orders"]
    flow.using(when=orders > 0).step(write_invoice, orders=orders)


@app.on("job:failed")
def tell(event: dict[str, object]) -> None:
    """What failed is told to whoever listens in this process."""
    if event["retry_in"] is None:
        print(f"  !! {event['task']} gave up: {event['error']}", flush=True)


if __name__ == "__main__":
    app.run()

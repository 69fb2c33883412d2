"""A shop that has been busy for two days: what the screenshots show."""

import asyncio
import random

from ostinato import Context, Ostinato

app = Ostinato("shop")


async def works(ctx: Context, seconds: float) -> random.Random:
    """About so long; the same for one occurrence, whenever it is played."""
    chance = random.Random(f"{ctx.definition.task} {ctx.number} {ctx.attempt}")
    seconds *= chance.uniform(0.7, 1.4) * (4 if chance.random() < 0.03 else 1)
    await asyncio.sleep(seconds)  # simulated
    return chance


@app.task(every="10m", tags=["prices"], retries=2, backoff="30s", queue="imports")
async def fetch_prices(ctx: Context, region: str = "eu") -> dict[str, int]:
    """Ask the price API of a region."""
    ctx.log.info("asking", region=region)
    chance = await works(ctx, 2.4)
    if chance.random() < 0.12:
        raise ConnectionError(f"the price API of {region} did not answer within 10 s")
    ctx.log.info("prices stored", changed=chance.randrange(400))
    return {"changed": chance.randrange(400)}


@app.task(cron="0 2 * * *", timezone="Europe/Paris", tags=["nightly"], timeout="30m", priority=2)
async def nightly_backup(ctx: Context) -> dict[str, str]:
    """Copy the database to the other house."""
    await works(ctx, 95)
    return {"file": "backup.sql.gz"}


@app.task(cron="*/15 8-18 * * mon-fri", timezone="Europe/Paris", tags=["mail"])
async def send_reminders(ctx: Context) -> dict[str, int]:
    """Remind those who left their basket standing."""
    chance = await works(ctx, 1.1)
    return {"sent": chance.randrange(60)}


@app.task(every="1h", tags=["stock"], queue="imports", retries=1, backoff="2m")
async def sync_warehouse(ctx: Context, pages: int = 40) -> dict[str, int]:
    """Bring the stock in line with the warehouse, page by page."""
    for page in range(1, pages + 1):
        ctx.progress(page, of=pages, message=f"shelf {page}")
        ctx.log.info("shelf counted", shelf=page)
        await works(ctx, 2.0)
    return {"pages": pages}


@app.task(every="5m", overlap="skip", tags=["search"])
async def rebuild_index(ctx: Context) -> dict[str, int]:
    """Make the index of the search anew; sometimes slower than its interval."""
    chance = await works(ctx, 70)
    return {"documents": 18_000 + chance.randrange(900)}


@app.task(cron="30 6 * * mon", timezone="Europe/Paris", tags=["nightly", "reports"])
async def weekly_report(ctx: Context) -> str:
    """What was sold, for those who decide."""
    await works(ctx, 30)
    return "12 pages"


@app.task(every="2h", retries=1, backoff="1m", tags=["partners"])
async def export_partners(ctx: Context) -> None:
    """The partner's server has been away since yesterday."""
    await works(ctx, 3)
    raise TimeoutError("sftp.partner.example did not answer: the connection timed out after 30 s")


@app.task
async def collect_orders(ctx: Context, region: str = "eu") -> dict[str, int]:
    chance = await works(ctx, 0.3)
    return {"count": 100 + chance.randrange(50)}


@app.task
async def make_invoice(ctx: Context, count: int = 0) -> dict[str, int]:
    await works(ctx, 0.3)
    return {"invoices": count}


@app.task
async def tell_team(ctx: Context, text: str = "") -> str:
    await works(ctx, 0.2)
    return text

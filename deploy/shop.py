"""The app of these examples: put yours in its place."""

from ostinato import Context, Ostinato

app = Ostinato("shop")


@app.task(every="30m", retries=3, timeout="10m")
def refresh_prices(region: str = "eu") -> dict[str, int]:
    return {"apples": 3}


@app.task
async def send_email(ctx: Context, to: str) -> None:
    ctx.log.info("sending", to=to)

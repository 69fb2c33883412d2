"""A shop in Flask: an order is confirmed later, by a worker. The tasks use the app as a request does.

flask --app shop run
flask --app shop ostinato worker
"""

from uuid import UUID

from flask import Flask, current_app, request

from ostinato import Ostinato
from ostinato.flask import attach

jobs = Ostinato("shop", database_url="sqlite:///shop.db")


@jobs.task(retries=3)
def confirm(to: str) -> str:
    return f"{current_app.config['SHOP_NAME']} has your order, {to}."


@jobs.task(isolation="process", timeout="10m")
def report() -> str:
    return f"The report of {current_app.config['SHOP_NAME']}."


@jobs.task(every="1h")
def count_orders() -> int:
    current_app.logger.info("Counting the orders")
    return len(jobs.jobs.list(task="confirm"))


def create_app() -> Flask:
    app = Flask(__name__)
    app.config.from_mapping(SHOP_NAME="The corner shop")
    attach(jobs, app)

    @app.post("/orders")
    def order() -> tuple[dict[str, str], int]:
        handle = confirm.enqueue(request.get_json()["to"])
        return {"order": str(handle.id)}, 202

    @app.get("/orders/<uuid:order_id>")
    def show(order_id: UUID) -> dict[str, str]:
        return {"status": jobs.handle(order_id).status.value}

    return app

"""A web shop on FastAPI: orders are confirmed by jobs, enqueued in the transaction of the request.

uvicorn shop:app        then http://127.0.0.1:8000/ops/ is the dashboard
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI
from pydantic import BaseModel
from sqlalchemy import create_engine, event, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from sqlalchemy.schema import CreateTable

from ostinato import Ostinato

DATABASE = "sqlite:///shop.db"
jobs = Ostinato("shop", database_url=DATABASE)
engine = create_engine(DATABASE)


@event.listens_for(engine, "connect")
def wait_for_writers(connection, _) -> None:
    connection.execute("PRAGMA journal_mode=WAL")


class Base(DeclarativeBase):
    """The tables of the shop."""


class Order(Base):
    """An order of a customer."""

    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    to: Mapped[str]
    confirmed: Mapped[bool] = mapped_column(default=False)


@jobs.task(retries=3)
def confirm(order: int) -> str:
    with Session(engine) as session, session.begin():
        found = session.get_one(Order, order)
        found.confirmed = True
        return f"Order {order} is confirmed, {found.to}."


@jobs.task(every="1h")
def clean_up() -> None: ...


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    with engine.begin() as connection:  # several workers may start at once
        connection.execute(CreateTable(Order.__table__, if_not_exists=True))
    async with jobs.running():  # a worker in this process; it finishes its runs at shutdown
        yield


app = FastAPI(lifespan=lifespan)
app.mount("/ops", jobs.asgi())


def a_session() -> Iterator[Session]:
    with Session(engine) as session, session.begin():
        yield session


class NewOrder(BaseModel):
    """The body of an order."""

    to: str


@app.post("/orders", status_code=202)
def order(body: NewOrder, session: Annotated[Session, Depends(a_session, scope="function")]) -> dict[str, str | int]:
    made = Order(to=body.to)
    session.add(made)
    session.flush()  # now it has its id
    job = confirm.using(connection=session).enqueue(made.id)
    return {"order": made.id, "job": str(job.id)}


@app.get("/orders")
def orders(session: Annotated[Session, Depends(a_session, scope="function")]) -> list[dict[str, str | bool]]:
    return [{"to": each.to, "confirmed": each.confirmed} for each in session.scalars(select(Order))]


@app.get("/jobs/{job}")
async def state(job: str) -> dict[str, str]:
    return {"status": (await jobs.aio.jobs.get(job)).status}

"""Read by mypy, never run: what a type checker says about tasks. `test_typing.py` compares."""

from collections.abc import Coroutine
from typing import Any, assert_type

from ostinato.task import Call, Context, Task


def refresh(region: str = "eu", *, force: bool = False) -> dict[str, int]:
    return {}


async def send(ctx: Context, to: str, copies: int = 1) -> None: ...


def on_thread(ctx: Context) -> int:
    return 1


refresh_task = Task(refresh)
send_task = Task(send)
context_only = Task(on_thread, "other-name")

assert_type(refresh_task("us"), dict[str, int])
assert_type(refresh_task.bind(region="us", force=True), Call)
to_be_awaited: Coroutine[Any, Any, None] = send_task("a@example.org")
assert_type(send_task.bind(to="a@example.org", copies=2), Call)
assert_type(context_only(), int)
assert_type(context_only.bind(), Call)

refresh_task.bind(regoin="us")  # error: call-arg
refresh_task.bind(region=3)  # error: arg-type
refresh_task.bind("us", True)  # error: call-arg
send_task.bind()  # error: call-arg
send_task.bind("a@example.org", copies="2")  # error: arg-type
send_task.bind(ctx=1, to="a@example.org")  # error: call-arg
context_only.bind("too much")  # error: call-arg
send_task(3)  # error: arg-type, unused-coroutine

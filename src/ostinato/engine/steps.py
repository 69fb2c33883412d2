"""The time that one coroutine takes of a loop that many share."""

import time
import types
from collections.abc import Callable, Generator
from typing import Any, Protocol

CLOCK = time.perf_counter  # the CPU time of a thread would be truer, and costs ten times as much to ask for


class Paying(Protocol):
    """The account that is charged: seconds of CPU, and the number of steps."""

    cpu: float
    steps: int


Within = Callable[[Callable[[Any], Any], Any], Any]  # contextvars.Context.run


@types.coroutine
def charged(coroutine: Any, who: Paying, within: Within) -> Generator[Any, Any, Any]:
    """Await a coroutine, `within` its own contextvars, and charge each of its steps: the time between is others'.

    This is `yield from` written out (PEP 380), with a clock around each step.
    """
    step, sent = coroutine.send, None
    while True:
        began = CLOCK()
        try:
            awaited = within(step, sent)
        except StopIteration as end:
            return end.value
        finally:
            who.cpu += CLOCK() - began
            who.steps += 1
        try:
            step, sent = coroutine.send, (yield awaited)
        except GeneratorExit:
            coroutine.close()
            raise
        except BaseException as error:  # noqa: BLE001  it is the coroutine's to deal with
            step, sent = coroutine.throw, error

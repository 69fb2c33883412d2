"""The time that one coroutine takes of a loop that many share."""

import time
import types
from collections.abc import Generator
from typing import Any, Protocol

CLOCK = time.perf_counter  # the CPU time of a thread would be truer, and costs ten times as much to ask for


class Paying(Protocol):
    """Who is charged, in seconds."""

    cpu: float


@types.coroutine
def charged(coroutine: Any, who: Paying) -> Generator[Any, Any, Any]:
    """Await a coroutine, and charge each of its steps: what happens between them is others' time.

    This is `yield from` written out (PEP 380), with a clock around each step.
    """
    step, sent = coroutine.send, None
    while True:
        began = CLOCK()
        try:
            awaited = step(sent)
        except StopIteration as end:
            return end.value
        finally:
            who.cpu += CLOCK() - began
        try:
            step, sent = coroutine.send, (yield awaited)
        except GeneratorExit:
            coroutine.close()
            raise
        except BaseException as error:  # noqa: BLE001  it is the coroutine's to deal with
            step, sent = coroutine.throw, error

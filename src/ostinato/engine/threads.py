"""Threads for `def` tasks: a few, kept, started when they are needed."""

from collections.abc import Callable


class Threads:
    """Runs calls on at most `size` daemon threads (a stuck one must not keep the process from ending)."""

    def __init__(self, size: int, name: str = "ostinato") -> None: ...
    def submit(self, call: Callable[[], None]) -> None:
        """Run `call` on a thread, in a copy of the caller's contextvars. It must not raise."""

    def resize(self, size: int) -> None:
        """Allow more threads, or let some go when they are done."""

    def stop(self) -> None:
        """Let every thread go when it is done; waits for none."""

"""Threads for `def` tasks."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from functools import partial
from queue import SimpleQueue

import pytest

from ostinato.core.errors import StoreUnavailable
from ostinato.engine.threads import StoreThreads, Threads
from tests.waiting import PATIENCE

WHO = ContextVar("who", default="nobody")


@pytest.fixture
def threads() -> Iterator[Threads]:
    threads = Threads(2, "test")
    yield threads
    threads.stop()


def names() -> list[str]:
    return sorted(thread.name for thread in threading.enumerate() if thread.name.startswith("test-"))


def gone(thread_names: list[str]) -> bool:
    for thread in threading.enumerate():
        if thread.name in thread_names:
            thread.join(PATIENCE)
    return not set(names()) & set(thread_names)


class Held:
    """A call that stays on its thread until it is released."""

    def __init__(self, threads: Threads) -> None:
        self.begun, self.let_go = threading.Event(), threading.Event()
        threads.submit(self)

    def __call__(self) -> None:
        self.begun.set()
        assert self.let_go.wait(PATIENCE)


def test_threads_are_started_when_they_are_needed_and_kept(threads):
    assert names() == []
    done: SimpleQueue[str] = SimpleQueue()
    for _ in range(50):
        threads.submit(lambda: done.put(threading.current_thread().name))
        assert done.get(timeout=PATIENCE).startswith("test-")
    assert len(names()) <= 2


def test_no_more_run_at_once_than_there_are_threads(threads):
    held = [Held(threads) for _ in range(3)]
    assert held[0].begun.wait(PATIENCE)
    assert held[1].begun.wait(PATIENCE)
    assert not held[2].begun.is_set()
    held[0].let_go.set()
    assert held[2].begun.wait(PATIENCE)
    held[1].let_go.set()
    held[2].let_go.set()


def test_calls_that_wait_are_all_under_way_at_once():
    threads = Threads(40, "test")
    held = [Held(threads) for _ in range(40)]
    assert all(each.begun.wait(PATIENCE) for each in held)
    for each in held:
        each.let_go.set()
    threads.stop()
    assert gone(names())


def test_short_calls_pass_those_that_wait(threads):
    held, done = Held(threads), SimpleQueue[int]()
    for number in range(1000):
        threads.submit(partial(done.put, number))
    assert [done.get(timeout=PATIENCE) for _ in range(1000)] == list(range(1000))
    held.let_go.set()


def test_whoever_goes_passes_on_what_it_was_called_for(threads):
    for _ in range(200):  # each time the same race
        threads.resize(2)
        held = [Held(threads), Held(threads)]
        assert all(each.begun.wait(PATIENCE) for each in held)
        for each in held:
            each.let_go.set()
        threads.resize(1)
        done = threading.Event()
        threads.submit(done.set)
        assert done.wait(PATIENCE)


def test_a_call_has_a_copy_of_its_callers_context(threads):
    seen: SimpleQueue[str] = SimpleQueue()

    def call() -> None:
        seen.put(WHO.get())
        WHO.set("changed")

    token = WHO.set("caller")
    threads.submit(call)
    threads.submit(call)
    assert [seen.get(timeout=PATIENCE), seen.get(timeout=PATIENCE)] == ["caller", "caller"]
    assert WHO.get() == "caller"
    WHO.reset(token)


def test_more_threads_are_there_after_a_resize(threads):
    held = [Held(threads), Held(threads)]
    assert all(each.begun.wait(PATIENCE) for each in held)
    threads.resize(3)
    third = Held(threads)
    assert third.begun.wait(PATIENCE)
    for each in [*held, third]:
        each.let_go.set()


def test_surplus_threads_go_as_they_become_free(threads):
    held = [Held(threads), Held(threads)]
    assert all(each.begun.wait(PATIENCE) for each in held)
    before = names()
    threads.stop()
    assert names() == before, "nobody is waited for"
    for each in held:
        each.let_go.set()
    assert gone(before)


def test_what_was_submitted_is_still_done_after_a_stop(threads):
    held = [Held(threads), Held(threads)]
    assert all(each.begun.wait(PATIENCE) for each in held)
    done = threading.Event()
    threads.submit(done.set)
    threads.stop()
    held[0].let_go.set()
    held[1].let_go.set()
    assert done.wait(PATIENCE)


def test_a_thread_that_hangs_does_not_keep_the_process_from_ending():
    program = (
        "import threading; from ostinato.engine.threads import Threads\n"
        "begun = threading.Event()\n"
        "def hang(): begun.set(); threading.Event().wait()\n"
        "Threads(1).submit(hang); begun.wait()"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=PATIENCE)


def test_an_idle_thread_keeps_nothing_of_its_last_call_alive(threads):
    import weakref

    class Large:
        def __call__(self) -> None:
            pass

    call = Large()
    watched, freed = weakref.ref(call), threading.Event()
    weakref.finalize(call, freed.set)
    threads.submit(call)
    del call
    assert freed.wait(PATIENCE)
    assert watched() is None


def test_a_call_for_which_there_is_no_thread_is_refused_and_never_made(threads, monkeypatch):
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    made = []
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError):
            threads.submit(lambda: made.append("refused"))
        with pytest.raises(StoreUnavailable):
            StoreThreads(1).submit(lambda: None)
    done = threading.Event()
    threads.submit(done.set)
    assert done.wait(PATIENCE)
    assert made == []

"""Logs: numbered in the order of arrival, bounded in size, and deleted with their execution."""

import logging
from uuid import uuid4

from ostinato.core.model import FIRST_ID
from ostinato.core.read_models import Stream
from ostinato.store.history import Keep
from ostinato.store.logs import LEAST_COUNTED, LogLine, size_of
from tests.build import MINUTE
from tests.store.conftest import together
from tests.store.test_history import prune, with_history

MOST = 1000


def a_line(execution_id, text, world, level=logging.INFO, stream=Stream.LOG):
    return LogLine(execution_id, world.now, level, stream, text, size_of(text))


def append(world, execution_id, *texts, store=None, most=MOST, cut=0, **how):
    lines = [a_line(execution_id, text, world, **how) for text in texts]
    (store or world.store).logs.append(lines, {execution_id: cut} if cut else {}, most)


def an_execution_of(world):
    (job_id,) = world.enqueue()
    return world.lives(job_id)[0].id


def texts(page):
    return [line.text for line in page.lines]


def test_lines_are_kept_as_they_came_and_numbered_from_one(world):
    execution_id = an_execution_of(world)
    append(world, execution_id, "one", "zwei ü\n  and more")
    append(world, execution_id, "", level=logging.ERROR, stream=Stream.STDERR)
    page = world.store.logs.read(execution_id)
    assert [(line.number, line.level, line.stream, line.text) for line in page.lines] == [
        (1, logging.INFO, Stream.LOG, "one"),
        (2, logging.INFO, Stream.LOG, "zwei ü\n  and more"),
        (3, logging.ERROR, Stream.STDERR, ""),
    ]
    assert {line.at for line in page.lines} == {world.now}
    assert (page.next, page.cut) == (3, 0)


def test_of_an_execution_that_wrote_nothing_there_is_nothing(world):
    page = world.store.logs.read(an_execution_of(world))
    assert (page.lines, page.next, page.cut) == ((), 0, 0)


def test_reading_goes_on_after_a_number_without_a_gap(world):
    execution_id = an_execution_of(world)
    append(world, execution_id, *map(str, range(25)))
    seen, after = [], 0
    while page := world.store.logs.read(execution_id, after, limit=10):
        seen += texts(page)
        after = page.next
        if len(page.lines) < 10:
            break
    assert seen == [str(n) for n in range(25)]
    append(world, execution_id, "new")
    assert texts(world.store.logs.read(execution_id, after)) == ["new"]


def test_only_grave_lines_are_read_and_the_others_passed_over(world):
    execution_id = an_execution_of(world)
    for n, level in enumerate([logging.DEBUG, logging.WARNING, logging.INFO, logging.ERROR, logging.INFO]):
        append(world, execution_id, str(n), level=level)
    page = world.store.logs.read(execution_id, level=logging.WARNING)
    assert (texts(page), page.next) == (["1", "3"], 5)


def test_a_log_ends_where_it_is_full_and_the_rest_is_counted(world):
    execution_id = an_execution_of(world)
    append(world, execution_id, *["x" * 99] * 8)
    append(world, execution_id, "y" * 149, "z" * 149, "short")  # it would fit, but leave a gap
    page = world.store.logs.read(execution_id)
    assert texts(page) == ["x" * 99] * 8 + ["y" * 149]
    assert page.cut == 150 + LEAST_COUNTED
    append(world, execution_id, "late", cut=1_000_000)
    assert world.store.logs.read(execution_id).cut == 150 + 2 * LEAST_COUNTED + 1_000_000


def test_empty_lines_cannot_fill_the_database(world):
    execution_id = an_execution_of(world)
    append(world, execution_id, *[""] * MOST)
    assert len(world.store.logs.read(execution_id, limit=10_000).lines) == MOST // LEAST_COUNTED


def test_two_logs_do_not_mix(world):
    one, other = an_execution_of(world), an_execution_of(world)
    mixed = [a_line((one, other)[n % 2], f"{n % 2}-{n}", world) for n in range(20)]
    world.store.logs.append(mixed, {}, MOST)
    assert texts(world.store.logs.read(one)) == [f"0-{n}" for n in range(0, 20, 2)]
    assert texts(world.store.logs.read(other)) == [f"1-{n}" for n in range(1, 20, 2)]


def test_two_who_write_one_log_at_once_lose_nothing(world):
    """A worker that was believed lost, and the one that has its execution now."""
    execution_id = an_execution_of(world)
    append(world, execution_id, "first")
    stores = [world.another() for _ in range(2)]

    def write(which):
        for n in range(10):
            append(world, execution_id, f"{which}-{n}", store=stores[which])

    together(lambda: write(0), lambda: write(1))
    page = world.store.logs.read(execution_id)
    assert [line.number for line in page.lines] == list(range(1, 22))
    for which in range(2):
        own = [text for text in texts(page) if text.startswith(f"{which}-")]
        assert own == [f"{which}-{n}" for n in range(10)]


def rows_of_logs(world):
    return len(world.sql("SELECT 1 FROM {logs}")), len(world.sql("SELECT 1 FROM {log_sizes}"))


def test_of_an_execution_that_is_not_there_nothing_is_kept(world):
    append(world, uuid4(), "who?")
    assert rows_of_logs(world) == (0, 0)


def test_logs_go_with_their_executions(world):
    job_id = with_history(world, 10, age=40 * 24 * 60 * MINUTE)
    for execution in world.history(job_id):
        append(world, execution.id, f"of {execution.number}")
    prune(world, Keep(executions=3, days=30))
    left = world.history(job_id)
    assert [texts(world.store.logs.read(each.id)) for each in left] == [["of 10"], ["of 9"], ["of 8"]]
    assert rows_of_logs(world) == (3, 3)


def test_logs_go_with_their_job(world):
    job_id = with_history(world, 3)
    for execution in world.history(job_id):
        append(world, execution.id, "something")
    world.command(job_id, "delete")
    assert world.store.history.remove_deleted() == 1
    assert rows_of_logs(world) == (0, 0)


def test_a_log_that_has_lost_its_execution_is_found_and_taken_away(world):
    job_id = with_history(world, 2)
    gone, stays = world.history(job_id)
    for execution in (gone, stays):
        append(world, execution.id, "something")
    live = an_execution_of(world)
    append(world, live, "something")
    world.sql("DELETE FROM {executions} WHERE id = :id RETURNING id", id=gone.id)
    assert world.store.logs.remove_orphans(FIRST_ID) is None
    assert rows_of_logs(world) == (2, 2)
    assert texts(world.store.logs.read(stays.id)) == texts(world.store.logs.read(live)) == ["something"]


def test_lines_of_unknown_size_are_a_problem(world):
    execution_id = an_execution_of(world)
    append(world, execution_id, "something")
    assert world.store.audit.problems() == []
    world.sql("DELETE FROM {log_sizes} WHERE lines = 1 RETURNING lines")
    assert world.store.audit.problems() == [f"The log of {execution_id} is of unknown size."]

"""Jobs and executions are found: filters, sorts, pages without gaps, totals that are right."""

import base64
import json
from datetime import timedelta
from uuid import UUID

import pytest

from ostinato.core.errors import Conflict, Invalid, NotFound, Stale
from ostinato.core.model import Status
from ostinato.service import JobFilter
from ostinato.store import search as searches
from ostinato.store.history import Keep
from tests.build import HOUR, MINUTE, SECOND
from tests.store.conftest import DONE, FAILURE, edited

SORTS = ["created_at", "updated_at", "name", "next_run_at", "priority", "status"]


def found(service, sort="-created_at", **chosen):
    return [view.id for view in service.jobs.search(JobFilter(**chosen), sort=sort, limit=250).items]


@pytest.fixture
def mixed(world):
    """Thirty jobs of every status, some of them equal in all that can be sorted by."""
    worker, made = world.worker(), []
    for i in range(30):
        if i % 3:
            world.advance(SECOND)
        given = {"name": f"Job {i % 7}", "priority": 1 + i % 4, "tags": (f"t{i % 3}",), "queue": f"q{i % 2}"}
        made.append(world.add_one(every=HOUR * (1 + i % 5), **given))
    for job_id in made[::5]:
        world.command(job_id, "pause")
    for job_id in made[1::5]:
        world.command(job_id, "cancel")
    for job_id in made[2::5]:
        world.command(job_id, "run", None)
    world.claim(worker, limit=3)
    made += world.enqueue(name="once")
    made.append(world.add_one(manual=True, name="by hand"))
    return made


# -- jobs


@pytest.mark.parametrize("sort", [*SORTS, *(f"-{sort}" for sort in SORTS)])
def test_pages_of_every_sort_hold_every_job_once_in_order(service, mixed, sort):
    whole = service.jobs.search(sort=sort, limit=250)
    assert (whole.total, whole.cursor) == (len(mixed), None)
    assert {view.id for view in whole.items} == set(mixed)
    keys = [_key(view, sort.lstrip("-")) for view in whole.items]
    told = [key for key in keys if key is not None]
    assert told == sorted(told, reverse=sort.startswith("-"))
    assert keys == told + [None] * (len(keys) - len(told))  # without a next time: last in both directions

    paged, cursor = [], None
    while True:
        page = service.jobs.search(sort=sort, limit=7, cursor=cursor)
        assert page.total == len(mixed)
        paged += page.items
        cursor = page.cursor
        if cursor is None:
            break
    assert paged == list(whole.items)
    by_offset = [view for at in range(0, 35, 7) for view in service.jobs.search(sort=sort, limit=7, offset=at).items]
    assert by_offset == paged


def _key(view, sort):
    match sort:
        case "name":
            return view.definition.name.lower()
        case "priority":
            return view.definition.priority
        case "status" | "next_run_at":
            return getattr(view, sort)
        case _:
            return getattr(view.facts, sort)


def test_a_page_goes_on_where_the_last_one_ended_though_jobs_come_and_go(world, service):
    ids = world.add(6)
    page = service.jobs.search(limit=3)
    world.advance(MINUTE)
    world.add(2)
    service.jobs.delete(page.items[-1].id)
    rest = service.jobs.search(limit=3, cursor=page.cursor)
    assert [view.id for view in [*page.items, *rest.items]] == sorted(ids, reverse=True)
    assert rest.total == 7


def test_each_status_is_found_and_counted(service, mixed):
    counts = service.status_counts()
    assert set(counts) == set(Status)
    assert sum(counts.values()) == len(mixed)
    for status in Status:
        page = service.jobs.search(JobFilter(frozenset([status])), limit=2)
        everything = found(service, statuses=frozenset([status]))
        assert page.total == counts[status] == len(everything)
        assert all(service.jobs.get(job_id).status is status for job_id in everything)
    two = frozenset([Status.PAUSED, Status.CANCELLED])
    assert len(found(service, statuses=two)) == counts[Status.PAUSED] + counts[Status.CANCELLED]
    assert sum(count > 0 for count in counts.values()) >= 5


def test_filters_are_combined(world, service):
    a = world.add_one(task="other", queue="q", tags=("news", "eu"), name="Prices")
    b = world.add_one(task="other", queue="q", tags=("news",))
    c = world.add_one(task="work", queue="q", tags=("eu",), app="shop")
    assert found(service) == sorted([a, b, c], reverse=True)
    assert found(service, task="other") == sorted([a, b], reverse=True)
    assert found(service, queue="q", tag="eu") == sorted([a, c], reverse=True)
    assert found(service, app="shop") == [c]
    assert found(service, app="") == sorted([a, b], reverse=True)
    assert found(service, task="other", tag="eu", text="prices") == [a]
    assert found(service, task="other", tag="eu", text="nope") == []


@pytest.mark.parametrize("tag", ["a", "a b", 'say "b"', "b\\", "[x", ", y", "ä", "%", "_", "日本", "A"])
def test_a_tag_is_found_whole_and_by_no_part_of_another(world, service, tag):
    others = ['x", "a', "aa", "a ", 'say "b" ', '"', "b\\\\", "x]", "y", "a-umlaut", "%%", "B", "日"]
    other = world.add_one(tags=tuple(each for each in others if each != tag))
    mine = world.add_one(tags=("first", tag, "last"))
    assert found(service, tag=tag) == [mine]
    assert other not in found(service, tag=tag)


@pytest.mark.parametrize("text", ["prices", "PRICES", "rices o", "shop-1", "nightly", "other", "100%", "a_b"])
def test_text_is_looked_for_in_name_key_task_and_description(world, service, text):
    given = {
        "name": "Prices of 100% a_b",
        "key": "shop-1",
        "description": "Fetched nightly.",
        "task": "other",
    }
    mine = world.add_one(**given)
    world.add_one(name="Something else", description="100 a-b")
    assert found(service, text=text) == [mine]


def test_text_that_is_nowhere_finds_nothing(world, service):
    world.add_one(name="Prices")
    assert found(service, text="zzz") == []
    assert found(service, text="%") == []


def test_jobs_are_found_by_when_they_come_next(world, service):
    soon, later = world.add_one(every=HOUR), world.add_one(every=3 * HOUR)
    world.command(world.add_one(every=HOUR), "pause")
    at = world.now + HOUR
    assert found(service, due_after=world.now, due_before=at) == []  # `before` is not included
    assert found(service, due_before=at + SECOND) == [soon]
    assert found(service, due_after=at) == sorted([soon, later], reverse=True)
    assert found(service, due_after=at + SECOND) == [later]


def test_an_attempt_that_waits_is_when_a_job_comes_next(world, service):
    job_id = world.add_one(every=HOUR, max_retries=3)
    world.advance(HOUR)
    world.run_all(world.worker(), FAILURE)
    assert found(service, due_before=world.now + 2 * MINUTE) == [job_id]
    assert service.jobs.get(job_id).next_run_at == world.now + MINUTE


def test_a_total_beyond_the_bound_is_the_bound_or_what_was_seen(world, service, monkeypatch):
    monkeypatch.setattr(searches, "MOST_COUNTED", 5)
    world.add(9)
    assert service.jobs.search(limit=2).total == 5
    assert service.jobs.search(limit=2, offset=6).total == 8
    assert service.jobs.search(limit=50).total == 9


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"limit": 0}, "limit must be between 1 and 250"),
        ({"limit": 251}, "limit must be between 1 and 250"),
        ({"offset": -1}, "offset must be between"),
        ({"offset": 2**70}, "offset must be between"),
        ({"sort": "args"}, "cannot be sorted by 'args'"),
        ({"sort": "--name"}, "cannot be sorted by '-name'"),
        ({"sort": ""}, "cannot be sorted by ''"),
        ({"cursor": "x"}, "does not belong to this list"),
        ({"cursor": "é"}, "does not belong to this list"),
        ({"cursor": ""}, "does not belong to this list"),
    ],
)
def test_a_page_that_cannot_be_is_refused(service, given, message):
    with pytest.raises((Invalid, NotFound), match=message):
        service.jobs.search(**given)


@pytest.mark.parametrize("field", ["task", "queue", "tag", "text", "app"])
def test_words_that_no_database_could_hold_are_refused(service, field):
    for text in ("a\0b", "\ud800"):
        with pytest.raises(Invalid, match=f"{field} cannot contain NUL"):
            service.jobs.search(JobFilter(**{field: text}))


def _cursor(*values):
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode()


@pytest.mark.parametrize(
    "cursor",
    [
        _cursor("-name", "0" * 32, 0, ""), _cursor("-created_at", "zz", 0, ""), _cursor("-created_at", "0" * 32),
        _cursor("-created_at", "0" * 32, 2**63, ""), _cursor("-created_at", "0" * 32, 0, "\0"), _cursor(),
        _cursor("-created_at", 7, 0, ""),
    ],
)  # fmt: skip
def test_a_cursor_of_another_list_or_made_by_hand_is_refused(service, cursor):
    with pytest.raises((Invalid, NotFound)):
        service.jobs.search(cursor=cursor)
    with pytest.raises((Invalid, NotFound)):
        service.executions.search(cursor=cursor)


def test_a_list_is_a_page_of_the_app(world, service):
    mine, other = world.add_one(), world.add_one(app="shop")
    assert [view.id for view in service.jobs.list()] == [mine]
    assert [view.id for view in service.jobs.list(all_apps=True, limit=1000)] == [other, mine]
    assert [view.id for view in service.jobs.list(all_apps=True, before=other)] == [mine]
    assert service.jobs.list(status="running") == []


@pytest.mark.parametrize("ref", ["a\0b", "\ud800", "", "nobody", "0" * 33])
def test_what_is_no_job_is_not_found(service, ref):
    for ask in (
        service.jobs.get,
        service.jobs.stats,
        service.jobs.pause,
        service.executions.search,
        service.feed,
    ):
        with pytest.raises(NotFound):
            ask(ref)


# -- edits of what was read


def test_an_edit_of_the_version_that_was_read_is_made_and_a_stale_one_refused(world, service):
    job_id = world.add_one()
    service.jobs.edit(job_id, lambda d: edited(d, priority=1), expected_version=1)
    with pytest.raises(Stale, match="has version 2 by now, not 1") as refused:
        service.jobs.edit(job_id, lambda d: edited(d, priority=9), expected_version=1)
    assert isinstance(refused.value, Conflict)
    job = service.jobs.get(job_id)
    assert (job.definition.priority, job.facts.version) == (1, 2)


# -- executions


@pytest.fixture
def history(world):
    """A job with completed, failed, cancelled, running and queued executions, and others."""
    worker = world.worker("work", "other")
    job_id = world.add_one(every=HOUR, max_retries=1)
    for i in range(12):
        world.advance(HOUR)
        world.run_all(worker, FAILURE if i % 4 == 1 else DONE)
        if i % 4 == 1:
            world.advance(2 * MINUTE)
            world.run_all(worker)
    others = world.enqueue(5, task="other")
    world.settle(world.claim(worker, "other", limit=3))
    world.claim(worker, "other", limit=1)
    world.command(job_id, "run", None)
    return job_id, others


def pages(service, **given):
    seen, cursor = [], None
    while True:
        page = service.executions.search(limit=4, cursor=cursor, **given)
        seen += page.items
        cursor = page.cursor
        if cursor is None:
            return seen, page.total


def test_history_and_what_is_live_are_one_list_the_newest_first(service, history):
    seen, total = pages(service)
    assert total == len(seen) == 15 + 5 + 1
    assert [each.id for each in seen] == sorted({each.id for each in seen}, reverse=True)
    assert {each.status for each in seen} == {"completed", "failed", "running", "queued"}


def test_the_history_of_a_job_begins_with_its_newest_occurrence(service, history):
    job_id, _ = history
    seen, total = pages(service, job=job_id)
    assert total == len(seen) == 16
    places = [(each.number, each.attempt) for each in seen]
    assert places == sorted(set(places), reverse=True)
    assert [each.execution_number for each in seen] == list(range(16, 0, -1))
    assert (seen[0].status, seen[1].status) == ("queued", "completed")


@pytest.mark.parametrize("task", [None, "work", "other", "nobody"])
@pytest.mark.parametrize(
    "states", [[], ["queued"], ["running"], ["failed"], ["completed", "queued"], ["cancelled"]], ids=str
)
def test_executions_are_filtered_with_the_right_total(service, history, states, task):
    everything, _ = pages(service)
    expected = [e.id for e in everything if (not states or e.status in states) and task in (None, e.task)]
    seen, total = pages(service, states=states, task=task)
    assert ([each.id for each in seen], total) == (expected, len(expected))
    job_id, _ = history
    expected = [e.id for e in everything if e.job_id == job_id and (not states or e.status in states)]
    seen, total = pages(service, states=states, job=job_id)
    assert (sorted(each.id for each in seen), total) == (sorted(expected), len(expected))


def test_a_task_that_runs_often_is_looked_for_among_all(service, history, monkeypatch):
    few, _ = pages(service, task="other")
    monkeypatch.setattr(searches, "FEW", 0)
    assert pages(service, task="other")[0] == few != []


def test_what_retention_took_away_is_not_counted(world, service, history):
    job_id, _ = history
    service.jobs.edit(job_id, lambda d: edited(d, policies=edited(d.policies, keep_executions=5, keep_days=0)))
    world.advance(timedelta(days=1))
    world.store.history.prune(UUID(int=0), world.now, Keep())
    seen, total = pages(service, job=job_id)
    assert total == len(seen) == 6  # and the one that is queued
    assert pages(service)[1] == len(pages(service)[0]) == 6 + 5
    assert service.jobs.stats(job_id).total_executions == 15


def test_executions_of_a_deleted_job_are_gone_from_every_answer(world, service, history):
    job_id, others = history
    last = service.executions.search(job_id).items[0]
    service.jobs.delete(job_id)
    seen, total = pages(service)
    assert {each.job_id for each in seen} == set(others)
    assert total == len(seen) == 5
    for ask in (lambda: service.executions.search(job_id), lambda: service.executions.get(last.id)):
        with pytest.raises(NotFound):
            ask()


def test_a_cursor_outlives_the_row_it_was_made_of(world, service, history):
    page = service.executions.search(limit=4)
    rest = [each.id for each in service.executions.search(limit=250, cursor=page.cursor).items]
    world.sql("DELETE FROM {executions} WHERE id = :id", id=page.items[-1].id)
    world.sql("DELETE FROM {live} WHERE id = :id", id=page.items[-1].id)
    assert [each.id for each in service.executions.search(limit=250, cursor=page.cursor).items] == rest


def test_a_count_from_before_hides_nothing_new(world, service, monkeypatch):
    monkeypatch.setattr("ostinato.store.statistics.MANY", 0)
    monkeypatch.setattr("ostinato.store.statistics.CACHED_TIMES_AS_LONG", 1_000_000)
    (job_id,) = world.enqueue()
    assert service.executions.search(states=["failed"]).total == 0
    world.run_all(world.worker(), FAILURE)
    page = service.executions.search(states=["failed"])
    assert ([each.job_id for each in page.items], page.total) == ([job_id], 1)


def test_an_unknown_state_is_refused(service):
    with pytest.raises(Invalid, match="no state 'done'; there are queued, running, completed, failed, cancelled"):
        service.executions.search(states=["done"])
    with pytest.raises(Invalid, match="task cannot contain NUL"):
        service.executions.search(task="\0")
    with pytest.raises(NotFound):
        service.executions.search("nobody")

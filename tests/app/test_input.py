"""Bad input gets a clear error and changes nothing."""

from datetime import datetime, timedelta

import pytest

from ostinato import Ostinato
from ostinato.core.errors import Invalid, InvalidSchedule, InvalidSetting, SchemaBehind, UnknownTask
from ostinato.core.model import Status
from tests.app.conftest import during

LIMIT = 256 * 1024


def work(value: object = None) -> object:
    return value


@pytest.fixture
def app(new_app):
    app = new_app()
    app.register("work", work)
    yield app
    if app._parts is not None:
        assert [job for job in app.jobs.list() if job.task == "work" and job.key == "bad"] == []


# -- args


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ({1, 2}, r"args\.value is a set, which is not JSON; pass a list"),
        (datetime(2026, 1, 1), r"args\.value is a datetime, which is not JSON; pass its ISO text"),  # noqa: DTZ001
        (float("nan"), r"args\.value is nan, which JSON cannot say"),
        (object(), r"args\.value is an object, which is not JSON"),
        ({1: 2}, r"args\.value has the key 1, which is not text"),
        ("a\0b", r"args\.value contains a NUL character"),
        ("\ud800", r"args\.value contains half of a character"),
        ("x" * LIMIT, r"args is 262,156 bytes of JSON, and 262,144 are allowed"),
    ],
    ids=["set", "datetime", "nan", "object", "key", "NUL", "surrogate", "too long"],
)
def test_args_that_cannot_be_kept_are_refused(app, value, sentence):
    with pytest.raises(Invalid, match=sentence):
        app.registry.get("work").using(key="bad").enqueue(value)
    assert app.jobs.list() == []


def test_args_just_within_the_limit_are_kept(app):
    text = "ä" * ((LIMIT - len('{"value":""}')) // 2)
    handle = app.registry.get("work").enqueue(text)
    assert handle.job.args == {"value": text}


def test_arguments_that_the_function_does_not_take_are_refused(app):
    with pytest.raises(Invalid, match="does not take these arguments: got an unexpected keyword argument 'valeu'"):
        app.registry.get("work").enqueue(valeu=1)
    with pytest.raises(Invalid, match="do not fit"):
        app.call("work", valeu=1)


# -- results


def test_a_result_that_is_not_json_is_kept_as_text(app, caplog):
    @app.task
    def odd() -> object:
        return {1, 2}

    async def body():
        return await odd.enqueue().await_()

    ended = during(app, body)
    assert (ended.status, ended.result) == ("completed", "{1, 2}")
    assert "The result is kept as text" in caplog.text


def test_a_result_that_is_too_long_is_cut_visibly(app):
    @app.task
    def long() -> str:
        return "x" * LIMIT

    async def body():
        return await long.enqueue().await_()

    ended = during(app, body)
    assert ended.status == "completed"
    assert "characters cut" in ended.result


def test_a_task_that_raises_a_base_exception_has_failed(app):
    @app.task
    def leave() -> None:
        raise SystemExit(3)

    @app.task
    async def stop() -> None:
        raise KeyboardInterrupt

    async def body():
        return [await (await each.aenqueue()).await_() for each in (leave, stop)]

    ended = during(app, body)
    assert [(each.status, each.error_kind) for each in ended] == [
        ("failed", "SystemExit"),
        ("failed", "KeyboardInterrupt"),
    ]


def test_an_error_with_a_nul_in_it_is_kept(app):
    @app.task
    def fail() -> None:
        raise ValueError("a\0b")

    async def body():
        return await fail.enqueue().await_()

    assert during(app, body).error == "a␀b"


# -- names, times, options


def test_an_unknown_task_is_refused_with_a_hint(app):
    with pytest.raises(UnknownTask, match=r"knows a task 'wrok'. Did you mean 'work'\? With allow_unknown"):
        app.enqueue([app.call("wrok")])
    assert app.jobs.list() == []


def test_allow_unknown_accepts_it_and_it_waits_for_a_worker_that_knows_it(new_app):
    shop, other = new_app(), new_app()
    (handle,) = shop.enqueue([shop.call("resize", width=3)], allow_unknown=True)
    assert handle.status is Status.PENDING
    shop.register("work", work)

    async def at_the_shop():
        await (await shop.registry.get("work").aenqueue(1)).await_()
        (waiting,) = shop.executions.list(job=handle.id)
        assert (waiting.status, waiting.waits_for) == ("queued", "task"), "left for one that knows it"

    during(shop, at_the_shop)
    other.task(name="resize")(lambda width: width * 2)

    async def elsewhere():
        return (await handle.await_()).result

    assert during(other, elsewhere) == 6


def test_a_task_that_another_worker_knows_is_accepted(new_app):
    shop, other = new_app(), new_app("printer")
    own = other.register("print", work)

    async def body():
        await (await own.aenqueue(1)).await_()  # from here on its worker is known
        (handle,) = await shop.in_thread(lambda: shop.enqueue([shop.call("print", value=7)]))
        return (await handle.await_()).result

    assert during(other, body) == 7


def test_naive_datetimes_are_refused(app):
    naive = datetime(2026, 11, 16, 9)  # noqa: DTZ001
    task = app.registry.get("work")
    with pytest.raises(Invalid, match="has no time zone; say which one is meant"):
        task.using(key="bad").enqueue_at(naive)
    for bound in ("start_at", "end_at"):
        with pytest.raises(Invalid, match=f"{bound} .* has no time zone"):
            app.schedule(task, every="1h", key="bad", **{bound: naive})


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"every": "30x"}, Invalid, "'30x' is not a duration"),
        ({"every": 0}, InvalidSchedule, "The shortest interval is 1 second"),
        ({"every": "-5m"}, Invalid, "is not a duration"),
        ({"every": timedelta(days=40_000)}, InvalidSchedule, "The longest interval is 100 years"),
        ({"cron": "0 0 30 2 *"}, InvalidSchedule, "can never fire"),
        ({"cron": "61 * * * *"}, InvalidSchedule, "cron expression"),
        ({"cron": "@daily", "timezone": "Europe/Pairs"}, Invalid, "did you mean Europe/Paris"),
        ({"every": "1h", "cron": "@daily"}, InvalidSchedule, "say every= or cron=, not both"),
        ({"every": "1h", "overlap": "never"}, Invalid, "overlap is one of skip, queue_one"),
        ({"every": "1h", "retries": "3"}, Invalid, "retries is a whole number, not '3'"),
        ({"every": "1h", "retries": -1}, Invalid, "max_retries must be 0 or more"),
        ({"every": "1h", "priority": 11}, Invalid, "from 1 .first. to 10, not 11"),
        ({"every": "1h", "queue": "a b"}, Invalid, "The queue name 'a b' cannot be used"),
        ({"every": "1h", "tags": "abc"}, Invalid, "tags is a list, not 'abc'"),
        ({"every": "1h", "never_retry": "ValueError"}, Invalid, "never_retry is a list"),
        ({"every": "1h", "timeout": 0}, Invalid, "timeout must be longer than 0 s"),
        ({"every": "1h", "key": ""}, Invalid, "key cannot be empty"),
        ({"every": "1h", "description": "a\0b"}, Invalid, "NUL"),
        ({"every": "1h", "window": {"from": "9"}}, Invalid, "A window is"),
        ({"every": "1h", "retires": 3}, Invalid, "There is no option retires=; did you mean retries=?"),
        ({"interval": "1h"}, Invalid, "There is no option interval=; did you mean every=?"),
        ({"crontab": "@daily"}, Invalid, "There is no option crontab=; did you mean cron=?"),
        ({"every": "1h", "max_retries": 3}, Invalid, "did you mean retries=?"),
        ({"every": "1h", "backoff": []}, Invalid, "needs at least one step"),
        ({"every": "1h", "when_exhausted": "wait_reset"}, Invalid, "needs a retry_reset_period"),
    ],
    ids=str,
)
def test_a_declaration_that_cannot_be_is_refused(sqlite_url, options, error, sentence):
    app = Ostinato("shop", database_url=sqlite_url)
    app.register("work", work)
    with pytest.raises(error, match=sentence):
        declare(app, **options)
    assert app.jobs.list() == []
    app.close()


def declare(app: Ostinato, **options) -> None:
    app.schedule(app.registry.get("work"), **options)
    app.apply_declarations()


def test_options_of_a_schedule_without_one_are_refused():
    with pytest.raises(Invalid, match=r"overlap= needs a schedule\. Add every= or cron="):
        Ostinato().task(overlap="skip")(work)


def test_using_does_not_take_a_schedule():
    app = Ostinato()
    with pytest.raises(Invalid, match="There is no option every="):
        app.register("work", work).using(every="1h")


def test_a_setting_that_does_not_exist_is_refused():
    with pytest.raises(InvalidSetting, match="concurency is not a setting; did you mean concurrency"):
        Ostinato("shop", concurency=3)


# -- databases


def test_the_first_use_of_an_empty_sqlite_database_makes_the_schema(sqlite_url):
    app = Ostinato("shop", database_url=sqlite_url)
    handle = app.register("work", work).enqueue(1)
    assert handle.status is Status.PENDING
    app.close()


def test_postgresql_is_made_only_when_asked(empty_postgres_url):
    app = Ostinato("shop", database_url=empty_postgres_url)
    with pytest.raises(SchemaBehind, match=r"not there yet, this program needs version \d+: run `ostinato db upgrade`"):
        app.register("work", work).enqueue(1)
    app.close()
    app.open(upgrade=True)
    assert app.register("work", work).enqueue(1).status is Status.PENDING
    app.close()


def test_settings_can_be_chosen_until_the_database_is_open(sqlite_url, tmp_path):
    app = Ostinato("shop", database_url=f"sqlite:///{tmp_path}/other.db", concurrency=2)
    app.configure(database_url=sqlite_url, concurrency=None, queues="a,b")
    assert (app.settings.database_url, app.settings.concurrency) == (sqlite_url, 2)
    assert app.settings.queues == ("a", "b")
    app.open()
    with pytest.raises(Invalid, match="already open"):
        app.configure(concurrency=3)
    app.close()

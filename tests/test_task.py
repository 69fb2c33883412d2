"""Tasks, their arguments, and their Context."""

from __future__ import annotations

import asyncio
import functools
import json
import logging
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Optional
from uuid import UUID

import pytest

from ostinato.clock import ManualClock
from ostinato.core.errors import Invalid, LeaseLost, UnknownTask
from ostinato.core.payload import decode
from ostinato.task import Call, Context, Defer, GiveUp, Progress, Registry, RetryLater, Task
from ostinato.task.context import QuietHost
from tests.build import NOW, SECOND, a_definition, a_live

if TYPE_CHECKING:
    from nowhere import Context as Elsewhere  # type: ignore[import-not-found]

    import ostinato as only_for_type_checkers


class RememberingHost(QuietHost):
    """A host that records the messages of a run."""

    def __init__(self) -> None:
        self.progress: list[object] = []
        self.checkpoints: list[object] = []
        self.lost = False

    def report_progress(self, execution_id: UUID, fence: int, progress: str) -> None:
        self.progress.append((fence, decode(progress)))

    def save_checkpoint(self, execution_id: UUID, fence: int, checkpoint: str) -> None:
        if self.lost:
            raise LeaseLost("Another worker has it.")
        self.checkpoints.append((fence, decode(checkpoint)))


def a_context(host: RememberingHost | None = None, clock: ManualClock | None = None, **live: object) -> Context:
    clock = clock or ManualClock(NOW)
    given = {"fence": 3} | live
    return Context(a_live(**given), a_definition(), {}, host=host or RememberingHost(), monotonic=clock.monotonic)


# -- kinds of functions


def refresh(region: str = "eu", *, force: bool = False) -> tuple[str, bool]:
    return region, force


async def send(ctx: Context, to: str) -> str:
    return f"{to} {ctx.task}"


def loose(**options: int) -> dict[str, int]:
    return options


def loose_with_context(ctx: Context, **options: int) -> dict[str, int]:
    return options


def chronos(payload, job):
    return payload, job


# -- the Context is opt-in, first


def unannotated(ctx, to): ...
def quoted(run: "Context", to): ...  # noqa: UP037
def optional(run: Optional[Context], to): ...  # noqa: UP045
def by_text_alone(run: only_for_type_checkers.Context, to): ...
def unknown_module(run: Elsewhere | Context, to): ...
def named_but_other(ctx: dict, to): ...
def second(to, ctx: Context): ...
def an_ssl_context(ctx: SSLContext, to): ...  # noqa: F821


@pytest.mark.parametrize("function", [send, unannotated, quoted, optional, by_text_alone, unknown_module])
def test_a_first_parameter_for_the_context_is_nobody_elses_business(function):
    task = Task(function)
    assert task.wants_context
    assert list(task.__signature__.parameters) == ["to"]


@pytest.mark.parametrize("function", [refresh, named_but_other, second, an_ssl_context, loose])
def test_any_other_first_parameter_is_an_argument(function):
    assert not Task(function).wants_context


# -- names


def test_a_task_is_named_after_its_function_unless_named():
    assert Task(refresh).name == "refresh"
    assert Task(refresh, "prices").name == "prices"
    assert Task(refresh).__doc__ == refresh.__doc__


def test_a_schedule_without_the_name_of_its_option_is_told():
    with pytest.raises(Invalid, match="write cron='@daily'"):
        Task("@daily")


@pytest.mark.parametrize("name", ["", " x", "a\nb", "a\0", "x" * 201])
def test_a_name_that_cannot_be_shown_or_stored_is_refused(name):
    with pytest.raises(Invalid, match="cannot be the name of a task"):
        Task(lambda: None, name)


# -- binding


@pytest.mark.parametrize(
    ("call", "args"),
    [
        (lambda: Task(refresh).bind(), "{}"),
        (lambda: Task(refresh).bind("us"), '{"region":"us"}'),
        (lambda: Task(refresh).bind("us", force=True), '{"force":true,"region":"us"}'),
        (lambda: Task(send).bind(to="a@example.org"), '{"to":"a@example.org"}'),
        (lambda: Task(loose).bind(a=1, b=2), '{"a":1,"b":2}'),
        (lambda: Task(chronos).bind({"to": "x"}), '{"payload":{"to":"x"}}'),
    ],
)
def test_arguments_are_kept_by_name(call, args):
    assert call().args == args


def test_a_call_is_a_value():
    assert Task(send).bind("x") == Call("send", '{"to":"x"}')


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: Task(send).bind(),
            "send(to: 'str') does not take these arguments: missing a required argument",
        ),
        (lambda: Task(send).bind(tto="x", to="y"), "got an unexpected keyword argument 'tto'"),
        (lambda: Task(send).bind("x", "y"), "too many positional arguments"),
        (lambda: Task(send).bind(ctx=1, to="x"), "got an unexpected keyword argument 'ctx'"),
        (lambda: Task(loose_with_context).bind(ctx=1), "'ctx' is not an argument to be given"),
        (lambda: Task(send).bind(to={1}), "args.to is a set"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_when_they_are_bound(call, sentence):
    with pytest.raises(Invalid) as refused:
        call()
    assert sentence in str(refused.value)


def positional_only(a, /): ...
def many(*items): ...
def generator():
    yield 1


@pytest.mark.parametrize("function", [positional_only, many, generator, iter])
def test_a_function_whose_arguments_cannot_be_stored_is_refused(function):
    with pytest.raises(Invalid):
        Task(function, "it")


# -- stored args become a call


def test_stored_args_are_given_by_name_and_the_context_beside_them():
    ctx = a_context()
    assert Task(refresh).call(ctx, Task(refresh).arguments({"force": True})) == ("eu", True)
    assert Task(loose).call(ctx, Task(loose).arguments({"a": 1})) == {"a": 1}
    assert asyncio.run(Task(send).call(ctx, Task(send).arguments({"to": "x"}))) == "x work"


@pytest.mark.parametrize(
    ("function", "args", "sentence"),
    [
        (send, {"tto": "x"}, "The args do not fit send(to: 'str'): missing 'to'; unexpected 'tto'."),
        (send, {"to": "x", "ctx": 1}, "unexpected 'ctx'"),
        (loose_with_context, {"ctx": 1}, "unexpected 'ctx'"),
    ],
)
def test_stored_args_that_do_not_fit_any_more_are_refused_with_a_sentence(function, args, sentence):
    with pytest.raises(Invalid) as refused:
        Task(function).arguments(args)
    assert sentence in str(refused.value)


def test_a_payload_is_the_whole_args_object_and_job_is_the_context():
    ctx, task = a_context(), Task(chronos, "sendEmail")
    assert task.call(ctx, task.arguments({"to": "x"})) == ({"to": "x"}, ctx)
    assert task.call(ctx, task.arguments({"payload": {"to": "x"}})) == ({"to": "x"}, ctx)


# -- a plain call


def test_a_plain_call_stays_a_plain_call():
    assert Task(refresh)("us", force=True) == ("us", True)
    assert asyncio.run(Task(send)("x")) == "x send"
    assert Task(chronos)({"to": "x"})[1].args == {"payload": {"to": "x"}}


def test_a_plain_call_with_wrong_arguments_is_pythons_own_error():
    with pytest.raises(TypeError, match="missing a required argument"):
        Task(send)()


def test_a_quiet_context_keeps_things_in_memory():
    def work(ctx: Context) -> Context:
        ctx.progress(1, of=2)
        ctx.save_checkpoint({"page": 3})
        return ctx

    ctx = Task(work)()
    assert ctx.last_progress == Progress(1, 2, None)
    assert ctx.checkpoint == {"page": 3}
    assert not ctx.cancelled
    assert ctx.occurrence_key != Task(work)().occurrence_key, "two calls are two occurrences"


def test_counters_are_told_with_progress_and_also_without():
    told: list[str] = []

    class Host(QuietHost):
        def report_progress(self, execution_id, fence, progress) -> None:
            told.append(progress)

    ctx = a_context()
    ctx = Context(ctx.live, ctx.definition, {}, host=Host(), monotonic=iter(range(100)).__next__)
    ctx.count(mails=1)
    ctx.progress(2, message="sending")
    ctx.count_items(5, 4)
    ctx.count(mails=2, bytes=30)
    assert [json.loads(each) for each in told] == [
        {"counters": {"mails": 1}},
        {"done": 2, "message": "sending", "counters": {"mails": 1}},
        {
            "done": 2, "message": "sending", "items_crawled": 5, "items_indexed": 4,
            "counters": {"mails": 2, "bytes": 30},
        },
    ]  # fmt: skip


def test_items_that_a_task_counts_by_name_are_shown_as_items():
    ctx = a_context()
    ctx.count(items_crawled=25, mails=1)
    ctx.count(items_indexed=3)
    assert (ctx.items, ctx.counters) == ((25, 3), (("mails", 1),))
    with pytest.raises(Invalid, match="items_crawled must be a number"):
        ctx.count(items_crawled="many")


def test_a_plain_call_inside_a_run_has_that_runs_context():
    def inner(ctx: Context) -> Context:
        return ctx

    async def outer() -> tuple[Context | None, Context]:
        ctx.become_current()
        return Context.current(), Task(inner)()

    ctx = a_context()
    assert asyncio.run(outer()) == (ctx, ctx)
    assert Context.current() is None


@pytest.mark.parametrize(
    ("function", "is_async"), [(send, True), (functools.partial(send, to="x"), True), (refresh, False)]
)
def test_a_task_knows_its_colour(function, is_async):
    assert Task(function, "it").is_async is is_async


def test_an_object_that_can_be_called_can_be_a_task():
    class Sender:
        async def __call__(self, ctx: Context, to: str) -> str:
            return to

    task = Task(Sender(), "send")
    assert task.is_async
    assert task.wants_context
    assert task.bind("x").args == '{"to":"x"}'


# -- the registry


def test_a_name_means_one_task():
    registry = Registry()
    registry.add(Task(refresh))
    registry.add(Task(refresh))
    with pytest.raises(Invalid, match=r"already a task named 'refresh' \(tests.test_task.refresh\)"):
        registry.add(Task(send, "refresh"))
    assert registry.names() == ("refresh",)


def test_an_unknown_task_is_named_with_what_was_probably_meant():
    registry = Registry()
    registry.add(Task(send, "send_email"))
    assert registry.get("send_email").function is send
    with pytest.raises(UnknownTask, match="did you mean 'send_email'"):
        registry.get("sendEmail")
    with pytest.raises(UnknownTask, match="register it, or correct the name"):
        registry.get("zebra")


# -- signals


def test_a_delay_is_written_in_any_way_and_a_bad_one_is_refused():
    assert RetryLater("5m").delay == RetryLater(300).delay == RetryLater(timedelta(minutes=5)).delay
    assert str(RetryLater("5m")) == "The task asked for a retry in 5m."
    assert str(GiveUp("gone")) == "gone"
    for wrong in (lambda: RetryLater("soon"), lambda: RetryLater(-1), lambda: Defer(datetime(2026, 1, 1))):  # noqa: DTZ001
        with pytest.raises(Invalid):
            wrong()


def test_a_deferral_is_an_instant_or_a_delay():
    assert Defer("1h").until_from(NOW) == NOW + timedelta(hours=1)
    assert Defer(NOW).until_from(NOW - timedelta(days=1)) == NOW
    assert Defer(timedelta(days=9999 * 365)).until_from(NOW) == datetime.max.replace(tzinfo=UTC)


# -- the context


def test_the_keys_of_an_occurrence_and_of_an_attempt():
    job_id = UUID(int=5)
    ctx = a_context(job_id=job_id, number=7, attempt=2)
    assert ctx.occurrence_key == f"sched-{job_id}-n7"
    assert ctx.execution_key == f"sched-{job_id}-n7-rc2"


def test_progress_is_told_a_few_times_a_second_and_always_at_the_end():
    host, clock = RememberingHost(), ManualClock(NOW)
    ctx = a_context(host, clock)
    for done in range(1, 1000):
        ctx.progress(done, of=1000)
    assert host.progress == [(3, {"done": 1, "of": 1000})]
    clock.advance(SECOND / 4)
    ctx.progress(1000, of=1000, message="over\0")
    ctx.flush_progress()
    assert host.progress[1:] == [(3, {"done": 1000, "of": 1000, "message": "over␀"})]
    ctx.progress(1001)
    ctx.flush_progress()
    assert host.progress[2:] == [(3, {"done": 1001})]


def test_progress_that_is_no_number_is_refused():
    with pytest.raises(Invalid):
        a_context().progress(float("nan"))


def test_a_checkpoint_is_handed_to_the_next_attempt_and_replaced():
    host = RememberingHost()
    ctx = a_context(host, checkpoint='{"page":1}')
    assert ctx.checkpoint == {"page": 1}
    ctx.save_checkpoint({"page": 2})
    assert ctx.checkpoint == {"page": 2}
    assert host.checkpoints == [(3, {"page": 2})]


def test_a_checkpoint_that_was_refused_is_not_kept():
    host = RememberingHost()
    ctx = a_context(host)
    host.lost = True
    with pytest.raises(LeaseLost):
        ctx.save_checkpoint(1)
    assert ctx.checkpoint is None
    with pytest.raises(Invalid, match="checkpoint is a set"):
        ctx.save_checkpoint({1})


def test_a_log_line_says_whose_it_is(caplog):
    ctx = a_context()
    with caplog.at_level(logging.INFO, "ostinato"):
        ctx.log.debug("not shown")
        ctx.log.info("sending", to="a\nb", job_id="not mine to say")
    (record,) = caplog.records
    assert record.getMessage() == (f'sending  to="a\\nb" job_id={ctx.job_id} execution_key={ctx.execution_key}')
    assert record.filename == "test_task.py"


def test_a_built_in_task_is_loaded_when_it_is_asked_for_and_only_once():
    loaded: list[str] = []

    def load() -> Task[[], None]:
        loaded.append("fetch")
        return Task(lambda: None, "fetch")

    registry = Registry({"fetch": load})
    assert (registry.names(), registry.is_built_in("fetch"), loaded) == (("fetch",), True, [])
    assert registry.get("fetch") is registry.get("fetch")
    assert loaded == ["fetch"]


def test_a_task_of_the_user_goes_before_a_built_in_one_of_the_same_name():
    def fetch() -> None: ...

    registry = Registry({"fetch": lambda: Task(lambda: None, "fetch")})
    registry.add(Task(fetch))
    assert registry.get("fetch").function is fetch
    assert not registry.is_built_in("fetch")

"""What goes out can come back: an answer sent back changes nothing, and makes the same job anew."""

from dataclasses import fields
from datetime import UTC, datetime, time, timedelta
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from ostinato.core.model import Definition, Facts, Job, Status
from ostinato.core.payload import encode
from ostinato.core.policy import Backoff, BackoffKind, CatchUp, FirstRun, OnLost, Overlap, Policies, WhenExhausted
from ostinato.core.schedule import Cron, Every, Manual, Once, is_recurring
from ostinato.core.times import Window
from ostinato.service.views import JobView
from ostinato.shapes.answers import as_json
from ostinato.shapes.job_answer import JobAnswer
from ostinato.shapes.job_body import BodyContext, JobBody, JobEdit, edit, new_definition

NOW = datetime(2026, 11, 16, 9, tzinfo=UTC)
HERE = BodyContext(NOW, "America/New_York", "shop")

spans = st.integers(1, 10**12).map(lambda n: timedelta(microseconds=n))
instants = st.integers(0, 4 * 10**15).map(lambda n: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=n))
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=10)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
objects = st.dictionaries(texts, values, max_size=3)
sources = st.fixed_dictionaries({}, optional={
    "url": st.sampled_from(["https://example.com/a?b=c", "s3://bucket", 7]), "source_name": values, "source_id": values,
})  # fmt: skip
whole_units = st.builds(lambda n, unit: Every.of(f"{n}{unit}"), st.integers(1, 30_000), st.sampled_from("smhd"))
crons = st.sampled_from(["0 9 * * mon-fri", "*/5 * * * *", "@daily"])
schedules = st.one_of(
    whole_units,
    spans.filter(lambda span: span >= timedelta(seconds=1)).map(Every),
    st.builds(Cron, crons, st.sampled_from(["UTC", "Asia/Tokyo"])),
    instants.map(Once),
    st.just(Manual()),
)
windows = st.builds(
    Window, days=st.frozensets(st.integers(0, 6), min_size=1), start=st.just(time(9)), end=st.just(time(17, 30)),
    timezone=st.just("Europe/Paris"),
)  # fmt: skip
growing = st.builds(
    Backoff, kind=st.sampled_from([BackoffKind.EXPONENTIAL, BackoffKind.LINEAR, BackoffKind.FIXED]), base=spans,
    cap=spans, factor=st.floats(1, 10), spread=st.floats(0, 1), never_retry=st.lists(texts, max_size=2).map(tuple),
)  # fmt: skip
by_steps = st.builds(Backoff, kind=st.just(BackoffKind.STEPS), steps=st.lists(spans, min_size=1, max_size=3).map(tuple))
backoffs = growing | by_steps
policies = st.builds(
    Policies, first_run=st.sampled_from(FirstRun), start_at=st.none() | instants, fixed_delay=st.booleans(),
    total_repeats=st.integers(0, 9), window=st.none() | windows, jitter=spans, catch_up=st.sampled_from(CatchUp),
    late_after=spans, catch_up_limit=st.integers(1, 10_000), catch_up_within=st.none() | spans,
    overlap=st.sampled_from(Overlap), max_overlap=st.integers(1, 9), max_retries=st.integers(0, 9), backoff=backoffs,
    retry_reset_period=st.none() | spans, when_exhausted=st.sampled_from(WhenExhausted),
    on_lost=st.sampled_from(OnLost), timeout=st.none() | spans, keep_executions=st.none() | st.integers(1, 9),
    keep_days=st.none() | st.integers(0, 9), cpu_limit=st.none() | spans,
    memory_limit_mb=st.none() | st.integers(1, 99), open_files_limit=st.none() | st.integers(1, 99),
    output_limit_mb=st.none() | st.integers(1, 99), max_concurrency=st.integers(1, 9),
    concurrency_key=st.none() | st.just("shared"), rate_limit=st.none() | st.just("10/m"),
    run_args=st.lists(texts, max_size=3).map(tuple),
)  # fmt: skip
definitions = st.builds(
    Definition, task=texts.filter(bool), schedule=schedules, policies=policies, app=st.just("shop"),
    args=st.builds(lambda own, source: encode(own | source), objects, sources), metadata=objects.map(encode),
    key=st.none() | texts, name=texts, description=texts, queue=st.just("slow"), priority=st.integers(1, 10),
    tags=st.lists(texts, max_size=3).map(tuple), owner=texts,
)  # fmt: skip


def answer_of(definition: Definition) -> JobAnswer:
    job = Job(UUID(int=1), definition, Facts(created_at=NOW, updated_at=NOW, anchor=NOW))
    return JobAnswer.of(JobView(job, (), Status.SCHEDULED, None), None)


def test_whatever_a_job_has_can_be_said_and_is_told():
    names = {field.name for kind in (Definition, Policies) for field in fields(kind)} - {
        "policies",
        "declared",
    }
    assert names <= JobBody.model_fields.keys()
    told = {field.name for field in fields(JobAnswer)}
    assert names <= told
    assert JobBody.model_fields.keys() <= told


@given(definitions)
def test_an_answer_that_is_sent_back_changes_nothing(definition):
    answer = answer_of(definition)
    body = JobEdit.model_validate(as_json(answer))
    assert edit(body, answer, HERE)(definition) == definition


@given(definitions)
def test_an_answer_without_what_is_read_only_makes_the_same_job(definition):
    told = as_json(answer_of(definition))
    body = JobBody.model_validate({name: told[name] for name in JobBody.model_fields})
    assert new_definition(body, HERE) == definition


@given(definitions)
def test_what_is_said_in_both_vocabularies_agrees(definition):
    told = answer_of(definition)
    assert told.schedule_enabled is is_recurring(definition.schedule)
    assert (told.interval_minutes is None) is (told.interval_type is None)
    if told.interval_minutes is not None:
        unit = {"minutes": 60, "hours": 3600, "days": 86400}[told.interval_type]
        assert definition.schedule == Every(timedelta(seconds=told.interval_minutes * unit))
